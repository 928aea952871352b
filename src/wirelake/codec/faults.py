"""What the exact reader says about a frame, as a value. Broken streams repeat themselves, so faults are remembered."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..errors import DecodeError
from ..spec.resolve import Layout
from .walk import walk

_MOST_BYTES = 1 << 18
"""Frames whose faults are remembered have no more bytes than this, and each counts as some more."""
_OVERHEAD = 1 << 9


class Faults:
    """The faults of frames in one layout: each is a pure function of the frame's bytes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.known: dict[bytes, DecodeError] = {}
        self._bytes = 0

    def judge(self, frame: bytes) -> Any:
        """Return the message in ``frame``, or the DecodeError that says why there is none."""
        fault = self.known.get(frame)
        if fault is not None:
            return fault
        try:
            return walk(self.layout, frame)
        except DecodeError as error:
            self._remember(frame, error.as_value())
            return error

    def _remember(self, frame: bytes, fault: DecodeError) -> None:
        self._bytes += len(frame) + _OVERHEAD
        if self._bytes > _MOST_BYTES:
            self.known.clear()
            self._bytes = len(frame) + _OVERHEAD
        if self._bytes <= _MOST_BYTES:
            self.known[frame] = fault


@lru_cache(maxsize=64)
def faults_for(layout: Layout) -> Faults:
    return Faults(layout)
