"""Requests and their replies, key by key: the walks that decide which reply belongs to which request, and which pieces
make a message.

Rows that earlier feeds left behind (open requests, requests that have ended, early replies) come first, then the new
rows, those of a connection in the order of time. A key has three lists of rows: open, early, ended. A walk reads
integers and writes integers, and never raises. What it remembers is marked in the rows themselves: the column LIVE says
what each row is to the next feed.

Without numba the same functions run as plain Python.
"""

from __future__ import annotations

from .jit import njit
from .match_codes import (
    ADDRESS,
    ADDRESSED,
    ANSWERED,
    ASKS,
    BEFORE,
    BEHIND,
    BITS,
    CLOSED,
    CLOSES,
    CODE,
    DONE_ORDINAL,
    DONE_US,
    DUPLICATE_REPLY,
    DUPLICATE_REQUEST,
    EARLY,
    ENDS,
    FAULT,
    FINAL,
    FINE,
    KEY,
    LANE,
    LAST,
    LATE_US,
    LIVE,
    MORE,
    NAMED,
    NOBODY,
    NONE,
    NUMBER,
    ONCE,
    OPEN,
    OPENS,
    ORDINAL,
    PAIR,
    PART,
    PIECE,
    RECENT,
    REPEATABLE,
    REPEATS,
    REPLIES,
    REPLY,
    REQUEST,
    ROLE,
    SHARED,
    SIDE,
    SINCE,
    STREAM,
    TS,
    UNEXPECTED_REPLY,
    UNTIL,
    US,
    WHOLE,
)

# Where the lists of a key begin, and what they hold: rows, or NONE.
_OPEN, _EARLY, _ENDED = 0, 2, 4
_FIRST, _LAST = 0, 1


@njit(cache=True, nogil=True)
def match(rows, lists, instead, closing, found):
    """Walk the rows. ``lists`` has a row per key, with room for its lists; ``instead`` holds pairs (declared reply,
    reply in its place), ``closing`` declared replies in whose place the replier may send a close."""
    for row in range(len(rows)):
        role = rows[row, ROLE]
        if role == ASKS:
            _ask(row, rows, instead, lists, found)
        elif role == REPLIES:
            _reply(row, rows, instead, lists, found)
        elif role == CLOSES:
            _close(row, rows, closing, lists, found)
        elif role != NOBODY:
            found[row, LIVE] = role
            _append(row, _OPEN if role == OPEN else _EARLY if role == EARLY else _ENDED, rows, lists, found)


@njit(cache=True, nogil=True)
def _append(row, which, rows, lists, found):
    key = rows[row, KEY]
    last = lists[key, which + _LAST]
    found[row, BEFORE] = last
    found[row, BEHIND] = NONE
    if last == NONE:
        lists[key, which + _FIRST] = row
    else:
        found[last, BEHIND] = row
    lists[key, which + _LAST] = row


@njit(cache=True, nogil=True)
def _remove(row, which, rows, lists, found):
    key = rows[row, KEY]
    before, behind = found[row, BEFORE], found[row, BEHIND]
    if before == NONE:
        lists[key, which + _FIRST] = behind
    else:
        found[before, BEHIND] = behind
    if behind == NONE:
        lists[key, which + _LAST] = before
    else:
        found[behind, BEFORE] = before
    found[row, LIVE] = NOBODY


@njit(cache=True, nogil=True)
def _fits(request, reply, rows, instead):
    """Say whether such a reply may come for such a request."""
    if rows[request, LANE] != rows[reply, LANE] or rows[request, SIDE] != rows[reply, SIDE]:
        return False
    if rows[request, PAIR] == rows[reply, PAIR]:
        return True
    return ((instead[:, 0] == rows[request, PAIR]) & (instead[:, 1] == rows[reply, CODE])).any()


@njit(cache=True, nogil=True)
def _same_slot(request, other, rows):
    """Say whether two requests compete: in a stream by side and lane, elsewhere by their declared reply too."""
    if rows[request, LANE] != rows[other, LANE] or rows[request, SIDE] != rows[other, SIDE]:
        return False
    return rows[request, BITS] & STREAM != 0 or rows[request, PAIR] == rows[other, PAIR]


@njit(cache=True, nogil=True)
def _same_address(row, open_one, rows):
    return rows[row, BITS] & ADDRESSED == 0 or rows[row, ADDRESS] == rows[open_one, ADDRESS]


@njit(cache=True, nogil=True)
def _find_open(row, rows, instead, lists, found):
    """Return the open request that a row is about: the latest; for a reply without correlation, the oldest."""
    asks = rows[row, ROLE] == ASKS
    backwards = asks or rows[row, BITS] & NAMED != 0
    open_one = lists[rows[row, KEY], _OPEN + _LAST] if backwards else lists[rows[row, KEY], _OPEN + _FIRST]
    searched = 0
    while open_one != NONE and searched < RECENT:
        following = found[open_one, BEFORE] if backwards else found[open_one, BEHIND]
        if rows[row, TS] > rows[open_one, UNTIL]:
            _remove(open_one, _OPEN, rows, lists, found)
        elif _same_slot(row, open_one, rows) if asks else _fits(open_one, row, rows, instead):
            return open_one
        else:
            searched += 1
        open_one = following
    return NONE


@njit(cache=True, nogil=True)
def _ask(row, rows, instead, lists, found):
    latest = _find_open(row, rows, instead, lists, found)
    if latest != NONE:
        is_repeat = rows[row, BITS] & REPEATABLE != 0 and rows[row, CODE] == rows[latest, CODE]
        is_same = rows[row, PAIR] == rows[latest, PAIR] and _same_address(row, latest, rows)
        if is_repeat and is_same:
            found[row, PART], found[row, REQUEST] = REPEATS, rows[latest, NUMBER]
            return
        if not is_repeat and rows[row, BITS] & SHARED == 0:
            found[row, FAULT] = DUPLICATE_REQUEST
            found[row, SINCE], found[row, US] = rows[latest, TS], rows[row, TS] - rows[latest, TS]
        if rows[row, BITS] & STREAM != 0 and not is_same:
            # Whoever uses the number of a stream for something else has given the stream up.
            found[row, REQUEST] = rows[latest, NUMBER]
            _end(latest, CLOSED, row, rows, lists, found)
    found[row, PART], found[row, LIVE] = OPENS, OPEN
    _append(row, _OPEN, rows, lists, found)
    _meet(row, rows, instead, lists, found)


@njit(cache=True, nogil=True)
def _meet(row, rows, instead, lists, found):
    """Give a new request the early replies that fit it."""
    early = lists[rows[row, KEY], _EARLY + _FIRST]
    searched = 0
    while early != NONE and found[row, LIVE] == OPEN and searched < RECENT:
        following = found[early, BEHIND]
        if rows[row, TS] > rows[early, UNTIL]:
            _remove(early, _EARLY, rows, lists, found)
        elif _fits(row, early, rows, instead):
            _remove(early, _EARLY, rows, lists, found)
            _take(row, early, row, rows, lists, found)
        else:
            searched += 1
        early = following


@njit(cache=True, nogil=True)
def _take(request, reply, now, rows, lists, found):
    """Tie a reply to its request; ``now`` is the later of the two rows."""
    bits = rows[reply, BITS]
    found[reply, REQUEST] = rows[request, NUMBER]
    found[reply, FAULT] = FINE
    is_final = bits & FINAL != 0
    if bits & WHOLE == 0 and not (bits & STREAM != 0 and is_final):
        found[reply, PART] = PIECE
    elif is_final or (rows[request, BITS] & ONCE != 0 and bits & MORE == 0):
        found[reply, PART] = LAST
        _end(request, ANSWERED, now, rows, lists, found)
    else:
        found[reply, PART] = REPLY


@njit(cache=True, nogil=True)
def _end(request, how, now, rows, lists, found):
    """Remember how a request ended. Only the last one of its kind is remembered."""
    _remove(request, _OPEN, rows, lists, found)
    ended = lists[rows[request, KEY], _ENDED + _FIRST]
    while ended != NONE:
        following = found[ended, BEHIND]
        if _same_slot(request, ended, rows) and rows[request, PAIR] == rows[ended, PAIR]:
            _remove(ended, _ENDED, rows, lists, found)
        ended = following
    _append(request, _ENDED, rows, lists, found)
    found[request, LIVE] = how
    found[request, DONE_US], found[request, DONE_ORDINAL] = rows[now, TS], rows[now, ORDINAL]


@njit(cache=True, nogil=True)
def _reply(row, rows, instead, lists, found):
    request = _find_open(row, rows, instead, lists, found)
    if request != NONE:
        _take(request, row, row, rows, lists, found)
        return
    ended = _find_ended(row, rows, instead, lists, found)
    if ended == NONE:
        found[row, FAULT] = UNEXPECTED_REPLY
        if rows[row, BITS] & NAMED != 0:
            found[row, LIVE] = EARLY
            _append(row, _EARLY, rows, lists, found)
    elif found[ended, LIVE] == ANSWERED:
        # After a close, replies may still be under way.
        found[row, FAULT] = DUPLICATE_REPLY
        found[row, SINCE], found[row, US] = rows[ended, TS], rows[row, TS] - found[ended, DONE_US]


@njit(cache=True, nogil=True)
def _find_ended(row, rows, instead, lists, found):
    """Return the fitting request that has ended most recently."""
    latest = NONE
    ended = lists[rows[row, KEY], _ENDED + _FIRST]
    while ended != NONE:
        is_recent = rows[row, TS] - found[ended, DONE_US] <= LATE_US
        is_recent = is_recent and rows[row, ORDINAL] - found[ended, DONE_ORDINAL] <= RECENT
        is_later = latest == NONE or found[ended, DONE_US] >= found[latest, DONE_US]
        if is_recent and is_later and _fits(ended, row, rows, instead):
            latest = ended
        ended = found[ended, BEHIND]
    return latest


@njit(cache=True, nogil=True)
def _close(row, rows, closing, lists, found):
    """End the sender's own stream, the one of the lowest lane; a few repliers send a close in place of a reply."""
    own, other = NONE, NONE
    open_one = lists[rows[row, KEY], _OPEN + _LAST]
    searched = 0
    while open_one != NONE and searched < RECENT:
        is_open = rows[row, TS] <= rows[open_one, UNTIL]
        searched += is_open
        if is_open and rows[open_one, SIDE] == rows[row, SIDE]:
            if own == NONE or rows[open_one, LANE] < rows[own, LANE]:
                own = open_one
        elif is_open and other == NONE and rows[open_one, LANE] == 0:
            other = open_one
        open_one = found[open_one, BEFORE]
    if own != NONE:
        found[row, PART], found[row, REQUEST] = ENDS, rows[own, NUMBER]
        _end(own, CLOSED, row, rows, lists, found)
    elif other != NONE and (closing == rows[other, PAIR]).any():
        found[row, PART], found[row, REQUEST] = LAST, rows[other, NUMBER]
        _end(other, ANSWERED, row, rows, lists, found)
