"""Captures in pieces that can be decoded side by side, with the result of decoding them one after the other.

A partition is a range of one or more capture files and what is known where it begins: the connections that occur in it,
with their pending bytes. To find that out, the planner runs the same machine over the captures, without columns.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .chunks import Chunks, Counts
from .envelope import Output
from .read import open_capture
from .reading import Reading
from .streams import Streams
from .tcp import Tracker

PARTITION_BYTES = 64 << 20
"""What is decoded and judged at a time: memory grows with it, not with the captures."""
WINDOW_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of one capture file. ``start`` and ``stop`` are None at the ends of the file."""

    path: str
    capture: str
    """What the tables call it."""
    kind: str | None = None
    start: Any = None
    stop: int | None = None
    is_growing: bool = False
    """More may be written to it: a last packet that is not whole is left for then."""
    size: int = 0
    """Bytes of the file in this range, as far as that is known: for progress only."""


@dataclass(frozen=True, slots=True)
class Partition:
    """``before`` is the packed state of the connections that occur in it. ``is_last``: nothing ever comes behind it."""

    number: int
    pieces: tuple[Piece, ...]
    before: bytes = b""
    is_last: bool = False
    is_only: bool = False
    """Nobody has read it before: what is known behind it is to be told by whoever decodes it."""

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)


@dataclass(slots=True)
class State:
    """Everything that is remembered between windows, partitions, files and runs."""

    tracker: Any = None
    streams: Any = None

    def only(self, ids: set[str]) -> State:
        return State(
            self.tracker and self.tracker.only(ids),
            self.streams and self.streams.only(ids),
        )

    def pack(self) -> bytes:
        return zlib.compress(pickle.dumps((self.tracker, self.streams), protocol=5), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> State:
        # Only what this program packed itself comes here: partitions of its own jobs, carries of its own lakes.
        return cls(*pickle.loads(zlib.decompress(packed))) if packed else cls()


@dataclass(slots=True)
class Seen:
    """What decoding a window gave."""

    chunks: Chunks
    output: Output
    piece: Piece | None
    consumed: int = 0
    is_end: bool = False
    """Nothing more comes: every connection has ended."""


class Machine:
    """Tracker and streams together: captures in, rows out."""

    def __init__(self, reading: Reading, state: State | None = None, window: int = WINDOW_BYTES) -> None:
        state = state or State()
        self.window = window
        self.reading = reading
        self.tracker = Tracker(state.tracker, ports=frozenset(reading.ports))
        self.streams = Streams(reading, state.streams)
        self.reader: Any = None
        self.counts: dict[str, Counts] = {}
        self.marks: dict[str, Any] = {}
        """Where each capture was left, by path."""

    def run(self, piece: Piece) -> Iterator[Seen]:
        self.reader = reader = open_capture(
            piece.path,
            self.tracker,
            kind=piece.kind,
            start=piece.start,
            stop=piece.stop,
            window=self.window,
            growing=piece.is_growing,
        )
        before = reader.position
        for chunks in reader:
            if piece.kind == "raw" and len(self.reading.protocols) == 1:
                # Bare bytes have neither ports nor a beginning to go by, and nothing else is looked for.
                for connection in chunks.connections:
                    connection.protocol = self.reading.protocols[0]
            yield Seen(chunks, self.streams.feed(chunks, piece.capture), piece, reader.position - before)
            before = reader.position
        self.counts[piece.capture] = reader.counts
        self.marks[piece.path] = reader.mark()

    def finish(self) -> Iterator[Seen]:
        """Nothing more comes."""
        chunks = self.tracker.finish()
        yield Seen(chunks, self.streams.feed(chunks, ""), None)
        yield Seen(chunks, self.streams.finish(), None, is_end=True)

    def state(self) -> State:
        return State(self.tracker.snapshot(), self.streams.snapshot())


def decode(partition: Partition, reading: Reading) -> tuple[Machine, Iterator[Seen]]:
    """The rows of a partition, window by window, and the machine that makes them."""
    machine = Machine(reading, State.unpack(partition.before))

    def run() -> Iterator[Seen]:
        for piece in partition.pieces:
            yield from machine.run(piece)
        if partition.is_last:
            yield from machine.finish()

    return machine, run()


@dataclass(slots=True)
class Plan:
    partitions: list[Partition]
    after: State | None
    """What is known behind the last one; None if it was not looked at: then the only partition will tell."""
    marks: dict[str, Any] = field(default_factory=dict)
    """Where each capture was left, by path."""


def plan(
    pieces: Sequence[Piece],
    reading: Reading,
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
    machine = Machine(replace(reading, columns={}, counts_only=True), before, window)
    cutter = _Cutter(machine, partition_bytes, found)
    for piece in pieces:
        cutter.begin(piece)
        for seen in machine.run(piece):
            cutter.add(seen)
            progress(seen.consumed)
        cutter.end()
    cutter.cut()
    if is_last:
        cutter.put((), machine.state(), is_last=True)
    return Plan(cutter.partitions, machine.state(), machine.marks)


class _Cutter:
    """Collects ranges until there are enough bytes for a partition."""

    def __init__(self, machine: Machine, partition_bytes: int, found: Callable[[Partition], None]) -> None:
        self.machine = machine
        self.partition_bytes = partition_bytes
        self.found = found
        self.partitions: list[Partition] = []
        self._start()

    def _start(self) -> None:
        self.before = self.machine.state()
        self.pieces: list[Piece] = []
        self.touched: set[str] = set()
        self.size = 0

    def begin(self, piece: Piece) -> None:
        self.piece, self.piece_size = piece, 0

    def add(self, seen: Seen) -> None:
        self.touched.update(connection.id for connection in seen.chunks.connections)
        self.piece_size += seen.consumed
        if self.size + self.piece_size >= self.partition_bytes:
            mark, stop = self.machine.reader.mark(), self.machine.reader.position
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

    def put(self, pieces: tuple[Piece, ...], before: State, is_last: bool = False) -> None:
        self.partitions.append(Partition(len(self.partitions), pieces, before.pack(), is_last))
        self.found(self.partitions[-1])
