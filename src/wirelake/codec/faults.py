"""What is in a frame, or what is wrong with it, as a value. Broken streams repeat themselves: faults are remembered."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..errors import DecodeError
from ..spec.resolve import Layout
from .compile import DOUBTS, compile_layout
from .walk import walk

_MOST_BYTES = 1 << 18
"""Frames whose faults are remembered have no more bytes than this, and each counts as some more."""
_OVERHEAD = 1 << 9
_END = 1 << 7
_NOTHING: tuple[bytes | None, None] = None, None


class Faults:
    """The faults of frames in one layout: each is a pure function of the frame's bytes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.quick = compile_layout(layout)
        self.known: dict[bytes, tuple[bytes, Any]] = {}
        self._bytes = 0

    def judge(self, frame: bytes) -> Any:
        """Return the message in ``frame``, or the DecodeError that says why there is none."""
        known = self.recall(frame)
        if known is not None:
            return known
        try:
            message = self.quick(frame, len(frame))
            if message is not None:
                return message
        except DOUBTS:
            pass
        try:
            return walk(self.layout, frame)
        except DecodeError as error:
            self.remember(frame, error.as_value())
            return error

    def recall(self, frame: bytes) -> Any:
        """Return what is remembered of this frame, or None."""
        known, outcome = self.known.get(_key(frame), _NOTHING)
        return outcome if known == frame else None

    def remember(self, frame: bytes, outcome: Any) -> None:
        self._bytes += len(frame) + _OVERHEAD
        if self._bytes > _MOST_BYTES:
            self.known.clear()
            self._bytes = len(frame) + _OVERHEAD
        if self._bytes <= _MOST_BYTES:
            self.known[_key(frame)] = frame, outcome


def _key(frame: bytes) -> bytes:
    """Return what a frame is looked up by: the ends of a long one, since to hash it takes longer than to compare it."""
    return frame if len(frame) <= 4 * _END else frame[:_END] + frame[-_END:]


@lru_cache(maxsize=64)
def faults_for(layout: Layout) -> Faults:
    return Faults(layout)
