"""What of a connection was not captured, or could not be read: it excuses what would be violations otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FOR_EVER = int(np.iinfo(np.int64).max)

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass
class Losses:
    """Spans of time in which bytes of one direction of a connection were missing or unreadable, in their order.

    ``from_start``: something was lost before anything that can be asked about, if only the beginning.
    """

    from_start: bool = False
    spans: list[tuple[int, int]] = field(default_factory=list)
    new: list[tuple[int, int]] = field(default_factory=list)
    """Those since the last feed."""

    def add(self, start: int, end: int) -> None:
        self.spans.append((start, max(start, end)))
        self.new.append(self.spans[-1])

    def first_us(self) -> int:
        """Return the time since when something may be lost."""
        return -FOR_EVER if self.from_start else self.spans[0][0] if self.spans else FOR_EVER

    def between(self, start: Ints, end: Ints) -> Mask:
        """Say of each span of time whether something was lost in it.

        Losses are in the order of their beginnings and of their ends.
        """
        if not self.spans:
            return np.zeros(len(start), np.bool_)
        starts, ends = np.array(self.spans, np.int64).T
        last = np.searchsorted(starts, end, "right") - 1
        return np.asarray((last >= 0) & (ends[last] > start), np.bool_)

    def covers(self, ts: Ints) -> Mask:
        return self.between(ts - 1, ts)

    def forget(self) -> None:
        """Keep of the losses that there were some, and the last one: all rows so far are judged."""
        self.from_start = self.from_start or bool(self.spans)
        del self.spans[:-1], self.new[:]
