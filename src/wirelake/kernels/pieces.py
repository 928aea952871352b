"""Messages in pieces, group by group: which piece completes a message, and which comes at the wrong moment.

Rows come sorted by key, then by time; groups that earlier feeds left incomplete come first within their key. A key has
up to ``SLOTS`` groups at a time. Groups are remembered in the row that began them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import njit
from .matching import NONE

SLOTS = 8
QUIET_US = 60_000_000
"""A group that gets no piece for so long is forgotten."""
BROKEN = -1
"""In place of the next piece: the group is broken, and what still comes of it is ignored."""

GROUP, PIECE, CLOSES = range(3)
FINE, FIRST_IS_MISSING, WRONG_PIECE, OTHER_MESSAGE, FIRST_TOO_SOON, NO_PIECE = range(6)


class PieceRows(NamedTuple):
    """What the walk reads. ``piece`` is -1 for a message that is whole; ``key`` must stay the same within a group;
    ``ends`` says that the stream of the group ends with the row."""

    role: np.ndarray
    slot: np.ndarray
    piece: np.ndarray
    pieces: np.ndarray
    key: np.ndarray
    ends: np.ndarray
    ts: np.ndarray
    length: np.ndarray


class Groups(NamedTuple):
    """What the walk writes, by row. Of groups: the next piece, how many there are, bytes and time so far.

    Of pieces: whether the message is complete with it, its bytes, and what is wrong, with the piece that should come
    (``expected``, ``of`` so many).
    """

    live: np.ndarray
    next: np.ndarray
    total: np.ndarray
    bytes: np.ndarray
    last_us: np.ndarray
    whole: np.ndarray
    fault: np.ndarray
    expected: np.ndarray
    of: np.ndarray
    since: np.ndarray


@njit(cache=True, nogil=True)
def assemble(order, starts, rows, groups):
    """Walk every key."""
    current = np.empty(SLOTS, np.int64)
    for run in range(len(starts) - 1):
        current[:] = NONE
        for at in range(starts[run], starts[run + 1]):
            row = order[at]
            if rows.role[row] == PIECE:
                _take(row, rows, current, groups)
            elif rows.role[row] == GROUP:
                groups.live[row] = True
                current[rows.slot[row]] = row
            else:
                for slot in range(SLOTS):
                    _forget(slot, current, groups)


@njit(cache=True, nogil=True)
def _forget(slot, current, groups):
    if current[slot] != NONE:
        groups.live[current[slot]] = False
        current[slot] = NONE


@njit(cache=True, nogil=True)
def _begin(row, rows, current, groups, following):
    _forget(rows.slot[row], current, groups)
    current[rows.slot[row]] = row
    groups.live[row], groups.next[row], groups.total[row] = True, following, rows.pieces[row]
    groups.bytes[row], groups.last_us[row] = rows.length[row], rows.ts[row]


@njit(cache=True, nogil=True)
def _take(row, rows, current, groups):
    slot = rows.slot[row]
    if current[slot] != NONE and rows.ts[row] - groups.last_us[current[slot]] > QUIET_US:
        _forget(slot, current, groups)
    group = current[slot]
    groups.bytes[row] = rows.length[row]
    if rows.piece[row] <= 0:
        _take_first(row, group, rows, current, groups)
    elif group == NONE:
        _begin(row, rows, current, groups, BROKEN)
        groups.fault[row] = FIRST_IS_MISSING
    elif groups.next[group] == BROKEN:
        groups.last_us[group] = rows.ts[row]
    elif rows.piece[row] == groups.next[group] and rows.key[row] == rows.key[group]:
        _take_next(row, group, rows, current, groups)
    else:
        is_expected = rows.piece[row] == groups.next[group]
        _blame(row, group, OTHER_MESSAGE if is_expected else WRONG_PIECE, groups)
        groups.next[group], groups.last_us[group] = BROKEN, rows.ts[row]


@njit(cache=True, nogil=True)
def _take_first(row, group, rows, current, groups):
    """A first piece, or a message that is whole; it interrupts the group that is not complete."""
    is_first = rows.piece[row] == 0
    if group != NONE and groups.next[group] != BROKEN:
        _blame(row, group, FIRST_TOO_SOON if is_first else NO_PIECE, groups)
    _forget(rows.slot[row], current, groups)
    groups.whole[row] = not is_first or rows.pieces[row] <= 1
    if is_first and rows.pieces[row] > 1 and not rows.ends[row]:
        _begin(row, rows, current, groups, 1)


@njit(cache=True, nogil=True)
def _take_next(row, group, rows, current, groups):
    groups.next[group] += 1
    groups.bytes[group] += rows.length[row]
    groups.last_us[group] = rows.ts[row]
    if groups.next[group] == groups.total[group]:
        groups.whole[row], groups.bytes[row] = True, groups.bytes[group]
    if groups.whole[row] or rows.ends[row]:
        _forget(rows.slot[row], current, groups)


@njit(cache=True, nogil=True)
def _blame(row, group, fault, groups):
    groups.fault[row], groups.expected[row] = fault, groups.next[group]
    groups.of[row], groups.since[row] = groups.total[group], groups.last_us[group]
