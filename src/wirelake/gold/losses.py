"""What of a connection was not captured, or could not be read: it excuses what would be violations otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .arrays import FOR_EVER, Ints, Mask


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


class Excuse(NamedTuple):
    """Bytes that this side of a connection sent were lost, from ``start`` to ``end``."""

    connection: str
    side: int
    start: int
    end: int


def excused(ts: Ints, replied_to: Ints, excuses: list[Excuse]) -> Mask:
    """Say which rows of one connection are excused; they are in the order of time."""
    starts, ends = (np.array(times, np.int64) for times in zip(*((one.start, one.end) for one in excuses), strict=True))
    first, behind = np.searchsorted(ts, starts), np.searchsorted(ts, ends, "right")
    change = np.zeros(len(ts) + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, np.maximum(first, behind), -1)
    found = np.cumsum(change)[:-1] > 0
    for side in (0, 1):
        since = min((one.start for one in excuses if one.side == side), default=None)
        if since is not None:
            found |= (replied_to == side) & (ts >= since)
    return np.asarray(found, np.bool_)
