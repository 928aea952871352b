"""The pcapng kernel: walks the blocks of a file; sections and interfaces say how the packets behind them are read."""

from __future__ import annotations

import numpy as np
from numba import njit

from .layers import INTERFACE as STRAY
from .layers import big16
from .memory import at, pointer, store
from .packets import (
    BROKEN,
    BYTES,
    FLOWS,
    FRAGMENTED,
    INTERFACES,
    IS_BIG,
    KEY,
    LAST_US,
    LOST_INTERFACES,
    NEW_FLOWS,
    NEW_INTERFACES,
    PACKETS,
    SHORT,
    TORN,
    file32,
    foreign,
    take_packet,
)
from .times import STRANGE

SECTION, INTERFACE, OLD_PACKET, SIMPLE_PACKET, PACKET = 0x0A0D0D0A, 1, 2, 3, 6
LITTLE_MAGIC, BIG_MAGIC = 0x1A2B3C4D, 0x4D3C2B1A
"""The byte order of a section, read as a little-endian number."""
LEAST_SECTION, LEAST_INTERFACE = 28, 20

# An interface of a section: link type, snap length, unit of time (see ``microseconds``) and seconds to add.
INTERFACE_LINK, INTERFACE_SNAP, INTERFACE_UNIT, INTERFACE_OFFSET = range(4)
INTERFACE_ROW = 4
MOST_INTERFACES = 1 << 16
"""Of a section; those behind them are not remembered."""
BINARY = 1 << 8
MICROSECONDS = 6
FAR = 1 << 60
RESOLUTION_OPTION, OFFSET_OPTION = 9, 14


@njit(cache=True, nogil=True)
def walk_pcapng(data, begin, end, is_end, largest, interfaces, keys, table, segments, places, counters):
    """Do what ``walk_pcap`` does for the blocks of a pcapng file. What is known of the section is in ``counters`` and
    ``interfaces``.
    """
    bytes_, places_ = pointer(data), pointer(places)
    keys_, table_, segments_, counters_ = pointer(keys), pointer(table), pointer(segments), pointer(counters)
    faces, most_faces = pointer(interfaces), np.int64(interfaces.shape[0] // INTERFACE_ROW)
    most_flows, slots = np.int64(keys.shape[0] // KEY), np.int64(table.shape[0])
    is_big = at(counters_, IS_BIG) != 0
    place = np.int64(begin)
    while place + 12 <= end:
        kind = file32(bytes_, place, is_big)
        if kind == SECTION:
            magic = file32(bytes_, place + 8, False)
            if magic not in (LITTLE_MAGIC, BIG_MAGIC):
                return place, BROKEN
            is_big = magic == BIG_MAGIC
        length = file32(bytes_, place + 4, is_big)
        if length < least_length(kind) or length > largest or length & 3:
            return place, BROKEN
        is_whole = place + length <= end
        if not is_whole and (not is_end or kind in (SECTION, INTERFACE)):
            return place, SHORT
        if is_whole and file32(bytes_, place + length - 4, is_big) != length:
            return place, BROKEN
        if at(counters_, FLOWS) >= most_flows:
            return place, NEW_FLOWS
        stop = place + length - 4 if is_whole else end
        if not is_whole:
            store(counters_, TORN, 1)
        if kind in (PACKET, OLD_PACKET, SIMPLE_PACKET):
            is_fragment = take_block(
                bytes_, place, stop, kind, is_big, faces, keys_, table_, slots, segments_, places_, counters_
            )
            if is_fragment:
                return place + length if is_whole else end, FRAGMENTED
        elif kind == SECTION:
            store(counters_, IS_BIG, is_big)
            store(counters_, INTERFACES, 0)
        elif kind == INTERFACE:
            if at(counters_, INTERFACES) >= most_faces and most_faces < MOST_INTERFACES:
                return place, NEW_INTERFACES
            take_interface(bytes_, place, stop, is_big, faces, most_faces, counters_)
        place = place + length if is_whole else end
    return place, SHORT


@njit(cache=True, nogil=True, inline="always")
def least_length(kind):
    if kind == SECTION:
        return LEAST_SECTION
    return LEAST_INTERFACE if kind == INTERFACE else 12


@njit(cache=True, nogil=True, inline="always")
def file16(data, place, is_big):
    if is_big:
        return big16(data, place)
    return np.int64(at(data, place)) | np.int64(at(data, place + 1)) << 8


@njit(cache=True, nogil=True)
def take_interface(data, place, stop, is_big, faces, most_faces, counters):
    """Write down an interface; units and offsets of time are among its options."""
    number = at(counters, INTERFACES)
    if number >= most_faces:
        store(counters, LOST_INTERFACES, at(counters, LOST_INTERFACES) + 1)
        return
    unit, offset, option = np.int64(MICROSECONDS), np.int64(0), place + 16
    while option + 4 <= stop:
        code, length = file16(data, option, is_big), file16(data, option + 2, is_big)
        value = option + 4
        if code == 0 or value + length > stop:
            break
        if code == RESOLUTION_OPTION and length >= 1:
            unit = np.int64(at(data, value) & 0x7F) | np.int64(at(data, value) & 0x80) << 1
        elif code == OFFSET_OPTION and length >= 8:
            first, second = file32(data, value, is_big), file32(data, value + 4, is_big)
            offset = first << 32 | second if is_big else second << 32 | first
        option = value + (length + 3 & ~3)
    row = number * INTERFACE_ROW
    store(faces, row + INTERFACE_LINK, file16(data, place + 8, is_big))
    store(faces, row + INTERFACE_SNAP, file32(data, place + 12, is_big))
    store(faces, row + INTERFACE_UNIT, unit)
    store(faces, row + INTERFACE_OFFSET, offset)
    store(counters, INTERFACES, number + 1)


@njit(cache=True, nogil=True)
def take_block(data, place, stop, kind, is_big, faces, keys, table, slots, segments, places, counters):
    """Take a packet block whose body ends at ``stop``; return whether it is a fragment."""
    body = place + (12 if kind == SIMPLE_PACKET else 28)
    if body > stop:
        return False
    face = np.int64(0)
    if kind == PACKET:
        face = file32(data, place + 8, is_big)
    elif kind == OLD_PACKET:
        face = file16(data, place + 8, is_big)
    if face >= at(counters, INTERFACES):
        store(counters, PACKETS, at(counters, PACKETS) + 1)
        store(counters, BYTES, at(counters, BYTES) + stop - body)
        foreign(counters, stop - body, STRAY)
        return False
    face *= INTERFACE_ROW
    if kind == SIMPLE_PACKET:
        full = file32(data, place + 8, is_big)
        snap = at(faces, face + INTERFACE_SNAP)
        captured = min(full, snap) if snap > 0 else full
        ts = at(counters, LAST_US)
    else:
        captured = file32(data, place + 20, is_big)
        full = file32(data, place + 24, is_big)
        time = file32(data, place + 12, is_big) << 32 | file32(data, place + 16, is_big)
        ts = time_of(time, at(faces, face + INTERFACE_UNIT), at(faces, face + INTERFACE_OFFSET))
    there, link = min(captured, stop - body), at(faces, face + INTERFACE_LINK)
    full = max(full, captured)
    return take_packet(data, body, there, full, link, ts, keys, table, slots, segments, places, counters)


@njit(cache=True, nogil=True)
def time_of(time, unit, offset_s):
    """Return a time in microseconds since 1970, STRANGE if it lies before that or behind any year."""
    since = microseconds(time, unit)
    if not (0 <= since < FAR and -FAR < offset_s * 1.0e6 < FAR):
        return np.int64(STRANGE)
    ts = since + offset_s * 1_000_000
    return ts if ts >= 0 else np.int64(STRANGE)


@njit(cache=True, nogil=True)
def microseconds(time, unit):
    """Return a time in microseconds. Units: 10 to the minus n, or (with ``BINARY``) 2 to the minus n.

    Of times that are too far away it returns FAR.
    """
    if unit & BINARY:
        digits = np.int64(unit & 0x7F)
        whole = np.uint64(time) >> np.uint64(digits) if digits < 64 else np.uint64(0)
        if whole >= np.uint64(FAR // 1_000_000):
            return np.int64(FAR)
        part = np.uint64(time) & ((np.uint64(1) << np.uint64(min(digits, 63))) - np.uint64(1))
        # Forty bits of a second are finer than a microsecond, and do not overflow.
        if digits > 40:
            part = part >> np.uint64(digits - 40)
            digits = np.int64(40)
        return np.int64(whole) * 1_000_000 + np.int64((part * np.uint64(1_000_000)) >> np.uint64(digits))
    scale = np.uint64(1)
    for _ in range(min(abs(unit - 6), 19)):
        scale *= np.uint64(10)
    if unit <= 6:
        return np.int64(FAR) if np.uint64(time) >= np.uint64(FAR) // scale else np.int64(np.uint64(time) * scale)
    return np.int64(min(np.uint64(time) // scale, np.uint64(FAR)))
