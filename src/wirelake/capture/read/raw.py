"""Raw stream files: the bytes of one direction of one connection and nothing else.

The name tells the direction, ``orders-to_server.bin`` or ``orders-to_client.bin`` (without either: to server), and two
files that differ only in that are one connection. There are no times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..chunks import DIRECTIONS, TO_SERVER, Chunks, Connection, Counts, connection_id
from .tap import read_into

WINDOW = 16 << 20
NO_TIME = -1
_DIRECTION = re.compile(r"(?:^|[-_.])(to_server|to_client)(?=$|[-_.])")


def stream_of(path: str) -> tuple[Connection, int]:
    """The connection and the direction that the name of a raw file tells."""
    name = PurePosixPath(path.replace("\\", "/")).name.removesuffix(".gz")
    found = _DIRECTION.search(name)
    direction = DIRECTIONS.index(found[1]) if found else TO_SERVER
    pair = name[: found.start()] + name[found.end() :] if found else name
    identity = connection_id("", f"raw|{pair}")
    return Connection(identity, "", "", is_whole=True), direction


@dataclass(frozen=True, slots=True)
class RawMark:
    """A place in a raw file."""

    position: int


class RawReader:
    """Reads a raw file in windows, each one chunk. What it has to remember is its position."""

    kind = "raw"

    def __init__(
        self,
        source: BinaryIO,
        path: str,
        *,
        size: int = 0,
        start: RawMark | None = None,
        stop: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self.path = path
        self.connection, self.direction = stream_of(path)
        self.size = size
        self.counts = Counts()
        self.position = start.position if start is not None else 0
        self._source = source
        self._stop = stop
        self._window = max(window, 1)
        if self.position:
            source.seek(self.position)

    def mark(self) -> RawMark:
        return RawMark(self.position)

    def __iter__(self) -> Iterator[Chunks]:
        while len(data := self._more()):
            position, self.position = self.position, self.position + len(data)
            self.counts.bytes += len(data)
            yield self._chunk(data, position)
        self.counts.broken = getattr(self._source, "broken", "")

    def _more(self) -> NDArray[np.uint8]:
        count = self._window if self._stop is None else min(self._window, max(0, self._stop - self.position))
        buffer = np.empty(count, np.uint8)
        return buffer[: read_into(self._source, buffer.data, self.path)]

    def _chunk(self, data: NDArray[np.uint8], position: int) -> Chunks:
        return Chunks(
            data,
            [self.connection],
            np.zeros(1, np.int32),
            np.array([self.direction], np.int8),
            np.array([position]),
            np.array([len(data)]),
            np.array([NO_TIME]),
            np.zeros(1, np.int64),
            np.array([position]),
        )
