"""Cut captures into partitions that can be decoded side by side, with the result of decoding them in sequence.

To find out what is known where a partition begins, the planner decodes the captures itself, without columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .decode import WINDOW_BYTES, CaptureDecoder, DecodedWindow
from .partitions import CaptureRange, Partition
from .settings import ReadSettings
from .state import State

PARTITION_BYTES = 64 << 20
"""What is decoded and judged at a time: memory grows with it, not with the captures."""


@dataclass(slots=True)
class Plan:
    partitions: list[Partition]
    after: State | None
    """What is known behind the last one; None if it was not looked at: then the only partition will tell."""
    marks: dict[str, Any] = field(default_factory=dict)
    """Where each capture was left, by path."""


def plan(
    pieces: Sequence[CaptureRange],
    settings: ReadSettings,
    *,
    before: State | None = None,
    partition_bytes: int = PARTITION_BYTES,
    is_last: bool = False,
    progress: Callable[[int], None] = lambda _: None,
    found: Callable[[Partition], None] = lambda _: None,
) -> Plan:
    """Cuts captures, read one after the other as one, into partitions of about that many bytes.

    ``found`` is given each partition as soon as it is known.
    """
    before = before or State()
    if sum(piece.size for piece in pieces) <= partition_bytes:
        found(only := Partition(0, tuple(pieces), before.pack(), is_last, is_only=True))
        return Plan([only], None)
    window = min(WINDOW_BYTES, max(partition_bytes // 8, 1 << 10))  # cuts fall between windows
    decoder = CaptureDecoder(replace(settings, columns={}, counts_only=True), before, window)
    cutter = _Cutter(decoder, partition_bytes, found)
    for piece in pieces:
        cutter.begin(piece)
        for seen in decoder.run(piece):
            cutter.add(seen)
            progress(seen.consumed)
        cutter.end()
    cutter.cut()
    if is_last:
        cutter.put((), decoder.state(), is_last=True)
    return Plan(cutter.partitions, decoder.state(), decoder.marks)


class _Cutter:
    """Collects ranges until there are enough bytes for a partition."""

    def __init__(self, decoder: CaptureDecoder, partition_bytes: int, found: Callable[[Partition], None]) -> None:
        self.decoder = decoder
        self.partition_bytes = partition_bytes
        self.found = found
        self.partitions: list[Partition] = []
        self._start()

    def _start(self) -> None:
        self.before = self.decoder.state()
        self.pieces: list[CaptureRange] = []
        self.touched: set[str] = set()
        self.size = 0

    def begin(self, piece: CaptureRange) -> None:
        self.piece, self.piece_size = piece, 0

    def add(self, seen: DecodedWindow) -> None:
        self.touched.update(connection.id for connection in seen.chunks.connections)
        self.piece_size += seen.consumed
        if self.size + self.piece_size >= self.partition_bytes:
            mark, stop = self.decoder.reader.mark(), self.decoder.reader.position
            self.pieces.append(replace(self.piece, stop=stop, size=self.piece_size))
            self.cut()
            self.piece, self.piece_size = replace(self.piece, start=mark), 0

    def end(self) -> None:
        if self.piece_size or self.piece.start is None:
            self.pieces.append(replace(self.piece, size=self.piece_size))
            self.size += self.piece_size

    def cut(self) -> None:
        if self.pieces:
            self.put(tuple(self.pieces), self.before.only(self.touched))
        self._start()

    def put(self, pieces: tuple[CaptureRange, ...], before: State, is_last: bool = False) -> None:
        self.partitions.append(Partition(len(self.partitions), pieces, before.pack(), is_last))
        self.found(self.partitions[-1])
