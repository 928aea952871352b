"""Numbers that take as many bytes as they need, bytes that end others, and sums over bytes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .memory import BLOCK, at, equal_bits, lowest_bit
from .numbers import lowest

FOUND, MISSING, WRONG = range(3)
"""What became of a search: it was found, the bytes end before that, it cannot be there."""

# Flags of a number: of both, of varints, of digits.
LENIENT, HIGH_FIRST, HEX, MAY_BE_NEGATIVE, ZIGZAG, OF_32_BITS = 1, 2, 2, 4, 4, 8
MOST_DIGITS = {10: 18, 16: 15}
MOST_VARINT = 9
"""So many digits, or bytes of 7 bits, fit in 63 bits, whatever they are; the record codec reads longer numbers."""

HIGHEST_BIT = np.int64(-(1 << 63))

CRC32, CRC16_MODBUS, CRC16_CCITT, ADLER32, SUM8, SUM16, XOR8 = range(7)


def _reflected(polynomial: int) -> NDArray[np.int64]:
    table = np.arange(256, dtype=np.int64)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ polynomial, table >> 1)
    return table


def _forward(polynomial: int) -> NDArray[np.int64]:
    table = np.arange(256, dtype=np.int64) << 8
    for _ in range(8):
        table = np.where(table & 0x8000, table << 1 ^ polynomial, table << 1) & 0xFFFF
    return table


TABLE_CRC32 = _reflected(0xEDB88320)
TABLE_MODBUS = _reflected(0xA001)
TABLE_CCITT = _forward(0x1021)


@njit(cache=True, nogil=True)
def read_varint(buf, p, lim, most_bytes, flags):
    """A number in bytes of 7 bits: what became of it, the number, and where it ends."""
    value = np.int64(0)
    size = 0
    while True:
        if size == most_bytes:
            return WRONG, value, p
        if p + size >= lim:
            return MISSING, value, p
        byte = np.int64(at(buf, p + size))
        if flags & HIGH_FIRST:
            value = value << 7 | (byte & 0x7F)
        else:
            value |= (byte & 0x7F) << (7 * size)
        size += 1
        if byte < 0x80:
            break
    if size > 1 and not flags & LENIENT:
        first = np.int64(at(buf, p))
        if (first == 0x80 and flags & HIGH_FIRST) or (byte == 0 and not flags & HIGH_FIRST):
            return WRONG, value, p
    if flags & ZIGZAG:
        value = value >> 1 ^ -(value & 1)
    if flags & OF_32_BITS:
        if value >> 32:
            return WRONG, value, p
        value -= value >> 31 << 32
    return FOUND, value, p + size


@njit(cache=True, nogil=True)
def read_digits(buf, p, lim, flags, most, ends, end_length, low, high):
    """A number as text of ``most`` digits at most, the bytes ``ends`` behind it: the same."""
    start = p
    is_negative = False
    value = np.int64(0)
    if p < lim and at(buf, p) == 0x2D and flags & MAY_BE_NEGATIVE:
        is_negative = True
        p += 1
    first = p
    while p < lim:
        byte = np.int64(at(buf, p))
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif flags & HEX and 0x61 <= byte <= 0x66:
            digit = byte - 0x57
        elif flags & HEX and flags & LENIENT and 0x41 <= byte <= 0x46:
            digit = byte - 0x37
        else:
            break
        if p - first == most:
            return WRONG, value, start
        value = value * (16 if flags & HEX else 10) + digit
        p += 1
    count = p - first
    for k in range(end_length):
        if p + k >= lim:
            return MISSING, value, start
        if at(buf, p + k) != at(ends, k):
            return WRONG, value, start
    if end_length == 0 and p != lim:
        return WRONG, value, start
    if count == 0 or (not flags & LENIENT and at(buf, first) == 0x30 and (count > 1 or is_negative)):
        return WRONG, value, start
    if is_negative:
        value = -value
    if value < low or value > high:
        return WRONG, value, start
    return FOUND, value, p + end_length


@njit(cache=True, nogil=True)
def same_bytes(buf, p, lim, others, count):
    """Whether these bytes are the ``count`` others."""
    if p + count > lim:
        return False
    differ = 0
    for k in range(count):
        differ |= at(buf, p + k) ^ at(others, k)
    return differ == 0


@njit(cache=True, nogil=True)
def find_bytes(buf, size_of_buf, p, lim, ends, count):
    """Where the ``count`` bytes ``ends`` are for the first time, or -1. Looks at 32 places at a time."""
    first = at(ends, 0)
    last = lim - count
    while p <= last:
        if p + BLOCK <= size_of_buf:
            width = min(last + 1 - p, BLOCK)
            found = equal_bits(buf, p, first) & lowest(width)
        else:
            width = np.int64(1)
            found = np.uint64(at(buf, p) == first)
        while found:
            here = p + lowest_bit(found)
            found &= found - np.uint64(1)
            if same_bytes(buf, here, lim, ends, count):
                return here
        p += width
    return np.int64(-1)


@njit(cache=True, nogil=True)
def checksum(buf, p, end, kind):
    """The sum of a kind over these bytes."""
    if kind == CRC32:
        value = np.int64(0xFFFFFFFF)
        for k in range(p, end):
            value = value >> 8 ^ TABLE_CRC32[(value ^ np.int64(at(buf, k))) & 0xFF]
        return value ^ 0xFFFFFFFF
    if kind == CRC16_MODBUS:
        value = np.int64(0xFFFF)
        for k in range(p, end):
            value = value >> 8 ^ TABLE_MODBUS[(value ^ np.int64(at(buf, k))) & 0xFF]
        return value
    if kind == CRC16_CCITT:
        value = np.int64(0xFFFF)
        for k in range(p, end):
            value = (value << 8 & 0xFFFF) ^ TABLE_CCITT[(value >> 8 ^ np.int64(at(buf, k))) & 0xFF]
        return value
    if kind == ADLER32:
        one = np.int64(1)
        two = np.int64(0)
        for k in range(p, end):
            one = (one + np.int64(at(buf, k))) % 65521
            two = (two + one) % 65521
        return two << 16 | one
    value = np.int64(0)
    for k in range(p, end):
        if kind == XOR8:
            value ^= np.int64(at(buf, k))
        else:
            value += np.int64(at(buf, k))
    return value & (0xFFFF if kind == SUM16 else 0xFF)


@njit(cache=True, nogil=True)
def holds(test, value):
    """Whether a number fulfils a condition: least, most, bits, 1 if it must be set or 2 if not, and two lists.

    With 4 more, the number and its limits have no sign: the limits are written with their highest bit turned over.
    """
    ordered = value ^ HIGHEST_BIT if at(test, 3) & 4 else value
    if ordered < at(test, 0) or ordered > at(test, 1):
        return False
    bits = at(test, 2)
    if bits != 0 and value & bits == 0:
        return False
    bare = at(test, 3) & 3
    if (bare == 1 and value == 0) or (bare == 2 and value != 0):
        return False
    count = at(test, 4)
    is_in = count == 0
    for k in range(count):
        is_in |= at(test, 5 + k) == value
    if not is_in:
        return False
    place = 5 + count
    is_out = False
    for k in range(at(test, place)):
        is_out |= at(test, place + 1 + k) == value
    return not is_out
