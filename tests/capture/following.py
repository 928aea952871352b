"""What a capture says, put together again from its chunks, with every rule of Chunks checked on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.capture import hostile
from wirelake.capture.chunks import Chunks, Connection, Counts
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker


@dataclass
class Piece:
    """A chunk. ``data`` is None for a gap."""

    offset: int
    length: int
    ts: int
    position: int
    data: bytes | None


@dataclass
class Followed:
    connection: Connection
    pieces: tuple[list[Piece], list[Piece]] = field(default_factory=lambda: ([], []))

    def stream(self, direction: int) -> bytes:
        """The bytes of a direction; what is missing is zeros."""
        return b"".join(piece.data or bytes(piece.length) for piece in self.pieces[direction])

    def gaps(self, direction: int) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for piece in self.pieces[direction]:
            if piece.data is None:
                hostile._add(spans, piece.offset, piece.length)
        return spans

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        one = self.connection
        return (one.client, one.client_port), (one.server, one.server_port)


class Follower:
    """Collects chunks. ``all`` has the connections in the order in which they were first seen."""

    def __init__(self) -> None:
        self.all: dict[str, Followed] = {}

    def add(self, chunks: Chunks) -> None:
        for connection in chunks.connections:
            followed = self.all.setdefault(connection.id, Followed(connection))
            assert followed.ends == Followed(connection).ends
            followed.connection = connection
        for k in range(len(chunks)):
            followed = self.all[chunks.connections[chunks.connection[k]].id]
            offset, length, start = int(chunks.offset[k]), int(chunks.length[k]), int(chunks.start[k])
            pieces = followed.pieces[chunks.direction[k]]
            assert length > 0
            assert offset == (pieces[-1].offset + pieces[-1].length if pieces else 0)
            data = None if start < 0 else chunks.data[start : start + length].tobytes()
            assert data is None or len(data) == length
            pieces.append(Piece(offset, length, int(chunks.ts[k]), int(chunks.position[k]), data))


def follow(
    paths: Path | Sequence[Path], *, window: int = 16 << 20, ports: Iterable[int] = (), tracker: Tracker | None = None
) -> tuple[list[Followed], list[Counts]]:
    """The connections of captures that are read one after the other, and what was counted in each."""
    tracker = tracker or Tracker(ports=frozenset(ports))
    follower = Follower()
    counts = []
    for path in [paths] if isinstance(paths, Path) else paths:
        reader = open_capture(path, tracker, window=window)
        for chunks in reader:
            follower.add(chunks)
        counts.append(reader.counts)
    follower.add(tracker.finish())
    return list(follower.all.values()), counts


def plain(path: Path, packets: int = 400, connections: int = 3, seed: int = 1) -> list[hostile.Packet]:
    """A capture that needs nothing but patience: connections that talk both ways, in segments of all sizes."""
    rng = Random(seed)
    made = []
    ts_us = 1_700_000_000_000_000
    ends = [("10.0.0.1", 40000 + number, "10.0.0.2", 7771) for number in range(connections)]
    numbers = {}
    for way in ends:
        numbers[way], numbers[way[2:] + way[:2]] = rng.getrandbits(32), rng.getrandbits(32)

    def put(way: hostile.Way, flags: int, data: bytes = b"") -> None:
        nonlocal ts_us
        ts_us += rng.randint(1, 3000)
        back = way[2:] + way[:2]
        ack = numbers[back] if flags & hostile.ACK else 0
        made.append(hostile.Packet(ts_us * 1000, *way, numbers[way], ack, flags, b"", data))
        numbers[way] = (numbers[way] + len(data) + bool(flags & (hostile.SYN | hostile.FIN))) & hostile.LOW32

    for way in ends:
        put(way, hostile.SYN)
        put(way[2:] + way[:2], hostile.SYN | hostile.ACK)
        put(way, hostile.ACK)
    for _ in range(packets):
        way = rng.choice(ends)
        if rng.random() < 0.5:
            way = way[2:] + way[:2]
        if rng.random() < 0.3:
            put(way, hostile.ACK)
        else:
            put(way, hostile.ACK | hostile.PSH, rng.randbytes(rng.choice([1, 10, 100, 1460])))
    for way in ends:
        put(way, hostile.ACK | hostile.FIN)
        put(way[2:] + way[:2], hostile.ACK | hostile.FIN)
        put(way, hostile.ACK)
    hostile.write_pcap(path, made)
    return made
