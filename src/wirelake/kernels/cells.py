"""Which records of typed cells say all that their bytes say: written again, they are the same bytes.

Without numba the same functions run as plain Python.
"""

from __future__ import annotations

from .jit import njit

NO_VALUE, NUMBER, FLOAT, RUN = range(4)
"""What a type of cell holds; of a run, the size is that of its length."""


@njit(cache=True, nogil=True)
def find_plain(data, offsets, head, types, plain):
    """Walk the records ``data[offsets[i] : offsets[i + 1]]``. ``head`` is size, is little, type shift, type mask, flag
    mask; ``types`` has a row per type: what it holds, size, is little."""
    for row in range(len(plain)):
        plain[row] = _is_plain(data, offsets[row], min(offsets[row + 1], len(data)), head, types)


@njit(cache=True, nogil=True)
def _is_plain(data, at, stop, head, types):
    while at < stop:
        if at + head[0] > stop:
            return False
        bits = _number(data, at, head[0], head[1])
        at += head[0]
        kind = bits >> head[2] & head[3]
        if bits & head[4] != 0 or kind >= len(types):
            return False
        holds, size, is_little = types[kind]
        if at + size > stop:
            return False
        if holds == FLOAT and _is_nan(_number(data, at, size, is_little), size):
            return False
        length = _number(data, at, size, is_little) if holds == RUN else 0
        if length < 0 or length > stop - at - size:
            return False
        at += size + length
    return at == stop


@njit(cache=True, nogil=True)
def _number(data, at, size, is_little):
    number = 0
    for place in range(size):
        number = number << 8 | int(data[at + size - 1 - place] if is_little else data[at + place])
    return number


@njit(cache=True, nogil=True)
def _is_nan(bits, size):
    """What is no number may have bits that do not survive as a number."""
    if size == 4:
        return bits & 0x7FFFFFFF > 0x7F800000
    return bits & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000
