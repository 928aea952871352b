"""Where the frames of a live stream begin and end, in whatever pieces its bytes come.

Live sessions neither search nor guess: where a length breaks its limits, the connection ends. So this needs of a
declaration only where the length stands, what it counts and what it may be. It serves every protocol whose length
stands at a fixed place, and holds at most one frame.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from ..errors import LimitExceeded
from ..spec import nodes as n
from ..spec.resolve import Layout
from .headers import NO_LIMIT
from .numbers import unpacker

C = TypeVar("C")


class Lengths:
    """How the frames of a layout say how long they are: shared by all its streams. ``limit`` is on lengths, 0 for that
    of the declaration.
    """

    def __init__(self, layout: Layout, limit: int = 0) -> None:
        part = next((part for part in layout.frame.parts if isinstance(part, n.Size)), None)
        if part is None or isinstance(part.wire, n.Escaped):
            raise ValueError(f"frames of {layout.protocol.name} have no length at a fixed place")
        self._part = part
        at = layout.size_before(part)
        behind = at + layout.part_size(part)
        extra = 0 if part.counts == "whole" else behind
        least = max(part.least, 0 if extra else behind)
        declared: int = NO_LIMIT if part.most is None else part.most
        most = min(declared, limit) if limit else declared
        self.plan = (unpacker(part.wire), at, behind, extra, least, most)
        """What reads the length, where it stands, where it ends, what to add to it, and its limits."""

    def fault(self, length: int) -> LimitExceeded:
        _, at, _, _, least, most = self.plan
        word, limit = ("below", least) if length < least else ("above", most)
        text = f"length {length} is {word} the limit of {limit}"
        return LimitExceeded(text, rule=self._part.rule, path=self._part.name, offset=at, limit=limit, actual=length)


lengths_of = lru_cache(maxsize=64)(Lengths)


class QuickFrames:
    """The frames of one stream. Its length is that of the bytes that wait for the rest of their frame."""

    __slots__ = ("_lengths", "_needed", "_rest")

    def __init__(self, layout: Layout, limit: int = 0) -> None:
        self._lengths = lengths_of(layout, limit)
        self._rest = bytearray()
        self._needed = 0

    def __len__(self) -> int:
        return len(self._rest)

    def read(self, data: bytes, take: Callable[[C, bytes, int, int], object], context: C) -> None:
        """Call ``take(context, buffer, start, stop)`` for each frame that is whole now, until it returns a true value.

        ``start`` is behind the length. A length beyond its limits raises LimitExceeded. Both end the stream.
        """
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < self._needed:
                return
            data = bytes(rest)
            rest.clear()
        unpack, place, behind, extra, least, most = self._lengths.plan
        at, end, needed = 0, len(data), behind
        while end - at >= behind:
            (length,) = unpack(data, at + place)
            if length > most or length < least:
                raise self._lengths.fault(length)
            stop = at + extra + length
            if stop > end:
                needed = stop - at
                break
            if take(context, data, at + behind, stop):
                return
            at = stop
        if at < end:
            # Copied once more when the frame's length is known, and then when it is whole.
            rest += data[at:] if at else data
            self._needed = needed
