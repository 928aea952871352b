"""What a tap has recorded, read back by the readers of captures; and a disk that is soon full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from wirelake.capture.chunks import Connection
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker


@dataclass
class Recorded:
    """A connection of a capture: its bytes each way, and which of them are missing, as (offset, length)."""

    connection: Connection
    streams: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))
    gaps: tuple[list[tuple[int, int]], list[tuple[int, int]]] = field(default_factory=lambda: ([], []))

    @property
    def both(self) -> tuple[bytes, bytes]:
        return bytes(self.streams[0]), bytes(self.streams[1])


def recorded(directory: Path) -> dict[str, Recorded]:
    """The connections in a directory of taps, by id. Missing bytes are zeros in their streams."""
    found: dict[str, Recorded] = {}
    tracker = Tracker()
    for path in sorted(directory.glob("*.tap")):
        reader = open_capture(path, tracker)
        for chunks in reader:
            for one in chunks.connections:
                found.setdefault(one.id, Recorded(one)).connection = one
            for i in range(len(chunks)):
                one = found[chunks.connections[chunks.connection[i]].id]
                way = int(chunks.direction[i])
                offset, length, start = int(chunks.offset[i]), int(chunks.length[i]), int(chunks.start[i])
                if not one.streams[way] and offset and not one.connection.is_whole:
                    one.gaps[way].append((0, offset))
                    one.streams[way].extend(bytes(offset))
                assert offset == len(one.streams[way])
                if start < 0:
                    one.gaps[way].append((offset, length))
                    one.streams[way].extend(bytes(length))
                else:
                    one.streams[way].extend(chunks.data[start : start + length].tobytes())
        assert not reader.counts.notes
    return found


def by_client(directory: Path) -> dict[int, Recorded]:
    """The same by the client's port."""
    return {one.connection.client_port: one for one in recorded(directory).values()}


@contextmanager
def small_disk(place: Path, size: str = "1m") -> Iterator[bool]:
    """A disk of its own; false if this user may not have one."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
