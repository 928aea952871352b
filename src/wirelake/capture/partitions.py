"""Ranges of capture files, and the partitions that are made of them."""

from __future__ import annotations

from dataclasses import dataclass

from .read.resume import ResumePoint


@dataclass(frozen=True, slots=True)
class CaptureRange:
    """A range of one capture file. ``start`` and ``stop`` are None at the ends of the file."""

    path: str
    capture: str
    """What the tables call it."""
    kind: str | None = None
    start: ResumePoint | None = None
    stop: int | None = None
    is_growing: bool = False
    """The file may grow: an incomplete last packet is left for later."""
    size: int = 0
    """Bytes of the file in this range, as far as that is known: for progress only."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Ranges that are decoded together. ``before`` is the packed state of the connections that occur in them;
    ``is_last``: nothing ever comes behind them.
    """

    number: int
    ranges: tuple[CaptureRange, ...]
    before: bytes = b""
    is_last: bool = False
    is_only: bool = False
    """The planner has not read it: whoever decodes it has to return the state behind it."""

    @property
    def size(self) -> int:
        return sum(captured.size for captured in self.ranges)
