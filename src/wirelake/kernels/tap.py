"""Tap files: one kernel walks the records, another turns them into chunks in the order of their offsets.

A record is ``crc u32, length u32, mark u16, kind u8, detail u8, connection u32`` and ``length`` bytes of body, all
little-endian (docs/tap-format.md). The walk never raises: bytes that are not a record are a row of kind DAMAGED.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from .memory import at, load_little, store
from .times import LATEST_US, STRANGE

HEAD = 16
MARK = 0x7EA9
MAX_BODY = 1 << 20
OPEN, DATA, CLOSE, TIME = 1, 2, 3, 4
DAMAGED = 0
DATA_HEAD = 16
OPEN_LEAST, CLOSE_LENGTH, TIME_LENGTH = 31, 24, 8
LEAST = HEAD + TIME_LENGTH
"""The shortest record."""

CHUNK = 7
"""Numbers of a chunk: connection, direction, offset, length, time, start, position."""

SLICES = 16


@cache
def crc_tables() -> np.ndarray:
    """Return CRC-32 tables for 16 bytes at a time: entry ``256 * k + b`` is byte ``b`` with ``k`` zeros behind it."""
    tables = np.zeros(SLICES * 256, np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
        tables[byte] = value
    for k in range(1, SLICES):
        before = tables[(k - 1) * 256 : k * 256]
        tables[k * 256 : (k + 1) * 256] = before >> 8 ^ tables[before & 0xFF]
    return tables


@njit(cache=True, nogil=True)
def crc32(buf, begin, end, seed, tables):
    """Return the CRC-32 of bytes that follow others whose CRC-32 is ``seed``, as zlib does."""
    crc = np.uint64(seed) ^ np.uint64(0xFFFFFFFF)
    place = begin
    low = np.uint64(0xFF)
    while place + 16 <= end:
        one = load_little(buf, place) ^ crc
        two = load_little(buf, place + 8)
        crc = np.uint64(
            at(tables, np.int64(3840 + (one & low)))
            ^ at(tables, np.int64(3584 + (one >> np.uint64(8) & low)))
            ^ at(tables, np.int64(3328 + (one >> np.uint64(16) & low)))
            ^ at(tables, np.int64(3072 + (one >> np.uint64(24) & low)))
            ^ at(tables, np.int64(2816 + (one >> np.uint64(32) & low)))
            ^ at(tables, np.int64(2560 + (one >> np.uint64(40) & low)))
            ^ at(tables, np.int64(2304 + (one >> np.uint64(48) & low)))
            ^ at(tables, np.int64(2048 + (one >> np.uint64(56))))
            ^ at(tables, np.int64(1792 + (two & low)))
            ^ at(tables, np.int64(1536 + (two >> np.uint64(8) & low)))
            ^ at(tables, np.int64(1280 + (two >> np.uint64(16) & low)))
            ^ at(tables, np.int64(1024 + (two >> np.uint64(24) & low)))
            ^ at(tables, np.int64(768 + (two >> np.uint64(32) & low)))
            ^ at(tables, np.int64(512 + (two >> np.uint64(40) & low)))
            ^ at(tables, np.int64(256 + (two >> np.uint64(48) & low)))
            ^ at(tables, np.int64(two >> np.uint64(56)))
        )
        place += 16
    while place < end:
        crc = np.uint64(at(tables, np.int64((crc ^ np.uint64(at(buf, place))) & low))) ^ crc >> np.uint64(8)
        place += 1
    return crc ^ np.uint64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def _fits(kind, length):
    if kind == DATA:
        return DATA_HEAD <= length <= MAX_BODY
    if kind == CLOSE:
        return length == CLOSE_LENGTH
    if kind == TIME:
        return length == TIME_LENGTH
    return kind == OPEN and OPEN_LEAST <= length <= MAX_BODY


@njit(cache=True, nogil=True)
def walk(buf, base, seed, tables, damaged_from, kinds, details, numbers, starts, lengths):
    """Find the records of a window that begins at ``base`` of the file. Return their number, the place behind the last
    one, and where in the file bytes began that are no record (-1 if there are none): they are searched for the next
    record that its CRC proves.

    ``starts`` and ``lengths`` are those of bodies. A head that looks like one is believed until all of its record is
    there: no decision depends on where a window ends.
    """
    count, place, end = 0, np.int64(0), buf.shape[0]
    while place + HEAD <= end:
        word = load_little(buf, place)
        wanted, length = word & np.uint64(0xFFFFFFFF), np.int64(word >> np.uint64(32))
        word = load_little(buf, place + 8)
        kind = np.int64(word >> np.uint64(16) & np.uint64(0xFF))
        if word & np.uint64(0xFFFF) == np.uint64(MARK) and _fits(kind, length):
            behind = place + HEAD + length
            if behind > end:
                break
            if crc32(buf, place + 4, behind, seed, tables) == wanted:
                if damaged_from >= 0:
                    store(kinds, count, DAMAGED)
                    store(starts, count, damaged_from - base)
                    store(lengths, count, base + place - damaged_from)
                    damaged_from = np.int64(-1)
                    count += 1
                store(kinds, count, kind)
                store(details, count, word >> np.uint64(24) & np.uint64(0xFF))
                store(numbers, count, word >> np.uint64(32))
                store(starts, count, place + HEAD)
                store(lengths, count, length)
                count += 1
                place = behind
                continue
        if damaged_from < 0:
            damaged_from = base + place
        place += 1
    return count, place, damaged_from


@njit(cache=True, nogil=True)
def put(chunks, made, chunk):
    """Write a chunk as the next column; return how many there are."""
    for k in range(CHUNK):
        chunks[k, made] = chunk[k]
    return made + 1


@njit(cache=True, nogil=True)
def order(buf, base, kinds, details, connections, starts, lengths, count, ends, last, chunks):
    """Turn records into chunks: missing bytes become gaps, and bytes that were there before are left out.

    ``ends`` is how far each direction of each connection is known, two to a connection, -1 if it is not known at all;
    ``last`` the last time of each connection. Times outside the range of times are STRANGE. Return the number of
    chunks, of missing and of repeated bytes.
    """
    made, missing, repeated = 0, np.int64(0), np.int64(0)
    for i in range(count):
        kind = at(kinds, i)
        if kind == DAMAGED:
            continue
        connection, start = np.int64(at(connections, i)), at(starts, i)
        ts = np.int64(load_little(buf, start))
        if ts < 0 or ts >= LATEST_US:
            ts = np.int64(STRANGE)
        store(last, connection, max(at(last, connection), ts))
        sides = 1 if kind == DATA else 2
        for side in range(sides):
            direction = np.int64(at(details, i)) & 1 if kind == DATA else side
            slot = 2 * connection + direction
            offset = np.int64(load_little(buf, start + 8 + 8 * side))
            known = at(ends, slot)
            if known < 0:
                known = offset
                store(ends, slot, known)
            # An open record of a later file tells how far its stream had come; the next data will show any hole.
            if offset > known and kind != OPEN:
                chunk = (connection, direction, known, offset - known, ts, np.int64(-1), base + start - HEAD)
                made = put(chunks, made, chunk)
                missing += offset - known
                known = offset
                store(ends, slot, known)
            if kind != DATA:
                continue
            length = at(lengths, i) - DATA_HEAD
            again = min(length, known - offset)
            repeated += again
            if length > again:
                place = start + DATA_HEAD + again
                chunk = (connection, direction, offset + again, length - again, ts, place, base + place)
                made = put(chunks, made, chunk)
                store(ends, slot, offset + length)
    return made, missing, repeated
