"""Ranges of capture files, and the partitions that are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CaptureRange:
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
    pieces: tuple[CaptureRange, ...]
    before: bytes = b""
    is_last: bool = False
    is_only: bool = False
    """Nobody has read it before: what is known behind it is to be told by whoever decodes it."""

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)
