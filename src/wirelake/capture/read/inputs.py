"""Take a first look at files: which are captures, of which kind, and in which order they were taken."""

from __future__ import annotations

from dataclasses import dataclass

from . import kind_of, open_capture
from .files import open_binary

_PEEK_BYTES = 1 << 16
_HEAD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Peek:
    """The first look at a capture."""

    path: str
    kind: str
    first_us: int | None
    """The time of its first packet of a connection, if it has one near its beginning."""


def peek(path: str, kind: str | None = None) -> Peek:
    """Look at the beginning of a capture; raise CaptureError if it is none."""
    from ..tcp import Tracker

    if kind is None:
        with open_binary(path) as file:
            kind = kind_of(path, file.read(_HEAD_BYTES))
    if kind == "raw":
        return Peek(path, kind, None)
    for chunks in open_capture(path, Tracker(), kind=kind, window=_PEEK_BYTES):
        known = [connection.first_us for connection in chunks.connections if connection.first_us is not None]
        return Peek(path, kind, min(known, default=None))
    return Peek(path, kind, None)


def in_order(peeks: list[Peek]) -> list[Peek]:
    """Return the captures in the order in which they were taken: a connection may go on in the next file."""
    return sorted(peeks, key=lambda peek: (peek.first_us is None, peek.first_us or 0, peek.path))
