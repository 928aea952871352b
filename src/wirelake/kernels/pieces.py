"""Messages in pieces, group by group: which piece completes a message, and which comes at the wrong moment.

Rows come sorted by key, then by time; groups that earlier feeds left incomplete come first within their key. A key has
up to ``SLOTS`` groups at a time. Groups are remembered in the row that began them.
"""

from __future__ import annotations

import numpy as np

from . import piece_codes as c
from .jit import njit


@njit(cache=True, nogil=True)
def assemble(order, starts, rows, groups):
    """Walk every key."""
    current = np.empty(c.SLOTS, np.int64)
    for run in range(len(starts) - 1):
        current[:] = c.NONE
        for at in range(starts[run], starts[run + 1]):
            row = order[at]
            if rows.role[row] == c.PIECE:
                _take(row, rows, current, groups)
            elif rows.role[row] == c.GROUP:
                groups.live[row] = True
                current[rows.slot[row]] = row
            else:
                for slot in range(c.SLOTS):
                    _forget(slot, current, groups)


@njit(cache=True, nogil=True)
def _forget(slot, current, groups):
    if current[slot] != c.NONE:
        groups.live[current[slot]] = False
        current[slot] = c.NONE


@njit(cache=True, nogil=True)
def _begin(row, rows, current, groups, following):
    _forget(rows.slot[row], current, groups)
    current[rows.slot[row]] = row
    groups.live[row], groups.next[row], groups.total[row] = True, following, rows.pieces[row]
    groups.bytes[row], groups.last_us[row] = rows.length[row], rows.ts[row]


@njit(cache=True, nogil=True)
def _take(row, rows, current, groups):
    slot = rows.slot[row]
    if current[slot] != c.NONE and rows.ts[row] - groups.last_us[current[slot]] > c.QUIET_US:
        _forget(slot, current, groups)
    group = current[slot]
    groups.bytes[row] = rows.length[row]
    if rows.piece[row] <= 0:
        _take_first(row, group, rows, current, groups)
    elif group == c.NONE:
        _begin(row, rows, current, groups, c.BROKEN)
        groups.fault[row] = c.FIRST_IS_MISSING
    elif groups.next[group] == c.BROKEN:
        groups.last_us[group] = rows.ts[row]
    elif rows.piece[row] == groups.next[group] and rows.key[row] == rows.key[group]:
        _take_next(row, group, rows, current, groups)
    else:
        is_expected = rows.piece[row] == groups.next[group]
        _blame(row, group, c.OTHER_MESSAGE if is_expected else c.WRONG_PIECE, groups)
        groups.next[group], groups.last_us[group] = c.BROKEN, rows.ts[row]


@njit(cache=True, nogil=True)
def _take_first(row, group, rows, current, groups):
    """A first piece, or a message that is whole; it interrupts the group that is not complete."""
    is_first = rows.piece[row] == 0
    if group != c.NONE and groups.next[group] != c.BROKEN:
        _blame(row, group, c.FIRST_TOO_SOON if is_first else c.NO_PIECE, groups)
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
