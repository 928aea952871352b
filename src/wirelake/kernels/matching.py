"""Requests and their replies, key by key: the walks that decide which reply belongs to which request, and which pieces
make a message.

Rows come sorted by key, then by time; rows that earlier feeds left behind (open requests, requests that have ended,
early replies) come first within their key. A walk reads integers and writes integers, and never raises. What it
remembers is marked in the rows themselves: ``Matches.live`` says what each row is to the next feed.

Without numba the same functions run as plain Python.
"""

from __future__ import annotations

import numpy as np

from .jit import njit
from .match_codes import (
    ADDRESSED,
    ANSWERED,
    ASKS,
    CLOSED,
    CLOSES,
    DUPLICATE_REPLY,
    DUPLICATE_REQUEST,
    EARLY,
    ENDS,
    FINAL,
    FINE,
    LAST,
    LATE_US,
    MORE,
    NAMED,
    NOBODY,
    NONE,
    ONCE,
    OPEN,
    OPENS,
    PIECE,
    RECENT,
    REPEATABLE,
    REPEATS,
    REPLIES,
    REPLY,
    SHARED,
    STREAM,
    UNEXPECTED_REPLY,
    WHOLE,
)

_OPEN, _EARLY, _ENDED = range(3)
_FIRST, _LAST, _SIZE = range(3)


@njit(cache=True, nogil=True)
def match(order, starts, rows, instead, closing, found):
    """Walk every key. ``instead`` holds pairs (declared reply, reply in its place), ``closing`` declared replies in
    whose place the replier may send a close."""
    lists = np.empty((3, 3), np.int64)
    for run in range(len(starts) - 1):
        lists[:, :] = NONE
        lists[:, _SIZE] = 0
        for at in range(starts[run], starts[run + 1]):
            row = order[at]
            role = rows.role[row]
            if role == ASKS:
                _ask(row, rows, instead, lists, found)
            elif role == REPLIES:
                _reply(row, rows, instead, lists, found)
            elif role == CLOSES:
                _close(row, rows, closing, lists, found)
            elif role != NOBODY:
                found.live[row] = role
                _append(row, _OPEN if role == OPEN else _EARLY if role == EARLY else _ENDED, lists, found)


@njit(cache=True, nogil=True)
def _append(row, which, lists, found):
    last = lists[which, _LAST]
    found.before[row] = last
    found.behind[row] = NONE
    if last == NONE:
        lists[which, _FIRST] = row
    else:
        found.behind[last] = row
    lists[which, _LAST] = row
    lists[which, _SIZE] += 1


@njit(cache=True, nogil=True)
def _remove(row, which, lists, found):
    before, behind = found.before[row], found.behind[row]
    if before == NONE:
        lists[which, _FIRST] = behind
    else:
        found.behind[before] = behind
    if behind == NONE:
        lists[which, _LAST] = before
    else:
        found.before[behind] = before
    lists[which, _SIZE] -= 1
    found.live[row] = NOBODY


@njit(cache=True, nogil=True)
def _fits(request, reply, rows, instead):
    """Say whether such a reply may come for such a request."""
    if rows.lane[request] != rows.lane[reply] or rows.side[request] != rows.side[reply]:
        return False
    if rows.pair[request] == rows.pair[reply]:
        return True
    return ((instead[:, 0] == rows.pair[request]) & (instead[:, 1] == rows.code[reply])).any()


@njit(cache=True, nogil=True)
def _same_slot(request, other, rows):
    """Say whether two requests compete: in a stream by side and lane, elsewhere by their declared reply too."""
    if rows.lane[request] != rows.lane[other] or rows.side[request] != rows.side[other]:
        return False
    return rows.bits[request] & STREAM != 0 or rows.pair[request] == rows.pair[other]


@njit(cache=True, nogil=True)
def _same_address(row, open_one, rows):
    return rows.bits[row] & ADDRESSED == 0 or rows.address[row] == rows.address[open_one]


@njit(cache=True, nogil=True)
def _find_open(row, rows, instead, lists, found):
    """Return the open request that a row is about: the latest; for a reply without correlation, the oldest."""
    asks = rows.role[row] == ASKS
    backwards = asks or rows.bits[row] & NAMED != 0
    open_one = lists[_OPEN, _LAST] if backwards else lists[_OPEN, _FIRST]
    searched = 0
    while open_one != NONE and searched < RECENT:
        following = found.before[open_one] if backwards else found.behind[open_one]
        if rows.ts[row] > rows.until[open_one]:
            _remove(open_one, _OPEN, lists, found)
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
        is_repeat = rows.bits[row] & REPEATABLE != 0 and rows.code[row] == rows.code[latest]
        is_same = rows.pair[row] == rows.pair[latest] and _same_address(row, latest, rows)
        if is_repeat and is_same:
            found.part[row], found.request[row] = REPEATS, rows.number[latest]
            return
        if not is_repeat and rows.bits[row] & SHARED == 0:
            found.fault[row] = DUPLICATE_REQUEST
            found.since[row], found.us[row] = rows.ts[latest], rows.ts[row] - rows.ts[latest]
        if rows.bits[row] & STREAM != 0 and not is_same:
            # Whoever uses the number of a stream for something else has given the stream up.
            found.request[row] = rows.number[latest]
            _end(latest, CLOSED, row, rows, lists, found)
    found.part[row], found.live[row] = OPENS, OPEN
    _append(row, _OPEN, lists, found)
    _meet(row, rows, instead, lists, found)


@njit(cache=True, nogil=True)
def _meet(row, rows, instead, lists, found):
    """Give a new request the early replies that fit it."""
    early = lists[_EARLY, _FIRST]
    while early != NONE and found.live[row] == OPEN:
        following = found.behind[early]
        if rows.ts[row] > rows.until[early]:
            _remove(early, _EARLY, lists, found)
        elif _fits(row, early, rows, instead):
            _remove(early, _EARLY, lists, found)
            _take(row, early, row, rows, lists, found)
        early = following


@njit(cache=True, nogil=True)
def _take(request, reply, now, rows, lists, found):
    """Tie a reply to its request; ``now`` is the later of the two rows."""
    bits = rows.bits[reply]
    found.request[reply] = rows.number[request]
    found.fault[reply] = FINE
    is_final = bits & FINAL != 0
    if bits & WHOLE == 0 and not (bits & STREAM != 0 and is_final):
        found.part[reply] = PIECE
    elif is_final or (rows.bits[request] & ONCE != 0 and bits & MORE == 0):
        found.part[reply] = LAST
        _end(request, ANSWERED, now, rows, lists, found)
    else:
        found.part[reply] = REPLY


@njit(cache=True, nogil=True)
def _end(request, how, now, rows, lists, found):
    """Remember how a request ended. Only the last one of its kind is remembered."""
    _remove(request, _OPEN, lists, found)
    ended = lists[_ENDED, _FIRST]
    while ended != NONE:
        following = found.behind[ended]
        if _same_slot(request, ended, rows) and rows.pair[request] == rows.pair[ended]:
            _remove(ended, _ENDED, lists, found)
        ended = following
    _append(request, _ENDED, lists, found)
    found.live[request] = how
    found.done_us[request], found.done_ordinal[request] = rows.ts[now], rows.ordinal[now]


@njit(cache=True, nogil=True)
def _reply(row, rows, instead, lists, found):
    request = _find_open(row, rows, instead, lists, found)
    if request != NONE:
        _take(request, row, row, rows, lists, found)
        return
    ended = _find_ended(row, rows, instead, lists, found)
    if ended == NONE:
        found.fault[row] = UNEXPECTED_REPLY
        if rows.bits[row] & NAMED != 0:
            _wait_for_request(row, lists, found)
    elif found.live[ended] == ANSWERED:
        # After a close, replies may still be under way.
        found.fault[row] = DUPLICATE_REPLY
        found.since[row], found.us[row] = rows.ts[ended], rows.ts[row] - found.done_us[ended]


@njit(cache=True, nogil=True)
def _find_ended(row, rows, instead, lists, found):
    """Return the fitting request that has ended most recently."""
    latest = NONE
    ended = lists[_ENDED, _FIRST]
    while ended != NONE:
        is_recent = rows.ts[row] - found.done_us[ended] <= LATE_US
        is_recent = is_recent and rows.ordinal[row] - found.done_ordinal[ended] <= RECENT
        is_later = latest == NONE or found.done_us[ended] >= found.done_us[latest]
        if is_recent and is_later and _fits(ended, row, rows, instead):
            latest = ended
        ended = found.behind[ended]
    return latest


@njit(cache=True, nogil=True)
def _wait_for_request(row, lists, found):
    if lists[_EARLY, _SIZE] >= RECENT:
        _remove(lists[_EARLY, _FIRST], _EARLY, lists, found)
    found.live[row] = EARLY
    _append(row, _EARLY, lists, found)


@njit(cache=True, nogil=True)
def _close(row, rows, closing, lists, found):
    """End the sender's own stream, the one of the lowest lane; a few repliers send a close in place of a reply."""
    own, other = NONE, NONE
    open_one = lists[_OPEN, _LAST]
    searched = 0
    while open_one != NONE and searched < RECENT:
        if rows.side[open_one] == rows.side[row]:
            if own == NONE or rows.lane[open_one] < rows.lane[own]:
                own = open_one
        elif other == NONE and rows.lane[open_one] == 0:
            other = open_one
        open_one = found.before[open_one]
        searched += 1
    if own != NONE:
        found.part[row], found.request[row] = ENDS, rows.number[own]
        _end(own, CLOSED, row, rows, lists, found)
    elif other != NONE and (closing == rows.pair[other]).any():
        found.part[row], found.request[row] = LAST, rows.number[other]
        _end(other, ANSWERED, row, rows, lists, found)
