"""Small taps, written and read back: what tests of both sides share."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from wirelake.capture.chunks import Chunks, Connection
from wirelake.capture.read import ResumePoint
from wirelake.capture.read.files import CaptureFile
from wirelake.capture.read.tap import TapConnections, TapReader
from wirelake.capture.write.tap import TapWriter

CLIENT, SERVER = ("10.0.0.1", 4711), ("10.0.0.2", 7771)
SET = bytes(range(16))
START_US = 1_700_000_000_000_000
Step = tuple[str, int, int, int]
"""What happens, which connection, direction, size."""


class Found:
    """What the chunks of some readers hold, put together."""

    def __init__(self) -> None:
        self.streams: dict[tuple[str, int], bytearray] = defaultdict(bytearray)
        self.gaps: list[tuple[str, int, int, int]] = []
        self.rows: list[tuple[Any, ...]] = []
        self.connections: dict[str, Connection] = {}
        self.ends: dict[tuple[str, int], int] = {}

    def add(self, chunks: Chunks) -> None:
        self.connections.update((one.id, one) for one in chunks.connections)
        for i in range(len(chunks)):
            name = chunks.connections[chunks.connection[i]].id
            way = (name, int(chunks.direction[i]))
            offset, length, start = int(chunks.offset[i]), int(chunks.length[i]), int(chunks.start[i])
            assert self.ends.setdefault(way, offset) == offset, "chunks follow one another"
            self.ends[way] = offset + length
            if start < 0:
                self.gaps.append((*way, offset, length))
                continue
            data = chunks.data[start : start + length].tobytes()
            self.streams[way] += data
            self.rows.append((*way, offset, data, int(chunks.ts[i]), int(chunks.position[i])))


def read_tap(
    content: bytes, connections: TapConnections | None = None, start: ResumePoint | None = None, **how: Any
) -> tuple[Found, TapReader]:
    found = Found()
    reader = TapReader(CaptureFile(io.BytesIO(content), **how), connections or TapConnections(), start)
    for chunks in reader:
        found.add(chunks)
    return found, reader


def tap(path: Path, **how: Any) -> TapWriter:
    return TapWriter(path, set_id=SET, **how)


def play(writer: TapWriter, script: Sequence[Step]) -> list[int]:
    """Writes what the steps say, as far as it is possible; tells where each record ended."""
    rng = Random(len(script))
    ends, running = [], []
    for number, (kind, which, direction, size) in enumerate(script):
        ts = START_US + number
        if kind == "open":
            running.append(writer.open((f"10.0.0.{which}", number), SERVER, ts))
        elif not running:
            continue
        elif kind == "data":
            writer.data(running[which % len(running)], direction, ts, rng.randbytes(size))
        elif kind == "skip":
            writer.skip(running[which % len(running)], direction, size)
            continue
        else:
            writer.close(running.pop(which % len(running)), ts)
        writer.flush()
        ends.append(writer.written)
    return ends


def rotated(directory: Path) -> tuple[TapWriter, list[bytes]]:
    directory.mkdir()
    sent = [Random(number).randbytes(3000) for number in range(3)]
    with tap(directory, rotate_bytes=1000) as writer:
        numbers = [writer.open((f"10.0.0.{n}", n), SERVER, START_US) for n in range(3)]
        for at in range(0, 3000, 100):
            for number in numbers:
                writer.data(number, at // 100 % 2, START_US + at, sent[number][at : at + 100])
        writer.close(numbers[0], START_US + 3000)
    return writer, sent


def together(paths: Iterable[Path]) -> Found:
    found, connections = Found(), TapConnections()
    for path in paths:
        with path.open("rb") as source:
            for chunks in TapReader(CaptureFile(source), connections):
                found.add(chunks)
        connections = TapConnections(connections.state())
    return found
