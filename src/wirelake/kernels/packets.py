"""The packet kernel: walks the packets of a pcap file and finds their TCP segments; ``pcapng.py`` walks pcapng files.

Nothing is copied: a segment is a row of numbers, and its payload stays where it is. Packets of one connection share a
flow number, found by a hash table over both ends; the lower end is side 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .layers import (
    BODY_AT,
    BSD_RAW,
    END_AT,
    ETHERNET,
    FOUND,
    FRAGMENT,
    HEADER,
    IP_AT,
    IPV4,
    IS_SIX,
    LINK,
    LOOP,
    NULL,
    OTHER_RAW,
    RAW,
    TCP,
    big16,
    big32,
    dig,
)
from .memory import at, load_little, pointer, prefetch, store, swapped
from .times import LATEST_US, STRANGE

# A segment: one row.
TS, START, LENGTH, FULL, SEQUENCE, ACKNOWLEDGED, FLAGS, DIRECTION = range(8)
"""START and LENGTH: the captured payload; FULL: its length on the wire; DIRECTION: twice the flow, plus the side."""
SEGMENT = 8
SMALLEST = 56
"""The fewest bytes of a file that a TCP packet takes."""

# What FLAGS holds besides the flags of TCP.
WINDOW_BITS, SCALE_BITS, ORIGIN_BITS = 8, 24, 32
"""The receive window; of a SYN the code of its scale; one more than the place of the packet whose fragment completed
the segment, 0 if its payload lies in the packet itself."""
NO_SCALE, SCALE = 1, 2
"""Codes: the SYN offers no scale, or this plus the scale; 0 where there is no SYN."""
MOST_SCALE = 14
SYN = 0x02

# A flow: addresses of side 0 and of side 1 (two words each, as they lie in memory), ports with the family, hash.
KEY = 8
KEY_PORTS, KEY_HASH = 4, 5
IPV6 = 1 << 32

# What is counted on the way.
PACKETS, BYTES, FOREIGN_BYTES, CUT, FLOWS, SEGMENTS, LAST_US, TORN, STRANGE_TIMES, FRAGMENTS, FOREIGN = range(11)
"""FOREIGN: the first of some counters, see ``layers.FOREIGN_KINDS``; STRANGE_TIMES: packets whose time stamp is outside
the range of times."""
IS_BIG, INTERFACES, LOST_INTERFACES = range(20, 23)
"""What is known of a section of pcapng; LOST_INTERFACES: those for which there was no room."""
COUNTERS = 24

# Why the walk ended.
SHORT, NEW_FLOWS, NEW_INTERFACES, BROKEN, FRAGMENTED = range(5)
"""SHORT: more bytes are needed; NEW_FLOWS, NEW_INTERFACES: more room for them; FRAGMENTED: behind a fragment, which
``places`` describes."""

PCAP_HEAD = 16
FAR_AHEAD = 1024


@njit(cache=True, nogil=True, inline="always")
def file32(data, place, is_big):
    """Return a number in the byte order of the file."""
    word = load_little(data, place)
    if is_big:
        return np.int64(swapped(word) >> np.uint64(32))
    return np.int64(word & np.uint64(0xFFFFFFFF))


@njit(cache=True, nogil=True)
def walk_pcap(data, begin, end, is_end, is_big, is_nano, link, largest, keys, table, segments, places, counters):
    """Take packets from ``begin`` on. Return the place behind the last one, and why the walk ended there.

    ``is_end``: nothing comes behind ``end``, so an incomplete packet is taken for what there is of it. ``data`` has at
    least 16 more bytes behind ``end``.
    """
    bytes_, places_ = pointer(data), pointer(places)
    keys_, table_, segments_, counters_ = pointer(keys), pointer(table), pointer(segments), pointer(counters)
    most_flows, slots = np.int64(keys.shape[0] // KEY), np.int64(table.shape[0])
    place = np.int64(begin)
    while place + PCAP_HEAD <= end:
        captured = file32(bytes_, place + 8, is_big)
        if captured > largest or (captured == 0 and is_zero(bytes_, place)):
            return place, BROKEN
        body = place + PCAP_HEAD
        if body + captured > end and not is_end:
            return place, SHORT
        if at(counters_, FLOWS) >= most_flows:
            return place, NEW_FLOWS
        fraction = file32(bytes_, place + 4, is_big)
        if is_nano:
            fraction //= 1000
        ts = file32(bytes_, place, is_big) * 1_000_000 + fraction
        prefetch(bytes_, body + captured + FAR_AHEAD)
        there = min(captured, end - body)
        if there < captured:
            store(counters_, TORN, 1)
        full = max(captured, file32(bytes_, place + 12, is_big))
        place = body + there
        if take_packet(bytes_, body, there, full, link, ts, keys_, table_, slots, segments_, places_, counters_):
            return place, FRAGMENTED
    return place, SHORT


@njit(cache=True, nogil=True)
def is_zero(data, place):
    """Tell whether a head of a packet is nothing but zeros: this part of the file was not written yet."""
    found = np.int64(0)
    for i in range(0, PCAP_HEAD, 4):
        found |= file32(data, place + i, False)
    return found == 0


@njit(cache=True, nogil=True)
def walk_datagram(data, end, ts, keys, table, segments, places, counters):
    """Take an IP packet that was put together from fragments; return whether it is itself a fragment."""
    return take_ip(
        pointer(data), 0, end, end, RAW, ts, pointer(keys), pointer(table), np.int64(table.shape[0]), pointer(segments),
        pointer(places), pointer(counters),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def foreign(counters, length, kind):
    store(counters, FOREIGN + kind - LINK, at(counters, FOREIGN + kind - LINK) + 1)
    store(counters, FOREIGN_BYTES, at(counters, FOREIGN_BYTES) + length)


@njit(cache=True, nogil=True)
def take_packet(data, place, captured, full, link, ts, keys, table, slots, segments, places, counters):
    """Count a packet; if it is TCP, write down its segment. Return whether it is a fragment."""
    store(counters, PACKETS, at(counters, PACKETS) + 1)
    store(counters, BYTES, at(counters, BYTES) + captured)
    if ts >= LATEST_US or ts == STRANGE:
        ts = np.int64(STRANGE)
        store(counters, STRANGE_TIMES, at(counters, STRANGE_TIMES) + 1)
    else:
        store(counters, LAST_US, ts)
    if captured < full:
        store(counters, CUT, at(counters, CUT) + 1)
    end, full_end = place + captured, place + full
    return take_ip(data, place, end, full_end, link, ts, keys, table, slots, segments, places, counters)


@njit(cache=True, nogil=True)
def take_ip(data, place, end, full_end, link, ts, keys, table, slots, segments, places, counters):
    ip = plain_ip(data, place, end, link)
    if ip >= 0:
        tcp, is_six = ip + np.int64(at(data, ip) & 0x0F) * 4, False
        length = big16(data, ip + 2)
        if length:
            # Ethernet pads short packets, offloading leaves the length at 0.
            full_end = min(full_end, ip + length)
    else:
        kind = dig(data, place, end, full_end, link, places)
        if kind == FRAGMENT:
            store(counters, FRAGMENTS, at(counters, FRAGMENTS) + 1)
            return True
        if kind != FOUND:
            foreign(counters, end - place, kind)
            return False
        ip, tcp, full_end, is_six = at(places, IP_AT), at(places, BODY_AT), at(places, END_AT), at(places, IS_SIX) != 0
    if tcp + 20 > end or tcp + 20 > full_end:
        foreign(counters, end - place, HEADER)
        return False
    head = np.int64(at(data, tcp + 12) >> 4) * 4
    payload = tcp + head
    if head < 20 or payload > full_end:
        foreign(counters, end - place, HEADER)
        return False
    flags = np.int64(at(data, tcp + 13))
    if flags & SYN:
        flags |= scale_code(data, tcp + 20, min(payload, end)) << SCALE_BITS
    row = at(counters, SEGMENTS) * SEGMENT
    store(counters, SEGMENTS, at(counters, SEGMENTS) + 1)
    store(segments, row + TS, ts)
    store(segments, row + START, payload)
    store(segments, row + LENGTH, max(np.int64(0), min(end, full_end) - payload))
    store(segments, row + FULL, full_end - payload)
    store(segments, row + SEQUENCE, big32(data, tcp + 4))
    store(segments, row + ACKNOWLEDGED, big32(data, tcp + 8))
    store(segments, row + FLAGS, flags | big16(data, tcp + 14) << WINDOW_BITS)
    store(segments, row + DIRECTION, direction_of(data, ip, tcp, is_six, keys, table, slots, counters))
    return False


@njit(cache=True, nogil=True)
def plain_ip(data, place, end, link):
    """Return where IPv4 begins if nothing is special about the packet: a plain link, TCP, no fragment; else -1."""
    if link == ETHERNET:
        if place + 34 > end or big16(data, place + 12) != 0x0800:
            return np.int64(-1)
        ip = place + 14
    elif link in (RAW, IPV4, BSD_RAW, OTHER_RAW):
        ip = place
    elif link in (NULL, LOOP):
        ip = place + 4
    else:
        return np.int64(-1)
    if ip + 20 > end or at(data, ip) < 0x45 or at(data, ip) > 0x4F:
        return np.int64(-1)
    return np.int64(-1) if at(data, ip + 9) != TCP or big16(data, ip + 6) & 0x3FFF else ip


@njit(cache=True, nogil=True)
def scale_code(data, place, end):
    """Return what the options of a SYN say about the scale of its windows."""
    while place + 3 <= end:
        kind = at(data, place)
        if kind == 0:
            break
        if kind == 3:
            return SCALE + min(np.int64(at(data, place + 2)), np.int64(MOST_SCALE))
        place += 1 if kind == 1 else max(np.int64(at(data, place + 1)), np.int64(2))
    return np.int64(NO_SCALE)


# --- flows


@njit(cache=True, nogil=True, inline="always")
def mixed(value):
    value ^= value >> np.uint64(32)
    value *= np.uint64(0x9E3779B97F4A7C15)
    value ^= value >> np.uint64(29)
    return value


@njit(cache=True, nogil=True, inline="always")
def hashed(a, b, c, d, ports):
    value = mixed(a ^ ports)
    value = mixed(value + b)
    value = mixed(value ^ c)
    return mixed(value + d * np.uint64(3))


@njit(cache=True, nogil=True)
def direction_of(data, ip, tcp, is_six, keys, table, slots, counters):
    """Return twice the flow of a packet, a new one if it is unknown, plus the side that sent it."""
    zero = np.uint64(0)
    if is_six:
        from_a, from_b = load_little(data, ip + 8), load_little(data, ip + 16)
        to_a, to_b = load_little(data, ip + 24), load_little(data, ip + 32)
        family = np.uint64(IPV6)
    else:
        both = load_little(data, ip + 12)
        from_a, to_a = both & np.uint64(0xFFFFFFFF), both >> np.uint64(32)
        from_b = to_b = family = zero
    from_port, to_port = np.uint64(big16(data, tcp)), np.uint64(big16(data, tcp + 2))
    side = np.int64(0)
    if is_higher(from_a, from_b, from_port, to_a, to_b, to_port):
        side = np.int64(1)
        from_a, to_a = to_a, from_a
        from_b, to_b = to_b, from_b
        from_port, to_port = to_port, from_port
    ports = family | from_port << np.uint64(16) | to_port
    value = hashed(from_a, from_b, to_a, to_b, ports)
    mask = slots - 1
    slot = np.int64(value & np.uint64(mask))
    while True:
        flow = np.int64(at(table, slot))
        if flow < 0:
            break
        key = flow * KEY
        if (
            at(keys, key) == from_a and at(keys, key + 1) == from_b and at(keys, key + 2) == to_a
            and at(keys, key + 3) == to_b and at(keys, key + KEY_PORTS) == ports
        ):  # fmt: skip
            return flow * 2 + side
        slot = slot + 1 & mask
    flow = at(counters, FLOWS)
    store(counters, FLOWS, flow + 1)
    store(table, slot, np.int32(flow))
    for k, word in enumerate((from_a, from_b, to_a, to_b, ports, value)):
        store(keys, flow * KEY + k, word)
    return flow * 2 + side


@njit(cache=True, nogil=True, inline="always")
def is_higher(a, b, port, other_a, other_b, other_port):
    """Order two ends; any order does that is always the same."""
    if a != other_a:
        return a > other_a
    if b != other_b:
        return b > other_b
    return port > other_port


@njit(cache=True, nogil=True)
def fill_table(keys, count, table):
    """Fill the hash table with the first ``count`` flows; all of its slots must be -1."""
    mask = np.int64(table.shape[0] - 1)
    for flow in range(count):
        slot = np.int64(at(keys, flow * KEY + KEY_HASH) & np.uint64(mask))
        while at(table, slot) >= 0:
            slot = slot + 1 & mask
        store(table, slot, np.int32(flow))
