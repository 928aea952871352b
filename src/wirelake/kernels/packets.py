"""The packet kernel: walks the packets of a pcap file and finds their TCP segments; ``pcapng.py`` walks pcapng files.

Nothing is copied: a segment is a row of numbers, and its payload stays where it is. Packets of one connection share a
flow number, found by a hash table over both ends; the lower end is side 0.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import at, load_little, pointer, prefetch, store, swapped

# A segment: one row.
TS, START, LENGTH, FULL, SEQUENCE, ACKNOWLEDGED, FLAGS, DIRECTION = range(8)
"""START and LENGTH: the captured payload; FULL: its length on the wire; DIRECTION: twice the flow, plus the side."""
SEGMENT = 8
SMALLEST = 56
"""The fewest bytes of a file that a TCP packet takes."""

# A flow: addresses of side 0 and of side 1 (two words each, as they lie in memory), ports with the family, hash.
KEY = 8
KEY_PORTS, KEY_HASH = 4, 5
IPV6 = 1 << 32

# What is counted on the way.
PACKETS, BYTES, FOREIGN, FOREIGN_BYTES, CUT, FLOWS, SEGMENTS, LAST_US, UNKNOWN_LINK, STRAY, TORN = range(11)
IS_BIG, INTERFACES, LOST_INTERFACES = range(11, 14)
"""STRAY: packets of interfaces that are not described; IS_BIG, INTERFACES: what is known of a section of pcapng;
LOST_INTERFACES: those for which there was no room."""
COUNTERS = 16

# Why the walk ended.
SHORT, NEW_FLOWS, NEW_INTERFACES, BROKEN = range(4)
"""SHORT: more bytes are needed; NEW_FLOWS, NEW_INTERFACES: more room for them."""

PCAP_HEAD = 16
FAR_AHEAD = 1024

NULL, ETHERNET, BSD_RAW, OTHER_RAW, RAW, LOOP, SLL, IPV4, IPV6_LINK, SLL2 = 0, 1, 12, 14, 101, 108, 113, 228, 229, 276
LINKS = frozenset({NULL, ETHERNET, BSD_RAW, OTHER_RAW, RAW, LOOP, SLL, IPV4, IPV6_LINK, SLL2})


@njit(cache=True, nogil=True, inline="always")
def big16(data, place):
    return np.int64(at(data, place)) << 8 | np.int64(at(data, place + 1))


@njit(cache=True, nogil=True, inline="always")
def big32(data, place):
    return np.int64(swapped(load_little(data, place)) >> np.uint64(32))


@njit(cache=True, nogil=True, inline="always")
def file32(data, place, is_big):
    """Return a number in the byte order of the file."""
    word = load_little(data, place)
    if is_big:
        return np.int64(swapped(word) >> np.uint64(32))
    return np.int64(word & np.uint64(0xFFFFFFFF))


@njit(cache=True, nogil=True)
def walk_pcap(data, begin, end, is_end, is_big, is_nano, link, largest, keys, table, segments, counters):
    """Take packets from ``begin`` on. Return the place behind the last one, and why the walk ended there.

    ``is_end``: nothing comes behind ``end``, so an incomplete packet is taken for what there is of it. ``data`` has at
    least 16 more bytes behind ``end``.
    """
    bytes_ = pointer(data)
    keys_, table_, segments_, counters_ = pointer(keys), pointer(table), pointer(segments), pointer(counters)
    most_flows, slots = np.int64(keys.shape[0] // KEY), np.int64(table.shape[0])
    place = np.int64(begin)
    while place + PCAP_HEAD <= end:
        captured = file32(bytes_, place + 8, is_big)
        if captured > largest:
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
        take_packet(bytes_, body, there, full, link, ts, keys_, table_, slots, segments_, counters_)
        place = body + there
    return place, SHORT


@njit(cache=True, nogil=True, inline="always")
def foreign(counters, length):
    store(counters, FOREIGN, at(counters, FOREIGN) + 1)
    store(counters, FOREIGN_BYTES, at(counters, FOREIGN_BYTES) + length)


@njit(cache=True, nogil=True)
def take_packet(data, place, captured, full, link, ts, keys, table, slots, segments, counters):
    """Count a packet; if it is TCP, write down its segment."""
    store(counters, PACKETS, at(counters, PACKETS) + 1)
    store(counters, BYTES, at(counters, BYTES) + captured)
    store(counters, LAST_US, ts)
    if captured < full:
        store(counters, CUT, at(counters, CUT) + 1)
    end = place + captured
    full_end = place + full
    ip = network(data, place, end, link)
    if ip < 0:
        if ip == UNKNOWN:
            store(counters, UNKNOWN_LINK, at(counters, UNKNOWN_LINK) + 1)
        foreign(counters, captured)
        return
    is_six = at(data, ip) >> 4 == 6
    if is_six:
        tcp, full_end = behind_ipv6(data, ip, end, full_end)
    else:
        tcp, full_end = behind_ipv4(data, ip, end, full_end)
    if tcp < 0 or tcp + 20 > end or tcp + 20 > full_end:
        foreign(counters, captured)
        return
    head = np.int64(at(data, tcp + 12) >> 4) * 4
    payload = tcp + head
    if head < 20 or payload > full_end:
        foreign(counters, captured)
        return
    row = at(counters, SEGMENTS) * SEGMENT
    store(counters, SEGMENTS, at(counters, SEGMENTS) + 1)
    store(segments, row + TS, ts)
    store(segments, row + START, payload)
    store(segments, row + LENGTH, max(np.int64(0), min(end, full_end) - payload))
    store(segments, row + FULL, full_end - payload)
    store(segments, row + SEQUENCE, big32(data, tcp + 4))
    store(segments, row + ACKNOWLEDGED, big32(data, tcp + 8))
    store(segments, row + FLAGS, np.int64(at(data, tcp + 13)))
    store(segments, row + DIRECTION, direction_of(data, ip, tcp, is_six, keys, table, slots, counters))


NO_IP, UNKNOWN = -1, -2


@njit(cache=True, nogil=True)
def network(data, place, end, link):
    """Return where the IP header begins, if its first byte is there and says 4 or 6."""
    ip = np.int64(NO_IP)
    if link == ETHERNET:
        if place + 14 <= end:
            ip = behind_ethertype(data, place + 12, place + 14, end)
    elif link == SLL:
        if place + 16 <= end:
            ip = behind_ethertype(data, place + 14, place + 16, end)
    elif link == SLL2:
        if place + 20 <= end:
            ip = behind_ethertype(data, place, place + 20, end)
    elif link in (NULL, LOOP):
        # The address family is in the byte order of the capturing host and IPv6 has many numbers: the IP header says.
        ip = place + 4
    elif link in (RAW, BSD_RAW, OTHER_RAW, IPV4, IPV6_LINK):
        ip = place
    else:
        return np.int64(UNKNOWN)
    if ip < 0 or ip >= end or at(data, ip) >> 4 not in (4, 6):
        return np.int64(NO_IP)
    return ip


@njit(cache=True, nogil=True)
def behind_ethertype(data, place, body, end):
    """Return where IP begins: an ethertype is at ``place``, what it announces at ``body``, and VLAN tags may follow."""
    kind = big16(data, place)
    while kind in (0x8100, 0x88A8, 0x9100, 0x9200):
        if body + 4 > end:
            return np.int64(NO_IP)
        kind = big16(data, body + 2)
        body += 4
    if kind in (0x0800, 0x86DD):
        return np.int64(body)
    return np.int64(NO_IP)


@njit(cache=True, nogil=True)
def behind_ipv4(data, ip, end, full_end):
    """Return where TCP begins and the packet ends: Ethernet pads short ones, offloading leaves the length at 0."""
    head = np.int64(at(data, ip) & 0x0F) * 4
    if ip + 20 > end or at(data, ip + 9) != 6 or big16(data, ip + 6) & 0x3FFF or head < 20:
        return np.int64(-1), full_end
    length = big16(data, ip + 2)
    if length:
        full_end = ip + length
    return ip + head, full_end


@njit(cache=True, nogil=True)
def behind_ipv6(data, ip, end, full_end):
    nothing = np.int64(-1)
    if ip + 40 > end:
        return nothing, full_end
    length = big16(data, ip + 4)
    if length:
        full_end = ip + 40 + length
    kind = at(data, ip + 6)
    place = ip + 40
    while kind != 6:
        if place + 8 > end:
            return nothing, full_end
        following = at(data, place)
        if kind in (0, 43, 60, 135):
            place += (np.int64(at(data, place + 1)) + 1) * 8
        elif kind == 51:
            place += (np.int64(at(data, place + 1)) + 2) * 4
        elif kind == 44 and big16(data, place + 2) & 0xFFF9 == 0:
            place += 8
        else:
            return nothing, full_end
        kind = following
    return place, full_end


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
