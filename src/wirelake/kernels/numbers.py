"""Integers of any width, and sets of bits."""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import at, load_little, swapped

# Flags of an integer.
SIGNED, LITTLE = 1, 2


@njit(cache=True, nogil=True, forceinline=True)
def read_int(buf, size_of_buf, p, size, flags):
    """An integer of 1..8 bytes, sign-extended to 64 bits (unsigned 64-bit values wrap)."""
    shift = np.uint64(64 - 8 * size)
    if p + 8 <= size_of_buf:
        word = load_little(buf, p)
        if flags & LITTLE:
            word = word << shift
        else:
            word = (swapped(word) >> shift) << shift
    else:
        word = np.uint64(0)
        for i in range(size):
            k = size - 1 - i if flags & LITTLE else i
            word = (word << np.uint64(8)) | np.uint64(at(buf, p + k))
        word = word << shift
    # The value stands at the top of the word; shifting it down extends its sign or not.
    if flags & SIGNED:
        return np.int64(word) >> np.int64(shift)
    return np.int64(word >> shift)


@njit(cache=True, nogil=True, forceinline=True)
def lowest(count):
    """That many bits, 0 to 32 of them."""
    return (np.uint64(1) << np.uint64(count)) - np.uint64(1)
