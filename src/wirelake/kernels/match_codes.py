"""The integers that the walks over requests, replies and pieces read and write. Nothing here needs numba."""

from __future__ import annotations

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

# The columns of what the walk reads. KEY numbers the keys; SIDE is the direction of the requester; UNTIL is when a
# request has waited long enough, and when a reply is no longer early; ORDINAL counts the replies of the connection.
KEY, ROLE, BITS, PAIR, CODE, LANE, SIDE, TS, UNTIL, ORDINAL, ADDRESS, NUMBER = range(12)
ROW_COLUMNS, KEY_LISTS = 12, 6

# The columns of what it writes. LIVE is what the row is to the next feed, as in ROLE; DONE_US and DONE_ORDINAL hold the
# end of requests that have ended. SINCE is the time from which a loss would excuse the fault, US the time that its
# sentence is about. BEFORE and BEHIND link the rows of a key.
LIVE, DONE_US, DONE_ORDINAL, PART, REQUEST, FAULT, US, SINCE, BEFORE, BEHIND = range(10)
MATCH_COLUMNS = 10
