"""Read raw files: the bytes of one direction of one connection and nothing else.

The name says the direction, ``orders-to_server.bin`` or ``orders-to_client.bin`` (to server if it says neither), and
two files that differ only in that are one connection. There are no times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ..chunks import DIRECTIONS, TO_SERVER, Chunks, Connection, Counts, connection_id
from . import ResumePoint
from .files import CaptureFile
from .unpack import without_suffix

NO_TIME = -1
_DIRECTION = re.compile(r"(?:^|[-_.])(to_server|to_client)(?=$|[-_.])")


def stream_of(path: str) -> tuple[Connection, int]:
    """Return the connection and the direction that the name of a raw file says."""
    name = without_suffix(PurePosixPath(path.replace("\\", "/")).name)
    match = _DIRECTION.search(name)
    direction = DIRECTIONS.index(match[1]) if match else TO_SERVER
    pair = name[: match.start()] + name[match.end() :] if match else name
    identity = connection_id("", f"raw|{pair}")
    return Connection(identity, "", "", is_whole=True), direction


class RawReader:
    """Reads a raw file in windows, each as one chunk."""

    kind = "raw"

    def __init__(self, source: CaptureFile, start: ResumePoint | None = None) -> None:
        self.connection, self.direction = stream_of(source.path)
        self.counts = Counts()
        self.position = start.position if start is not None else 0
        self.source = source
        if self.position:
            source.seek(self.position)

    def resume_point(self) -> ResumePoint:
        return ResumePoint(self.position)

    def __iter__(self) -> Iterator[Chunks]:
        while len(data := self.source.more()):
            position, self.position = self.position, self.position + len(data)
            self.counts.bytes += len(data)
            yield self._chunk(data, position)
        self.counts.broken = self.source.broken

    def _chunk(self, data: NDArray[np.uint8], position: int) -> Chunks:
        row = (0, self.direction, position, len(data), NO_TIME, 0, position)
        return Chunks(data, [self.connection], *np.array([row], np.int64).T)
