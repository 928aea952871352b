"""Rows that wait until something with their key comes. There may be millions of them, and most are never touched.

They lie in blocks, each with an index of its keys. Small blocks are put together into larger ones as in a counter, so
that a row is moved a few times only; what is taken out is crossed off, and a block that is mostly crossed off, packed.
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


class _Block(Generic[Rows]):
    """``order`` are the places of all rows that are here, by their keys; ``keys`` are these."""

    def __init__(self, rows: Rows, size: int, order: NDArray[np.int64], keys: Keys) -> None:
        self.rows = rows
        self.here = np.ones(size, np.bool_)
        self.count = size
        self._order = order
        self._keys = keys

    @classmethod
    def of(cls, rows: Rows, key: Keys) -> _Block[Rows]:
        order = np.argsort(key, kind="stable")
        return cls(rows, len(key), order, key[order])

    def having(self, wanted: Keys) -> Mask:
        """The rows with these keys, which are sorted and not twice."""
        start, stop = np.searchsorted(self._keys, wanted), np.searchsorted(self._keys, wanted, "right")
        found = np.zeros(len(self.here), np.bool_)
        lengths = stop - start
        ends = np.cumsum(lengths)
        places = np.repeat(stop - ends, lengths) + np.arange(lengths.sum())
        found[self._order[places]] = True
        return found & self.here

    def index(self) -> tuple[NDArray[np.int64], Keys]:
        """Order and keys of the rows that are left, as if they were all."""
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
        self._blocks: list[_Block[Rows]] = []

    def __len__(self) -> int:
        return sum(block.count for block in self._blocks)

    def put(self, rows: Rows, key: Keys) -> None:
        if len(key):
            self._blocks.append(_Block.of(rows, key))
        while len(self._blocks) > 1 and self._blocks[-2].count < 2 * self._blocks[-1].count:
            last, before = self._blocks.pop(), self._blocks.pop()
            self._blocks.append(self._packed(before, last))

    def take(self, wanted: Keys, also: Callable[[Rows], Mask] | None = None) -> list[Rows]:
        """Takes out the rows with these keys, and those that ``also`` tells."""
        wanted = arrays.distinct(wanted)
        found = []
        for block in self._blocks:
            mask = block.having(wanted)
            if also is not None:
                mask |= also(block.rows) & block.here
            if mask.any():
                found.append(self._pick(block.rows, mask))
                block.here &= ~mask
                block.count = int(block.here.sum())
        self._blocks = [
            block if 2 * block.count >= len(block.here) else self._packed(block)
            for block in self._blocks
            if block.count
        ]
        return found

    def all(self) -> list[Rows]:
        return [self._whole(block) for block in self._blocks if block.count]

    def take_all(self) -> list[Rows]:
        found, self._blocks = self.all(), []
        return found

    def _whole(self, block: _Block[Rows]) -> Rows:
        return block.rows if block.count == len(block.here) else self._pick(block.rows, block.here)

    def _packed(self, *blocks: _Block[Rows]) -> _Block[Rows]:
        if self._needed is not None:
            for block in blocks:
                block.here &= self._needed(block.rows)
                block.count = int(block.here.sum())
        rows = self._join([self._whole(block) for block in blocks])
        orders, keys = zip(*(block.index() for block in blocks), strict=True)
        starts = np.cumsum([0, *(block.count for block in blocks)])
        order = np.concatenate([places + start for places, start in zip(orders, starts, strict=False)])
        key = np.concatenate(keys)
        # Each part is in order already, which this way of sorting makes use of.
        again = np.argsort(key, kind="stable")
        return _Block(rows, int(starts[-1]), order[again], key[again])
