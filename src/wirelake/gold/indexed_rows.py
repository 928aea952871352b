"""Rows that wait until something with their key comes. There may be millions of them, and most are never touched.

They lie in segments, each with an index of its keys. Small segments are merged into larger ones as in a counter, so
that a row is moved only a few times, up to a size that bounds the memory this takes. What is taken out is crossed off;
a segment mostly crossed off is packed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import arrays
from .arrays import Mask

Rows = TypeVar("Rows")
Keys = NDArray[Any]


MANY = 1 << 16
LARGE = 1 << 19
"""Rows of segments that are not merged any more: while two are, there is twice what they hold."""


class _Segment(Generic[Rows]):
    """``order`` are the places of all rows that are here, by their keys; ``keys`` are these."""

    def __init__(self, rows: Rows, size: int, order: NDArray[np.int64], keys: Keys) -> None:
        self.rows = rows
        self.here = np.ones(size, np.bool_)
        self.count = size
        self._order = order
        self._keys = keys

    @classmethod
    def of(cls, rows: Rows, key: Keys) -> _Segment[Rows]:
        order = np.argsort(key)  # rows of a key in any order: they are found all together
        return cls(rows, len(key), order, key[order])

    def having(self, wanted: Keys) -> Mask:
        """Return where the rows with these keys are."""
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        hits = arrays.distinct(place[self._keys[place] == wanted])
        start, stop = hits, np.searchsorted(self._keys, self._keys[hits], "right")
        found = np.zeros(len(self.here), np.bool_)
        lengths = stop - start
        ends = np.cumsum(lengths)
        places = np.repeat(stop - ends, lengths) + np.arange(lengths.sum())
        found[self._order[places]] = True
        return found & self.here

    def index(self) -> tuple[NDArray[np.int64], Keys]:
        """Return order and keys of the rows that are left, as if they were all."""
        if self.count == len(self.here):
            return self._order, self._keys
        left = self.here[self._order]
        places = np.cumsum(self.here) - 1
        return places[self._order[left]], self._keys[left]


class IndexedRows(Generic[Rows]):
    """``pick`` gives the rows where a mask holds, ``join`` puts rows together; ``needed`` tells which still have to
    wait, and is asked when rows are moved.
    """

    def __init__(
        self,
        pick: Callable[[Rows, Mask], Rows],
        join: Callable[[list[Rows]], Rows],
        needed: Callable[[Rows], Mask] | None = None,
    ) -> None:
        self._pick = pick
        self._join = join
        self._needed = needed
        self._segments: list[_Segment[Rows]] = []

    def __len__(self) -> int:
        return sum(segment.count for segment in self._segments)

    def put(self, rows: Rows, key: Keys) -> None:
        if len(key):
            self._segments.append(_Segment.of(rows, key))
        while len(self._segments) > 1 and self._segments[-2].count < min(2 * self._segments[-1].count, LARGE):
            last, before = self._segments.pop(), self._segments.pop()
            self._segments.append(self._packed(before, last))

    def take(self, wanted: Keys, also: Callable[[Rows], Mask] | None = None) -> list[Rows]:
        """Take out the rows with these keys, and those that ``also`` selects."""
        if len(self) > MANY:
            wanted = np.sort(wanted)  # one after the other they are found faster
        found = []
        for segment in self._segments:
            mask = segment.having(wanted)
            if also is not None:
                mask |= also(segment.rows) & segment.here
            if mask.any():
                found.append(self._pick(segment.rows, mask))
                segment.here &= ~mask
                segment.count = int(segment.here.sum())
        self._segments = [
            segment if 2 * segment.count >= len(segment.here) else self._packed(segment)
            for segment in self._segments
            if segment.count
        ]
        return found

    def all(self) -> list[Rows]:
        return [self._whole(segment) for segment in self._segments if segment.count]

    def take_all(self) -> list[Rows]:
        found, self._segments = self.all(), []
        return found

    def _whole(self, segment: _Segment[Rows]) -> Rows:
        return segment.rows if segment.count == len(segment.here) else self._pick(segment.rows, segment.here)

    def _packed(self, *segments: _Segment[Rows]) -> _Segment[Rows]:
        if self._needed is not None:
            for segment in segments:
                segment.here &= self._needed(segment.rows)
                segment.count = int(segment.here.sum())
        rows = self._join([self._whole(segment) for segment in segments])
        orders, keys = zip(*(segment.index() for segment in segments), strict=True)
        starts = np.cumsum([0, *(segment.count for segment in segments)])
        order = np.concatenate([places + start for places, start in zip(orders, starts, strict=False)])
        key = np.concatenate(keys)
        # Each part is in order already, which this way of sorting makes use of.
        again = np.argsort(key, kind="stable")
        return _Segment(rows, int(starts[-1]), order[again], key[again])
