"""Which of the given files are captures, of which kind, and in which order they were taken."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import CaptureError
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
    """Looks at the beginning of a capture; raises CaptureError if it is none."""
    from ..tcp import Tracker

    if kind is None:
        with open_binary(path) as file:
            kind = kind_of(path, file.read(_HEAD_BYTES))
    if kind == "raw":
        return Peek(path, kind, None)
    for chunks in open_capture(path, Tracker(), kind=kind, window=_PEEK_BYTES):
        known = [one.first_us for one in chunks.connections if one.first_us is not None]
        return Peek(path, kind, min(known, default=None))
    return Peek(path, kind, None)


def in_order(peeks: list[Peek]) -> list[Peek]:
    """As they were taken: a connection may go on in the next file."""
    return sorted(peeks, key=lambda one: (one.first_us is None, one.first_us or 0, one.path))


__all__ = ["CaptureError", "Peek", "in_order", "peek"]
