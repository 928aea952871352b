"""Find where captures can be cut, and what is known there. The bytes of a capture pass through workers only.

The captures of a sensor are read one after the other, so the index is a chain of tasks: each goes on where the one
before ended, and what it finds is decoded while the next one reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...capture.decode import CaptureDecoder, CaptureRange
from ...capture.partitions import index
from ...capture.read import ResumePoint
from ...capture.state import State
from ...gold.tables import ACCOUNTING
from ...lake import Attempt, StagedFile
from ...lake.store import Store
from ..carry import pack, read
from . import StepSettings

FIRST_PARTITIONS, PARTITIONS = 2, 8
"""How many partitions a task finds; the first task fewer, since everybody waits for it."""


@dataclass(frozen=True)
class IndexedPartition:
    """Ranges to decode, and the path of what is known where they begin."""

    ranges: tuple[CaptureRange, ...]
    before: str


@dataclass
class CapturesEnd:
    """What captures leave open: the state, where they were left, and what of them waits."""

    state: StagedFile
    resume_points: dict[str, ResumePoint]
    accounts: list[StagedFile] = field(default_factory=list)
    bytes_pending: int = 0
    bytes_held: int = 0
    """Bytes behind holes; they are among the pending ones."""
    holes: int = 0


@dataclass
class IndexResult:
    partitions: list[IndexedPartition]
    rest: tuple[CaptureRange, ...]
    """Where the next task goes on; then ``end`` has the state there."""
    end: CapturesEnd
    notes: list[str]


@dataclass(frozen=True)
class IndexTask:
    """The next partitions of the captures of a sensor. ``before`` is the path of what is known where they begin."""

    settings: StepSettings
    number: int
    ranges: tuple[CaptureRange, ...]
    before: str | None
    partition_bytes: int

    @property
    def size(self) -> int:
        return sum(captured.size for captured in self.ranges)

    def run(self) -> IndexResult:
        with self.settings.attempt(f"i{self.number:05d}") as attempt:
            before = read_state(attempt.store, self.before)
            most = PARTITIONS if self.number else FIRST_PARTITIONS
            planned = index(self.ranges, self.settings.reading, before, self.partition_bytes, most)
            assert planned.after is not None
            partitions = [
                IndexedPartition(one.ranges, attempt.stage_bytes(f"state-{one.number}", pack(one.before)).staged)
                for one in planned.partitions
            ]
            if planned.rest:
                end = CapturesEnd(attempt.stage_bytes("state", pack(planned.after)), planned.resume_points)
            else:
                decoder = CaptureDecoder(self.settings.reading, planned.after)
                decoder.resume_points = planned.resume_points
                end = end_of_captures(self.settings, attempt, decoder)
            attempt.close()
            return IndexResult(partitions, planned.rest, end, planned.notes)


def read_state(store: Store, path: str | None) -> State:
    return read(store, path, State) if path is not None else State()


def end_of_captures(settings: StepSettings, attempt: Attempt, decoder: CaptureDecoder) -> CapturesEnd:
    """Put away the state behind the last capture, and account for what is open."""
    end = CapturesEnd(attempt.stage_bytes("state", pack(decoder.state())), decoder.resume_points)
    if settings.final:
        return end
    accounts = decoder.open_accounts()
    end.bytes_pending = sum(accounts.rows.column("bytes_pending").to_pylist())
    end.bytes_held, end.holes = accounts.held, accounts.holes
    with settings.attempt("open") as open_attempt:
        open_attempt.table("accounting", ACCOUNTING, dated_by=None).write(accounts.rows)
        end.accounts = open_attempt.close()
    return end
