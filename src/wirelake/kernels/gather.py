"""Filled slots -> the buffers of Arrow arrays: one pass each.

Entries of a slot are ``value or position, length, row``, in the order of their rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import BLOCK, at, copy, copy_block, store


@njit(cache=True, nogil=True)
def total_length(entries):
    """The bytes of all spans of a slot."""
    total = np.int64(0)
    for k in range(1, entries.shape[0], 3):
        total += at(entries, k)
    return total


@njit(cache=True, nogil=True)
def gather(buf, entries, offsets, there, data):
    """Copies the spans of a slot one after the other into ``data``, which has room for a block more than they need.

    ``offsets`` says where each row's bytes begin, and where the last ends; ``there`` which rows have any (it is empty
    if all have).
    """
    size_of_buf = buf.shape[0]
    is_sparse = there.shape[0] > 0
    place = np.int64(0)
    row = 0
    for k in range(0, entries.shape[0], 3):
        start = at(entries, k)
        length = at(entries, k + 1)
        here = at(entries, k + 2)
        while row <= here:
            store(offsets, row, place)
            row += 1
        if is_sparse:
            store(there, here, 1)
        if length <= BLOCK and start + BLOCK <= size_of_buf:
            copy_block(data, place, buf, start)
        else:
            copy(data, place, buf, start, length)
        place += length
    while row < offsets.shape[0]:
        store(offsets, row, place)
        row += 1


@njit(cache=True, nogil=True)
def spell(numbers, step, name_offsets, names, offsets, data):
    """Writes the names of every ``step``-th number one after the other; returns how many bytes that are.

    ``names`` and ``data`` have room for a block more than they need.
    """
    place = np.int64(0)
    store(offsets, 0, 0)
    row = 1
    for k in range(0, numbers.shape[0], step):
        number = at(numbers, k)
        start = at(name_offsets, number)
        length = at(name_offsets, number + 1) - start
        if length <= BLOCK:
            copy_block(data, place, names, start)
        else:
            copy(data, place, names, start, length)
        place += length
        store(offsets, row, place)
        row += 1
    return place


@njit(cache=True, nogil=True)
def spread(entries, values, there):
    """Puts the values of a slot where their rows are, and says which rows have one."""
    for k in range(0, entries.shape[0], 3):
        row = at(entries, k + 2)
        store(values, row, at(entries, k))
        store(there, row, 1)


@njit(cache=True, nogil=True)
def place(source, starts, lengths, places, target):
    """Copies spans of one buffer to their places in another."""
    for k in range(starts.shape[0]):
        copy(target, at(places, k), source, at(starts, k), at(lengths, k))
