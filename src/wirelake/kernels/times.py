"""The range of times that a packet may have, in microseconds since 1970.

A time stamp is what a file claims. One outside this range is never taken for a time: it would move the clock by
decades, and no column of times could hold a year behind 9999.
"""

from __future__ import annotations

LATEST_US = 4_102_444_800 * 1_000_000
"""The beginning of the year 2100: a time is before it, and not before 1970."""
NO_TIME = -1
"""Of a packet whose file has no times."""
STRANGE = -2
"""Of a packet whose time stamp is outside the range."""
