"""The integers that the walks over requests, replies and pieces read and write. Nothing here needs numba."""

from __future__ import annotations

from typing import NamedTuple

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
"""For how many replies of its connection it is remembered; also how many rows of one key are searched."""
EARLY_US = 5_000_000
"""How long a reply without a request waits for it: captures may show packets out of order."""


class Rows(NamedTuple):
    """What the walk reads. ``side`` is the direction of the requester; ``until`` is when a request has waited long
    enough, and when a reply is no longer early; ``ordinal`` counts the replies of the connection so far."""

    role: np.ndarray
    bits: np.ndarray
    pair: np.ndarray
    code: np.ndarray
    lane: np.ndarray
    side: np.ndarray
    ts: np.ndarray
    until: np.ndarray
    ordinal: np.ndarray
    address: np.ndarray
    number: np.ndarray


class Matches(NamedTuple):
    """What the walk writes. ``done_us`` and ``done_ordinal`` hold the end of requests that have ended.

    ``since`` is the time from which a loss would excuse the fault, ``us`` the time that its sentence is about.
    """

    live: np.ndarray
    done_us: np.ndarray
    done_ordinal: np.ndarray
    part: np.ndarray
    request: np.ndarray
    fault: np.ndarray
    us: np.ndarray
    since: np.ndarray
    before: np.ndarray
    behind: np.ndarray
