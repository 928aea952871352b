"""Different values, numbered in the order in which they first occur.

Without numba the same function runs as plain Python.
"""

from __future__ import annotations

from .jit import njit

EMPTY = -1


@njit(cache=True, nogil=True)
def number(values, starts, slots, distinct, places):
    """Write the different values and the place of each row's among them; return how many there are.

    ``slots`` is an empty table of 2^n places, more than there are values; ``starts`` is where each value is looked for
    first.
    """
    count = 0
    last = len(slots) - 1
    for row in range(len(values)):
        value = values[row]
        at = starts[row]
        while slots[at] != EMPTY and distinct[slots[at]] != value:
            at = (at + 1) & last
        if slots[at] == EMPTY:
            slots[at] = count
            distinct[count] = value
            count += 1
        places[row] = slots[at]
    return count
