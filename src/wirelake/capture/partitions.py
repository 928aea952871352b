"""Cut captures into partitions that can be decoded side by side, with the result of decoding them in sequence.

To find out what is known where a partition begins, the planner decodes the captures itself, without columns.

A task that begins inside a compressed capture has to unpack all that comes before. So its partition is at least as
large as that: partitions of a compressed capture double in size, and all tasks together unpack at most three times
what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from .decode import CaptureDecoder, CaptureRange, DecodedWindow
from .read import ResumePoint
from .read.files import WINDOW_BYTES, compression_of
from .settings import ReadSettings
from .state import State

PARTITION_BYTES = 64 << 20
"""What is decoded and judged at a time: memory grows with it, not with the captures."""
EVENNESS = 8


@dataclass(frozen=True, slots=True)
class Partition:
    """Ranges that are decoded together. ``before`` is the state of the connections that occur in them;
    ``is_last``: nothing ever comes behind them.
    """

    number: int
    ranges: tuple[CaptureRange, ...]
    before: State = field(default_factory=State)
    is_last: bool = False
    is_only: bool = False
    """The planner has not read it: whoever decodes it has to return the state behind it."""

    @property
    def size(self) -> int:
        return sum(captured.size for captured in self.ranges)


@dataclass(slots=True)
class Plan:
    partitions: list[Partition]
    after: State | None
    """What is known behind the last partition; None if the planner read nothing: then the only partition tells it."""
    resume_points: dict[str, ResumePoint] = field(default_factory=dict)
    """Where each capture was left, by path."""
    rest: tuple[CaptureRange, ...] = ()
    """What was not read, because there are partitions enough."""
    notes: list[str] = field(default_factory=list)
    """Why compressed captures could not be unpacked to their ends: whoever decodes the partitions stops before."""


def plan(
    ranges: Sequence[CaptureRange],
    settings: ReadSettings,
    *,
    before: State | None = None,
    partition_bytes: int = PARTITION_BYTES,
    is_last: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    on_partition: Callable[[Partition], None] = lambda _: None,
    evenness: int = EVENNESS,
) -> Plan:
    """Cut captures, read one after the other as one, into partitions of about that many bytes.

    ``on_partition`` is called with each partition as soon as it is known. ``evenness``: partitions may be larger by a
    part in so many.
    """
    before = before or State()
    if sum(captured.size for captured in ranges) <= partition_bytes:
        on_partition(only := Partition(0, tuple(ranges), before, is_last, is_only=True))
        return Plan([only], None)
    planned = index(
        ranges, settings, before, partition_bytes, progress=progress, on_partition=on_partition, evenness=evenness
    )
    if is_last:
        assert planned.after is not None
        planned.partitions.append(Partition(len(planned.partitions), (), planned.after, is_last=True))
        on_partition(planned.partitions[-1])
    return planned


def index(
    ranges: Sequence[CaptureRange],
    settings: ReadSettings,
    before: State,
    partition_bytes: int,
    most: int | None = None,
    *,
    progress: Callable[[int], None] = lambda _: None,
    on_partition: Callable[[Partition], None] = lambda _: None,
    evenness: int = EVENNESS,
) -> Plan:
    """Read captures, one after the other as one, to find where they are cut and what is known there.

    With ``most`` partitions the plan ends, and ``rest`` is where another one goes on, with the state ``after``.
    """
    window = min(WINDOW_BYTES, max(partition_bytes // evenness, 1 << 10))  # cuts fall between windows
    decoder = CaptureDecoder(replace(settings, columns={}, counts_only=True), before, window)
    cutter = _Cutter(decoder, partition_bytes, on_partition)
    notes: list[str] = []
    for number, captured in enumerate(ranges):
        cutter.begin(captured)
        for decoded in decoder.run(captured):
            cutter.add(decoded)
            progress(decoded.consumed)
            if cutter.is_full(most) and not cutter.is_at_end:
                rest = (cutter.captured, *ranges[number + 1 :])
                return Plan(cutter.partitions, decoder.state(), decoder.resume_points, rest, notes)
        cutter.end()
        if decoder.reader is not None and (broken := decoder.reader.source.broken):
            notes.append(f"{captured.capture}: {broken}")
        if cutter.is_full(most):
            return Plan(cutter.partitions, decoder.state(), decoder.resume_points, tuple(ranges[number + 1 :]), notes)
    cutter.cut()
    return Plan(cutter.partitions, decoder.state(), decoder.resume_points, notes=notes)


class _Cutter:
    """Collects ranges until there are enough bytes for a partition."""

    def __init__(
        self, decoder: CaptureDecoder, partition_bytes: int, on_partition: Callable[[Partition], None]
    ) -> None:
        self.decoder = decoder
        self.partition_bytes = partition_bytes
        self.on_partition = on_partition
        self.partitions: list[Partition] = []
        self._start()

    def _start(self) -> None:
        self.before = self.decoder.state()
        self.ranges: list[CaptureRange] = []
        self.touched: set[str] = set()
        self.size = 0

    def begin(self, captured: CaptureRange) -> None:
        self.captured, self.captured_size = captured, 0
        self.is_compressed = bool(compression_of(captured.path))

    def add(self, decoded: DecodedWindow) -> None:
        self.touched.update(connection.id for connection in decoded.chunks.connections)
        self.captured_size += decoded.consumed
        reader = self.decoder.reader
        if reader is not None and self.size + self.captured_size >= self._enough():
            left = max(0, self.captured.size - self.captured_size)
            self.ranges.append(replace(self.captured, stop=reader.position, size=self.captured_size))
            self.cut()
            start = replace(reader.resume_point(), position=reader.position)
            self.captured, self.captured_size = replace(self.captured, start=start, size=left), 0

    def is_full(self, most: int | None) -> bool:
        """Tell whether there are partitions enough, and nothing was read behind them."""
        return len(self.partitions) == most and not self.ranges and not self.captured_size

    @property
    def is_at_end(self) -> bool:
        return self.decoder.reader is not None and self.decoder.reader.source.is_over

    def _enough(self) -> int:
        start = self.captured.start
        unpacked_before = start.position if start is not None and self.is_compressed else 0
        return max(self.partition_bytes, unpacked_before)

    def end(self) -> None:
        """End a range where its capture ended when it was read: meanwhile it may have grown."""
        reader = self.decoder.reader
        if reader is not None and (self.captured_size or self.captured.start is None):
            self.ranges.append(replace(self.captured, stop=reader.source.position, size=self.captured_size))
            self.size += self.captured_size

    def cut(self) -> None:
        if self.ranges:
            before = self.before.only(self.touched)
            self.partitions.append(Partition(len(self.partitions), tuple(self.ranges), before))
            self.on_partition(self.partitions[-1])
        self._start()


def decode_partition(partition: Partition, settings: ReadSettings) -> tuple[CaptureDecoder, Iterator[DecodedWindow]]:
    """Return a decoder and the windows of a partition, which it decodes as they are asked for."""
    decoder = CaptureDecoder(settings, partition.before)

    def windows() -> Iterator[DecodedWindow]:
        for captured in partition.ranges:
            yield from decoder.run(captured)
        if partition.is_last:
            yield from decoder.finish()

    return decoder, windows()
