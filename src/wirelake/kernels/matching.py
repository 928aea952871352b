"""Requests and their replies, key by key: the walks that decide which reply belongs to which request, and which pieces
make a message.

Rows that earlier feeds left behind (open requests, requests that have ended, early replies) come first, then the new
rows, those of a connection in the order of time. A key has three lists of rows: open, early, ended. A walk reads
integers and writes integers, and never raises. What it remembers is marked in the rows themselves: the column LIVE says
what each row is to the next feed.

Without numba the same functions run as plain Python.
"""

from __future__ import annotations

from . import match_codes as c
from .jit import njit

# Where the lists of a key begin, and what they hold: rows, or NONE.
_OPEN, _EARLY, _ENDED = 0, 2, 4
_FIRST, _LAST = 0, 1


@njit(cache=True, nogil=True)
def match(rows, lists, instead, closing, found):
    """Walk the rows. ``lists`` has a row per key, with room for its lists; ``instead`` holds pairs (declared reply,
    reply in its place), ``closing`` declared replies in whose place the replier may send a close."""
    for row in range(len(rows)):
        role = rows[row].role
        if role == c.ASKS:
            _ask(row, rows, instead, lists, found)
        elif role == c.REPLIES:
            _reply(row, rows, instead, lists, found)
        elif role == c.CLOSES:
            _close(row, rows, closing, lists, found)
        elif role != c.NOBODY:
            found[row].live = role
            _append(row, _OPEN if role == c.OPEN else _EARLY if role == c.EARLY else _ENDED, lists, found)


@njit(cache=True, nogil=True)
def _append(row, which, lists, found):
    key = found[row].key
    last = lists[key, which + _LAST]
    found[row].before = last
    found[row].behind = c.NONE
    if last == c.NONE:
        lists[key, which + _FIRST] = row
    else:
        found[last].behind = row
    lists[key, which + _LAST] = row


@njit(cache=True, nogil=True)
def _remove(row, which, lists, found):
    key = found[row].key
    before, behind = found[row].before, found[row].behind
    if before == c.NONE:
        lists[key, which + _FIRST] = behind
    else:
        found[before].behind = behind
    if behind == c.NONE:
        lists[key, which + _LAST] = before
    else:
        found[behind].before = before
    found[row].live = c.NOBODY


@njit(cache=True, nogil=True)
def _fits(request, reply, rows, instead):
    """Say whether such a reply may come for such a request."""
    if rows[request].lane != rows[reply].lane or rows[request].side != rows[reply].side:
        return False
    if rows[request].pair == rows[reply].pair:
        return True
    return ((instead[:, 0] == rows[request].pair) & (instead[:, 1] == rows[reply].code)).any()


@njit(cache=True, nogil=True)
def _same_slot(request, other, rows):
    """Say whether two requests compete: in a stream by side and lane, elsewhere by their declared reply too."""
    if rows[request].lane != rows[other].lane or rows[request].side != rows[other].side:
        return False
    return rows[request].bits & c.STREAM != 0 or rows[request].pair == rows[other].pair


@njit(cache=True, nogil=True)
def _same_address(row, open_one, rows):
    return rows[row].bits & c.ADDRESSED == 0 or rows[row].address == rows[open_one].address


@njit(cache=True, nogil=True)
def _find_open(row, rows, instead, lists, found):
    """Return the open request that a row is about: the latest; for a reply without correlation, the oldest."""
    asks = rows[row].role == c.ASKS
    backwards = asks or rows[row].bits & c.NAMED != 0
    open_one = lists[found[row].key, _OPEN + _LAST] if backwards else lists[found[row].key, _OPEN + _FIRST]
    searched = 0
    while open_one != c.NONE and searched < c.RECENT:
        following = found[open_one].before if backwards else found[open_one].behind
        if rows[row].ts > rows[open_one].until:
            _remove(open_one, _OPEN, lists, found)
        elif _same_slot(row, open_one, rows) if asks else _fits(open_one, row, rows, instead):
            return open_one
        else:
            searched += 1
        open_one = following
    return c.NONE


@njit(cache=True, nogil=True)
def _ask(row, rows, instead, lists, found):
    latest = _find_open(row, rows, instead, lists, found)
    if latest != c.NONE:
        is_repeat = rows[row].bits & c.REPEATABLE != 0 and rows[row].code == rows[latest].code
        is_same = rows[row].pair == rows[latest].pair and _same_address(row, latest, rows)
        if is_repeat and is_same:
            found[row].part, found[row].request = c.REPEATS, rows[latest].number
            return
        if not is_repeat and rows[row].bits & c.SHARED == 0:
            found[row].fault = c.DUPLICATE_REQUEST
            found[row].since, found[row].us = rows[latest].ts, rows[row].ts - rows[latest].ts
        if rows[row].bits & c.STREAM != 0 and not is_same:
            # Whoever uses the number of a stream for something else has given the stream up.
            found[row].request = rows[latest].number
            _end(latest, c.CLOSED, row, rows, lists, found)
    found[row].part, found[row].live = c.OPENS, c.OPEN
    _append(row, _OPEN, lists, found)
    _meet(row, rows, instead, lists, found)


@njit(cache=True, nogil=True)
def _meet(row, rows, instead, lists, found):
    """Give a new request the early replies that fit it."""
    early = lists[found[row].key, _EARLY + _FIRST]
    searched = 0
    while early != c.NONE and found[row].live == c.OPEN and searched < c.RECENT:
        following = found[early].behind
        if rows[row].ts > rows[early].until:
            _remove(early, _EARLY, lists, found)
        elif _fits(row, early, rows, instead):
            _remove(early, _EARLY, lists, found)
            _take(row, early, row, rows, lists, found)
        else:
            searched += 1
        early = following


@njit(cache=True, nogil=True)
def _take(request, reply, now, rows, lists, found):
    """Tie a reply to its request; ``now`` is the later of the two rows."""
    bits = rows[reply].bits
    found[reply].request = rows[request].number
    found[reply].fault = c.FINE
    is_final = bits & c.FINAL != 0
    if bits & c.WHOLE == 0 and not (bits & c.STREAM != 0 and is_final):
        found[reply].part = c.PIECE
    elif is_final or (rows[request].bits & c.ONCE != 0 and bits & c.MORE == 0):
        found[reply].part = c.LAST
        _end(request, c.ANSWERED, now, rows, lists, found)
    else:
        found[reply].part = c.REPLY


@njit(cache=True, nogil=True)
def _end(request, how, now, rows, lists, found):
    """Remember how a request ended. Only the last one of its kind is remembered."""
    _remove(request, _OPEN, lists, found)
    ended = lists[found[request].key, _ENDED + _FIRST]
    while ended != c.NONE:
        following = found[ended].behind
        if _same_slot(request, ended, rows) and rows[request].pair == rows[ended].pair:
            _remove(ended, _ENDED, lists, found)
        ended = following
    _append(request, _ENDED, lists, found)
    found[request].live = how
    found[request].done_us, found[request].done_ordinal = rows[now].ts, rows[now].ordinal


@njit(cache=True, nogil=True)
def _reply(row, rows, instead, lists, found):
    request = _find_open(row, rows, instead, lists, found)
    if request != c.NONE:
        _take(request, row, row, rows, lists, found)
        return
    ended = _find_ended(row, rows, instead, lists, found)
    if ended == c.NONE:
        found[row].fault = c.UNEXPECTED_REPLY
        if rows[row].bits & c.NAMED != 0:
            found[row].live = c.EARLY
            _append(row, _EARLY, lists, found)
    elif found[ended].live == c.ANSWERED:
        # After a close, replies may still be under way.
        found[row].fault = c.DUPLICATE_REPLY
        found[row].since, found[row].us = rows[ended].ts, rows[row].ts - found[ended].done_us


@njit(cache=True, nogil=True)
def _find_ended(row, rows, instead, lists, found):
    """Return the fitting request that has ended most recently."""
    latest = c.NONE
    ended = lists[found[row].key, _ENDED + _FIRST]
    while ended != c.NONE:
        is_recent = rows[row].ts - found[ended].done_us <= c.LATE_US
        is_recent = is_recent and rows[row].ordinal - found[ended].done_ordinal <= c.RECENT
        is_later = latest == c.NONE or found[ended].done_us >= found[latest].done_us
        if is_recent and is_later and _fits(ended, row, rows, instead):
            latest = ended
        ended = found[ended].behind
    return latest


@njit(cache=True, nogil=True)
def _close(row, rows, closing, lists, found):
    """End the sender's own stream, the one of the lowest lane; a few repliers send a close in place of a reply."""
    own, other = c.NONE, c.NONE
    open_one = lists[found[row].key, _OPEN + _LAST]
    searched = 0
    while open_one != c.NONE and searched < c.RECENT:
        is_open = rows[row].ts <= rows[open_one].until
        searched += is_open
        if is_open and rows[open_one].side == rows[row].side:
            if own == c.NONE or rows[open_one].lane < rows[own].lane:
                own = open_one
        elif is_open and other == c.NONE and rows[open_one].lane == 0:
            other = open_one
        open_one = found[open_one].before
    if own != c.NONE:
        found[row].part, found[row].request = c.ENDS, rows[own].number
        _end(own, c.CLOSED, row, rows, lists, found)
    elif other != c.NONE and (closing == rows[other].pair).any():
        found[row].part, found[row].request = c.LAST, rows[other].number
        _end(other, c.ANSWERED, row, rows, lists, found)
