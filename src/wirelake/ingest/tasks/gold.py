"""Derive gold from buckets of connections: exchanges, sessions, violations, and the steps of transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...capture.quarantine import QUARANTINE
from ...gold.addresses import MINUTE_US
from ...gold.arrays import taken
from ...gold.branch_events import EVENTS, WORK, part_of
from ...gold.connections import CONNECTIONS
from ...gold.exchanges import EXCHANGES
from ...gold.facts import FED
from ...gold.open import OPEN
from ...gold.sessions import SESSIONS
from ...gold.steps import GoldCarry, GoldSteps
from ...gold.tables import ACCOUNTING
from ...gold.violations import VIOLATIONS
from ...lake import Attempt, StagedFile, StreamWriter, read_ipc
from ..carry import pack, read
from . import StepSettings
from .transactions import count_outcomes

SHARES = {"facts": FED, "connections": CONNECTIONS, "accounts": ACCOUNTING, "quarantine": QUARANTINE}
"""What goes from decoding to gold."""


ROWS_AT_ONCE = 1 << 16
"""Rows of shares that the steps are fed with at once, if they come in smaller parts."""


@dataclass(frozen=True)
class Bucket:
    """One bucket of connections: its files of each partition, in their order, and what was undecided before."""

    number: int
    shares: tuple[dict[str, StagedFile], ...]
    carry: str | None

    @property
    def rows(self) -> int:
        return 1 + sum(file.rows for share in self.shares for file in share.values())


@dataclass(frozen=True)
class GoldTask:
    """Some buckets, one after the other."""

    settings: StepSettings
    buckets: tuple[Bucket, ...]
    watermark_us: int | None

    @property
    def rows(self) -> int:
        return sum(bucket.rows for bucket in self.buckets)

    def run(self) -> GoldResult:
        with self.settings.attempt(f"g{self.buckets[0].number:03d}") as attempt:
            return _Gold(self, attempt).run()


@dataclass
class GoldResult:
    files: list[StagedFile] = field(default_factory=list)
    carry: dict[str, StagedFile] = field(default_factory=dict)
    """By its name."""
    calls: dict[int, StagedFile] = field(default_factory=dict)
    """By part of the transactions, like ``moves``."""
    moves: dict[int, StagedFile] = field(default_factory=dict)
    known_until_us: int | None = None
    """Until when all connections are known; None: to the end."""
    open_minutes: set[int] = field(default_factory=set)
    """Those with requests that are not decided."""
    violations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


def carry_name(bucket: int) -> str:
    return f"gold-{bucket:03d}"


class _Gold:
    """The steps of each bucket, and the files that they fill."""

    def __init__(self, task: GoldTask, attempt: Attempt) -> None:
        self.task = task
        self.attempt = attempt
        self.protocols = task.settings.load_protocols()
        self.calls: dict[int, StreamWriter] = {}
        self.moves: dict[int, StreamWriter] = {}
        self.result = GoldResult()

    def run(self) -> GoldResult:
        for bucket in self.task.buckets:
            self._run(bucket)
        result = self.result
        result.files = self.attempt.close()
        result.calls = {part: stream.close() for part, stream in self.calls.items()}
        result.moves = {part: stream.close() for part, stream in self.moves.items()}
        return result

    def _run(self, bucket: Bucket) -> None:
        carry = read(self.attempt.store, bucket.carry, GoldCarry) if bucket.carry is not None else None
        self.steps = GoldSteps(carry, self.protocols)
        for shares in _together(bucket.shares):
            self._feed(shares)
        final = self.task.settings.final
        if final:
            self._feed([], final=True)
        self._settle(self.task.watermark_us, final)
        if not final:
            for rows in self.steps.open():
                self.attempt.table("gold/open", OPEN, dated_by=None).write(rows)
                self.result.open_minutes |= _minutes_of_requests(rows)
            self._know_until(self.steps.known_until())
            name = carry_name(bucket.number)
            self.result.carry[name] = self.attempt.stage_bytes(name, pack(self.steps.carry()))

    def _know_until(self, until: int | None) -> None:
        times = [time for time in (until, self.result.known_until_us) if time is not None]
        self.result.known_until_us = min(times, default=None)

    def _feed(self, shares: list[dict[str, StagedFile]], final: bool = False) -> None:
        """Take what some partitions have for this bucket."""
        given = {
            name: self._table(schema, [one[name] for one in shares if name in one]) for name, schema in SHARES.items()
        }
        accounts = _newest(given["accounts"], "connection", "direction")
        rows = self.steps.feed(given["facts"], _connections(given["connections"]), accounts, given["quarantine"], final)
        self._write_exchanges(rows.exchanges)
        self._write_violations(rows.violations)
        self._write_events(rows.events)

    def _table(self, schema: pa.Schema, files: list[StagedFile]) -> pa.Table:
        return pa.Table.from_batches(read_ipc(self.attempt.store, *files), schema)

    def _settle(self, now: int | None, final: bool) -> None:
        self._write_violations(self.steps.settle_violations(now, final))
        for rows in self.steps.settle_exchanges(now, final):
            self._write_exchanges(rows)
        rows = self.steps.settle_sessions(now, final)
        if rows.num_rows:
            self.attempt.table("gold/sessions", SESSIONS, dated_by="first_ts").write(rows)

    def _write_events(self, events: pa.Table) -> None:
        """Hand events to the parts that transactions are looked at in, calls and what moves them apart."""
        if not events.num_rows:
            return
        is_call = events.column("step").to_numpy() == WORK
        place = 2 * part_of(events, self.task.settings.buckets) + is_call
        events = taken(events, np.argsort(place, kind="stable"))
        start = 0
        for number, count in zip(*(values.tolist() for values in np.unique(place, return_counts=True)), strict=True):
            name, streams = ("calls", self.calls) if number % 2 else ("moves", self.moves)
            part = number // 2
            streams[part] = self.attempt.stream(f"{name}-{part:03d}", EVENTS)
            streams[part].write(events.slice(start, count))
            start += count

    def _write_violations(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.attempt.table("gold/violations", VIOLATIONS).write(rows)
            self.result.violations += rows.num_rows

    def _write_exchanges(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.attempt.table("gold/exchanges", EXCHANGES, dated_by="request_ts").write(rows)
            count_outcomes(rows, self.result.outcomes)


def _minutes_of_requests(rows: pa.Table) -> set[int]:
    times = rows.column("since_ts").filter(pc.equal(rows.column("kind"), "request")).cast(pa.int64()).drop_null()
    return set(np.unique(times.to_numpy() // MINUTE_US).tolist())


def _together(shares: Iterable[dict[str, StagedFile]]) -> Iterator[list[dict[str, StagedFile]]]:
    """Put partitions with little for this bucket together: each time that the steps are fed costs milliseconds."""
    waiting: list[dict[str, StagedFile]] = []
    rows = 0
    for one in filter(None, shares):
        waiting.append(one)
        rows += sum(file.rows for file in one.values())
        if rows >= ROWS_AT_ONCE:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting


def _connections(rows: pa.Table) -> pa.Table:
    """The last row of each connection, with the capture in which it was seen first."""
    captures: dict[str, str] = {}
    for name, capture in zip(rows.column("connection").to_pylist(), rows.column("capture").to_pylist(), strict=True):
        captures.setdefault(name, capture)
    newest = _newest(rows, "connection")
    first = pa.array([captures[name] for name in newest.column("connection").to_pylist()], pa.string())
    return newest.set_column(newest.schema.get_field_index("capture"), "capture", first)


def _newest(rows: pa.Table, *key: str) -> pa.Table:
    """The last row of each key."""
    names = zip(*(rows.column(name).to_pylist() for name in key), strict=True)
    last = {name: row for row, name in enumerate(names)}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))
