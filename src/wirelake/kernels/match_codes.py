"""What the walk over requests and replies reads and writes. Nothing here needs numba."""

from __future__ import annotations

import numpy as np

# What a row is to its key. The last four are what earlier feeds left behind.
NOBODY, ASKS, REPLIES, CLOSES, OPEN, ANSWERED, CLOSED, EARLY = range(8)

# What a row is after the walk. UNMATCHED: a reply or a close that belongs to no request. OPENS: a request with a row
# of its own; it ends the request that it names. REPEATS: a request that continues the one it names. REPLY, LAST: a
# reply that counts; LAST ends its request. PIECE: a part of a reply that is not complete yet. ENDS: a close.
UNMATCHED, OPENS, REPEATS, REPLY, LAST, PIECE, ENDS = range(7)

# Bits of a row.
FINAL, MORE, ONCE, NAMED, STREAM, WHOLE, REPEATABLE, SHARED, ADDRESSED = (1 << bit for bit in range(9))

# What is wrong with a row.
FINE, UNEXPECTED_REPLY, DUPLICATE_REPLY, DUPLICATE_REQUEST = range(4)

NONE = -1
LATE_US = 60_000_000
"""How long a request that has ended is remembered, so that a second reply is known as such."""
RECENT = 1024
"""For how many replies of its connection it is remembered; also how many open or early rows of a key are searched."""
EARLY_US = 5_000_000
"""How long a reply without a request waits for it: captures may show packets out of order."""
KEY_LISTS = 6
"""Numbers that the walk keeps of each key."""

_ROW = "connection:i4 key:i8 role:i1 bits:i2 pair:i4 code:i4 lane:i1 side:i1 ts:i8 until:i8 ordinal:i8 address:i8"
_ROW += " number:i8 done_us:i8"
_FOUND = "key:i4 before:i4 behind:i4 live:i1 part:i1 fault:i1 request:i8 done_us:i8 done_ordinal:i8 us:i8 since:i8"
ROW, FOUND = (np.dtype([tuple(one.split(":")) for one in row.split()], align=True) for row in (_ROW, _FOUND))
"""A row that the walk reads, and what it writes about it.

ROW: ``connection`` is a number of the matcher's; ``key`` is equal where rows may belong together; ``side`` is the
direction of the requester; ``until`` is when a request has waited long enough, and when a reply is no longer early;
``ordinal`` counts the replies of the connection. Requests that have ended have the time of their end in ``done_us``,
and in ``ordinal`` the number of replies at that time.

FOUND: ``key`` numbers the keys; ``live`` is what the row is to the next feed, as in ``role``; ``since`` is the time
from which a loss would excuse the fault, ``us`` the time that its sentence is about; ``before`` and ``behind`` link the
rows of a key.
"""
