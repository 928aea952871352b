"""Whether bytes are UTF-8, or one MessagePack object."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .memory import BLOCK, at, high_bits, store
from .numbers import lowest, read_int

MAX_DEPTH = 256


def _msgpack_sizes() -> NDArray[np.int64]:
    """Bytes behind the lead of each MessagePack object that has neither a length of its own nor parts; others -1."""
    sizes = np.full(256, -1, np.int64)
    sizes[0x00:0x80] = sizes[0xE0:0x100] = 0
    sizes[0xA0:0xC0] = np.arange(32)
    sizes[[0xC0, 0xC2, 0xC3]] = 0
    sizes[[0xCA, 0xCB]] = (4, 8)
    sizes[0xCC:0xD4] = (1, 2, 4, 8, 1, 2, 4, 8)
    return sizes


MSGPACK_SIZES = _msgpack_sizes()


@njit(cache=True, nogil=True, forceinline=True)
def is_utf8(buf, size_of_buf, p, end):
    """Whether these bytes are well-formed UTF-8. Most text is short and ASCII: one look at 32 bytes shows that."""
    while p + BLOCK <= size_of_buf:
        count = min(end - p, BLOCK)
        if high_bits(buf, p) & lowest(count):
            break
        p += count
        if p == end:
            return True
    return is_utf8_beyond_ascii(buf, p, end)


@njit(cache=True, nogil=True)
def is_utf8_beyond_ascii(buf, p, end):
    """Byte by byte: no surrogates, no overlong forms."""
    while p < end:
        c = at(buf, p)
        if c < 0x80:
            p += 1
        elif c < 0xC2:
            return False
        elif c < 0xE0:
            if p + 1 >= end or at(buf, p + 1) & 0xC0 != 0x80:
                return False
            p += 2
        elif c < 0xF0:
            if p + 2 >= end or at(buf, p + 1) & 0xC0 != 0x80 or at(buf, p + 2) & 0xC0 != 0x80:
                return False
            if (c == 0xE0 and at(buf, p + 1) < 0xA0) or (c == 0xED and at(buf, p + 1) > 0x9F):
                return False
            p += 3
        elif c < 0xF5:
            if (
                p + 3 >= end
                or at(buf, p + 1) & 0xC0 != 0x80
                or at(buf, p + 2) & 0xC0 != 0x80
                or at(buf, p + 3) & 0xC0 != 0x80
            ):
                return False
            if (c == 0xF0 and at(buf, p + 1) < 0x90) or (c == 0xF4 and at(buf, p + 1) > 0x8F):
                return False
            p += 4
        else:
            return False
    return True


@njit(cache=True, nogil=True)
def is_msgpack(buf, size_of_buf, p, end, need_map, counts, maps):
    """Whether exactly one MessagePack object fills the range.

    Extensions of the reserved type are left to a closer look. ``counts`` and ``maps`` hold, per depth, how many objects
    are still to come, and whether they are those of a map.
    """
    if p >= end:
        return False
    lead = at(buf, p)
    if need_map and not (0x80 <= lead <= 0x8F or lead == 0xDE or lead == 0xDF):
        return False
    depth = 0
    store(counts, 0, 1)
    store(maps, 0, 0)
    while depth >= 0:
        left = at(counts, depth)
        if left == 0:
            depth -= 1
            continue
        store(counts, depth, left - 1)
        if p >= end:
            return False
        lead = at(buf, p)
        p += 1
        size = at(MSGPACK_SIZES, lead)
        children = np.int64(-1)
        is_map = np.int64(0)
        if size >= 0:
            pass
        elif lead <= 0x8F:
            children = np.int64(lead & 0x0F) * 2
            is_map = 1
        elif lead <= 0x9F:
            children = np.int64(lead & 0x0F)
        elif lead == 0xC1:
            return False
        elif lead <= 0xC9 or 0xD9 <= lead <= 0xDB:
            width = np.int64(1) << np.int64((lead - 0xC4) % 3 if lead <= 0xC9 else lead - 0xD9)
            if p + width > end:
                return False
            size = read_int(buf, size_of_buf, p, width, 0)
            p += width
            if 0xC7 <= lead <= 0xC9:
                if p >= end or at(buf, p) == 0xFF:
                    return False
                size += 1
        elif lead <= 0xD8:
            if p >= end or at(buf, p) == 0xFF:
                return False
            size = (np.int64(1) << np.int64(lead - 0xD4)) + 1
        else:
            width = np.int64(2 if lead == 0xDC or lead == 0xDE else 4)
            if p + width > end:
                return False
            children = read_int(buf, size_of_buf, p, width, 0)
            p += width
            if lead >= 0xDE:
                children *= 2
                is_map = 1
        if children >= 0:
            is_key = at(maps, depth) == 1 and left % 2 == 0
            if is_key or children > end - p or depth + 1 >= MAX_DEPTH:
                return False
            depth += 1
            store(counts, depth, children)
            store(maps, depth, is_map)
        else:
            if size > end - p:
                return False
            p += size
    return p == end
