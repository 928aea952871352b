"""The TCP kernel: segments in the order of their capture -> stream bytes in the order of their sending.

No byte is touched: pieces of payload are told by their place. State is in rows of integers, one for each connection
(``flows``), direction (``ways``) and segment that is held because bytes before it are missing (``nodes``, a list per
direction, in order and without overlap: of bytes that were captured twice the first ones count).

Every decision depends on the packets so far and nothing else, so the same packets give the same chunks however they
are cut into windows. Rows are told by the place of their first number: the row of the other direction is ``way ^ WAY``,
that of the connection ``(way >> 5) << 4``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import at, copy, pointer, store
from .packets import (
    ACKNOWLEDGED,
    DIRECTION,
    FLAGS,
    FULL,
    KEY,
    KEY_PORTS,
    LENGTH,
    SEGMENT,
    SEQUENCE,
    START,
    TS,
)

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
LOW32 = 0xFFFFFFFF
BEHIND = 1 << 30
"""A segment is at most so far behind what is expected; what seems further back is ahead: a long gap."""

PATIENCE_US = 2_000_000
"""How long a hole is kept open after the first segment behind it, if the peer has acknowledged what is missing."""
MEMORY_US = 120_000_000
"""How long the end of a connection is remembered, and how long one that never got beyond its SYN."""
MOST_HELD, MOST_HELD_BYTES = 4096, 4 << 20
"""Per direction; beyond that a hole is given up."""
LATE_BYTES = 1 << 20
"""A SYN that comes after data is not the beginning of another connection if it is not further away."""
FARTHEST_RESET = 1 << 24

# A connection.
PHASE, CLIENT, WHOLE, BEGAN_US, BEGAN_SEQUENCE, LAST_US, ENDED_US, QUIET_SINCE = range(8)
STAMP, LOCAL, BEYOND_SYN, CARRIED, BEGAN_CLOCK = range(8, 13)
"""CLIENT: its side; QUIET_SINCE: the clock at the last packet or at the end; STAMP: the window that saw it last, and
LOCAL its number there; CARRIED: it had payload."""
FLOW = 16
NONE, OPEN, CLOSED, RESET = range(4)

# A direction.
FIRST, KNOWN, NEXT, FINISH, ACKED, HEAD, TAIL, HELD = range(8)
HELD_BYTES, HELD_SINCE, INITIAL, LISTED, IS_FINISHED = range(8, 13)
"""FIRST: sequence number of offset 0; NEXT: the offset that is expected; FINISH: that of the FIN; ACKED: that up to
which the peer acknowledged; INITIAL: the sequence number of the SYN; LISTED: it is among those that hold segments."""
WAY = 16
UNKNOWN, GUESSED, SURE = range(3)
"""GUESSED: from a packet without payload; payload that comes first from before that place moves it there."""

# A held segment. A FIN is held, too, as one without bytes.
FOLLOWING, OFFSET, SIZE, PLACE, POSITION, HELD_AT = range(6)
NODE = 8

# A chunk.
CHUNK_CONNECTION, CHUNK_DIRECTION, CHUNK_OFFSET, CHUNK_LENGTH, CHUNK_TS, CHUNK_START, CHUNK_POSITION = range(7)
CHUNK = 8

# A connection that was seen in this window: its flow, what it was before (GOING_ON, NEW or OVER), its row as it is now.
SEEN_FLOW, SEEN_BEFORE, SEEN_ROW = 0, 1, 2
GOING_ON, NEW, OVER = 0, 1, 2
SEEN = 16

# What belongs to no connection.
CLOCK, DUE, HOLDING, FREE, USED, CHUNKS, SEENS, WINDOW, SHIFT = range(9)
REPEATED, MISSING, EARLY, HELD_TOTAL = range(9, 13)
"""CLOCK: the latest time so far; DUE: when the next hole may be given up; FREE: the first unused node; SHIFT: from a
place in the buffer to the position in the file; EARLY: bytes before the first segment of a connection that began before
the capture."""
NOW = 16
NEVER = 1 << 62


@njit(cache=True, nogil=True)
def track(segments, first, count, keys, is_server, flows, ways, nodes, holding, chunks, seen, now):
    """Takes segments from ``first`` on; gives the number of the first for which there was not room enough."""
    segments_, keys_, is_server_, flows_ = pointer(segments), pointer(keys), pointer(is_server), pointer(flows)
    ways_, nodes_, holding_ = pointer(ways), pointer(nodes), pointer(holding)
    chunks_, seen_, now_ = pointer(chunks), pointer(seen), pointer(now)
    most_nodes, most_holding = nodes.shape[0] // NODE, holding.shape[0]
    most_chunks, most_seen = chunks.shape[0] // CHUNK, seen.shape[0] // SEEN
    for i in range(first, count):
        row = i * SEGMENT
        way = at(segments_, row + DIRECTION) * WAY
        used = at(now_, USED)
        held = at(ways_, way + HELD)
        if (
            most_nodes - used < held + 4 or most_chunks - at(now_, CHUNKS) < 4 * used + 16
            or most_seen - at(now_, SEENS) < 4 + at(now_, HOLDING) or most_holding - at(now_, HOLDING) < 4
        ):  # fmt: skip
            return i
        ts = at(segments_, row + TS)
        if ts > at(now_, CLOCK):
            store(now_, CLOCK, ts)
        take_segment(segments_, row, way, keys_, is_server_, flows_, ways_, nodes_, holding_, chunks_, seen_, now_)
        if at(now_, CLOCK) >= at(now_, DUE):
            give_up_what_is_due(flows_, ways_, nodes_, holding_, chunks_, seen_, now_, ts)
    return count


@njit(cache=True, nogil=True)
def take_segment(segments, row, way, keys, is_server, flows, ways, nodes, holding, chunks, seen, now):
    ts, flags = at(segments, row + TS), at(segments, row + FLAGS)
    sequence, acknowledged = at(segments, row + SEQUENCE), at(segments, row + ACKNOWLEDGED)
    length, full = at(segments, row + LENGTH), at(segments, row + FULL)
    flow, other, clock = flow_of(way), way ^ WAY, at(now, CLOCK)
    phase = at(flows, flow + PHASE)
    if phase != NONE and is_forgotten(flows, flow, clock):
        phase = np.int64(NONE)
    if flags & SYN:
        is_new = begins(flows, ways, flow, way, phase, sequence, acknowledged, flags, clock)
    else:
        # A connection that began before the capture is one as soon as it carries something: late acknowledgements and
        # resets of others are none. A single byte without PSH is how some systems ask whether the peer is still there.
        is_new = phase == NONE and flags & RST == 0 and full > 0 and (full > 1 or flags & PSH != 0)
    if is_new:
        if phase == OPEN:
            touch(flows, seen, now, flow)
            end_connection(flows, ways, nodes, chunks, now, flow, CLOSED, ts)
        open_connection(flows, ways, seen, now, keys, is_server, flow, way, ts, sequence, flags)
        phase = np.int64(OPEN)
    elif phase == NONE:
        store(now, REPEATED, at(now, REPEATED) + length)
        return
    else:
        touch(flows, seen, now, flow)
    if ts > at(flows, flow + LAST_US):
        store(flows, flow + LAST_US, ts)
    if phase != OPEN:
        store(now, REPEATED, at(now, REPEATED) + length)
        return
    store(flows, flow + QUIET_SINCE, clock)
    if flags & SYN:
        know_beginning(flows, ways, flow, way, sequence)
        if is_new and flags & ACK:
            know_beginning(flows, ways, flow, other, acknowledged - 1 & LOW32)
        sequence = sequence + 1 & LOW32
    else:
        store(flows, flow + BEYOND_SYN, 1)
    if flags & RST:
        if at(ways, way + KNOWN) == UNKNOWN or is_near(ways, way, sequence):
            end_connection(flows, ways, nodes, chunks, now, flow, RESET, ts)
        return
    if flags & ACK:
        take_acknowledgement(flows, ways, nodes, now, flow, other, acknowledged)
    if full > 0:
        store(flows, flow + CARRIED, 1)
        take_payload(
            flows, ways, nodes, holding, chunks, now, way, sequence, length, full, at(segments, row + START), ts
        )
    elif at(ways, way + KNOWN) == UNKNOWN:
        settle(ways, way, sequence, GUESSED)
    if flags & FIN:
        take_finish(ways, nodes, holding, now, way, sequence + full & LOW32)
    end_if_finished(flows, ways, nodes, chunks, now, flow, ts)


@njit(cache=True, nogil=True, inline="always")
def flow_of(way):
    return (way >> 5) << 4


# --- connections


@njit(cache=True, nogil=True)
def is_forgotten(flows, flow, clock):
    """Ended long ago, or nothing but a SYN that nobody answered: as if it had never been."""
    if clock - at(flows, flow + QUIET_SINCE) <= MEMORY_US:
        return False
    return at(flows, flow + PHASE) != OPEN or at(flows, flow + BEYOND_SYN) == 0


@njit(cache=True, nogil=True)
def begins(flows, ways, flow, way, phase, sequence, acknowledged, flags, clock):
    """Whether a SYN is the beginning of another connection, and not a repeated or late one of this."""
    if phase == NONE:
        return True
    initial, theirs = at(ways, way + INITIAL), at(ways, (way ^ WAY) + INITIAL)
    if flags & ACK:
        if initial >= 0:
            return initial != sequence
        if theirs >= 0:
            return theirs + 1 & LOW32 != acknowledged
    elif initial >= 0:
        # The same number again: refused and tried once more, or a copy.
        return initial != sequence or (phase == RESET and at(flows, flow + CARRIED) == 0)
    elif phase == OPEN and at(ways, way + KNOWN) == UNKNOWN and theirs >= 0 and at(flows, flow + CARRIED) == 0:
        return False
    if phase != OPEN or at(ways, way + KNOWN) == UNKNOWN:
        return True
    distance = at(ways, way + FIRST) - sequence - 1 & LOW32
    is_late = distance < LATE_BYTES and clock - at(flows, flow + BEGAN_CLOCK) <= PATIENCE_US
    return distance != 0 and not is_late


@njit(cache=True, nogil=True)
def open_connection(flows, ways, seen, now, keys, is_server, flow, way, ts, sequence, flags):
    if at(flows, flow + STAMP) == at(now, WINDOW):
        tell_one(flows, seen, at(flows, flow + LOCAL) * SEEN, flow)
    for k in range(FLOW):
        store(flows, flow + k, 0)
    store(flows, flow + PHASE, OPEN)
    store(flows, flow + CLIENT, client_side(keys, is_server, flow, way, flags))
    store(flows, flow + BEGAN_US, ts)
    store(flows, flow + BEGAN_SEQUENCE, sequence)
    store(flows, flow + BEGAN_CLOCK, at(now, CLOCK))
    store(flows, flow + LAST_US, ts)
    first = flow * 2
    for direction in (first, first + WAY):
        listed = at(ways, direction + LISTED)
        for k in range(WAY):
            store(ways, direction + k, 0)
        store(ways, direction + LISTED, listed)
        for k in (FINISH, ACKED, HEAD, TAIL, INITIAL):
            store(ways, direction + k, -1)
    see(flows, seen, now, flow, NEW)


@njit(cache=True, nogil=True)
def client_side(keys, is_server, flow, way, flags):
    """Who called: the sender of the SYN; else the side whose port is no server's; else the one with the higher port."""
    sender = way // WAY & 1
    if flags & SYN:
        return sender ^ 1 if flags & ACK else sender
    ports = at(keys, flow // FLOW * KEY + KEY_PORTS)
    port_0, port_1 = np.int64(ports >> np.uint64(16) & np.uint64(0xFFFF)), np.int64(ports & np.uint64(0xFFFF))
    known_0, known_1 = at(is_server, port_0), at(is_server, port_1)
    if known_0 != known_1:
        return np.int64(1) if known_0 else np.int64(0)
    if port_0 != port_1:
        return np.int64(0) if port_0 > port_1 else np.int64(1)
    return sender


@njit(cache=True, nogil=True)
def end_connection(flows, ways, nodes, chunks, now, flow, phase, ts):
    """What is held is given out; holes that are left are gaps."""
    first = flow * 2
    for way in (first, first + WAY):
        while at(ways, way + HEAD) >= 0:
            skip_hole(flows, ways, nodes, chunks, now, way, ts)
    store(flows, flow + PHASE, phase)
    store(flows, flow + ENDED_US, ts)
    store(flows, flow + QUIET_SINCE, at(now, CLOCK))


@njit(cache=True, nogil=True)
def end_if_finished(flows, ways, nodes, chunks, now, flow, ts):
    first = flow * 2
    if at(ways, first + IS_FINISHED) and at(ways, first + WAY + IS_FINISHED) and at(flows, flow + PHASE) == OPEN:
        end_connection(flows, ways, nodes, chunks, now, flow, CLOSED, ts)


@njit(cache=True, nogil=True)
def touch(flows, seen, now, flow):
    """The connection is among those of this window."""
    if at(flows, flow + STAMP) != at(now, WINDOW):
        see(flows, seen, now, flow, GOING_ON if at(flows, flow + PHASE) == OPEN else OVER)


@njit(cache=True, nogil=True)
def see(flows, seen, now, flow, before):
    number = at(now, SEENS)
    store(now, SEENS, number + 1)
    store(flows, flow + STAMP, at(now, WINDOW))
    store(flows, flow + LOCAL, number)
    store(seen, number * SEEN + SEEN_FLOW, flow // FLOW)
    store(seen, number * SEEN + SEEN_BEFORE, before)


@njit(cache=True, nogil=True)
def tell(flows, seen, now):
    """Writes down what the connections of this window are at its end."""
    for number in range(at(now, SEENS)):
        row = number * SEEN
        flow = at(seen, row + SEEN_FLOW) * FLOW
        if at(flows, flow + LOCAL) == number:
            tell_one(flows, seen, row, flow)


@njit(cache=True, nogil=True)
def tell_one(flows, seen, row, flow):
    for k in range(QUIET_SINCE):
        store(seen, row + SEEN_ROW + k, at(flows, flow + k))


# --- numbers


@njit(cache=True, nogil=True, inline="always")
def offset_of(ways, way, sequence):
    """The stream offset of a sequence number: the one that is nearest to what is expected."""
    expected = at(ways, way + NEXT)
    return expected + ((sequence - at(ways, way + FIRST) - expected + BEHIND & LOW32) - BEHIND)


@njit(cache=True, nogil=True)
def is_near(ways, way, sequence):
    return abs(offset_of(ways, way, sequence) - at(ways, way + NEXT)) < FARTHEST_RESET


@njit(cache=True, nogil=True)
def know_beginning(flows, ways, flow, way, initial):
    """The number of the SYN is known. If the direction has begun already, it stays where it is."""
    store(ways, way + INITIAL, initial)
    first = initial + 1 & LOW32
    if at(ways, way + KNOWN) != SURE:
        settle(ways, way, first, SURE)
    if at(ways, way + FIRST) == first:
        store(flows, flow + WHOLE, 1)


@njit(cache=True, nogil=True)
def settle(ways, way, first, how):
    """The direction begins here; nothing of it has been given out yet."""
    if at(ways, way + ACKED) >= 0:
        moved = (first - at(ways, way + FIRST) + (1 << 31) & LOW32) - (1 << 31)
        store(ways, way + ACKED, max(at(ways, way + ACKED) - moved, np.int64(-1)))
    store(ways, way + FIRST, first)
    store(ways, way + KNOWN, how)


@njit(cache=True, nogil=True)
def settle_by_payload(ways, way, sequence):
    """Payload from before a guessed beginning is the beginning; so is payload one byte behind it: the guess came from
    a packet that asked whether the peer is still there."""
    if at(ways, way + KNOWN) == UNKNOWN:
        settle(ways, way, sequence, SURE)
    elif at(ways, way + KNOWN) == GUESSED:
        ahead = (sequence - at(ways, way + FIRST) + (1 << 31) & LOW32) - (1 << 31)
        settle(ways, way, sequence if ahead < 0 or ahead == 1 else at(ways, way + FIRST), SURE)


@njit(cache=True, nogil=True)
def take_acknowledgement(flows, ways, nodes, now, flow, way, acknowledged):
    """``way`` is the direction whose bytes are acknowledged. That alone gives no hole up."""
    if at(ways, way + KNOWN) == UNKNOWN:
        if at(flows, flow + WHOLE):
            # The answer to our SYN was not captured, but this tells its number.
            settle(ways, way, acknowledged, GUESSED)
            store(ways, way + ACKED, 0)
        return
    offset = offset_of(ways, way, acknowledged)
    if offset > at(ways, way + ACKED):
        store(ways, way + ACKED, offset)
        if at(ways, way + HEAD) >= 0:
            set_alarm(ways, nodes, now, way)


@njit(cache=True, nogil=True)
def set_alarm(ways, nodes, now, way):
    if at(ways, way + ACKED) >= at(nodes, at(ways, way + HEAD) + OFFSET):
        due = at(ways, way + HELD_SINCE) + PATIENCE_US
        if due < at(now, DUE):
            store(now, DUE, due)


# --- bytes


@njit(cache=True, nogil=True)
def emit(flows, ways, chunks, now, way, length, ts, start, position):
    """The next bytes of a direction; ``start`` -1: they were not captured."""
    if length == 0:
        return
    flow = flow_of(way)
    number = at(now, CHUNKS)
    store(now, CHUNKS, number + 1)
    row = number * CHUNK
    offset = at(ways, way + NEXT)
    store(chunks, row + CHUNK_CONNECTION, at(flows, flow + LOCAL))
    store(chunks, row + CHUNK_DIRECTION, (way // WAY & 1) ^ at(flows, flow + CLIENT))
    store(chunks, row + CHUNK_OFFSET, offset)
    store(chunks, row + CHUNK_LENGTH, length)
    store(chunks, row + CHUNK_TS, ts)
    store(chunks, row + CHUNK_START, start)
    store(chunks, row + CHUNK_POSITION, position)
    store(ways, way + NEXT, offset + length)
    if start < 0:
        store(now, MISSING, at(now, MISSING) + length)


@njit(cache=True, nogil=True)
def take_payload(flows, ways, nodes, holding, chunks, now, way, sequence, length, full, start, ts):
    """``length`` of ``full`` bytes were captured."""
    if at(ways, way + KNOWN) != SURE:
        settle_by_payload(ways, way, sequence)
    offset, expected = offset_of(ways, way, sequence), at(ways, way + NEXT)
    finish = at(ways, way + FINISH)
    if finish >= 0 and offset + full > finish:
        kept = max(finish - offset, np.int64(0))
        store(now, REPEATED, at(now, REPEATED) + max(length - kept, np.int64(0)))
        length, full = min(length, kept), kept
    if offset < expected:
        known = min(expected - offset, full)
        early = min(max(-offset, np.int64(0)), known)
        store(now, EARLY, at(now, EARLY) + min(early, length))
        store(now, REPEATED, at(now, REPEATED) + min(known, length) - min(early, length))
        offset, start, full = offset + known, start + known, full - known
        length = max(length - known, np.int64(0))
    if full == 0:
        return
    position = start + at(now, SHIFT)
    if offset > expected:
        hold(ways, nodes, holding, now, way, offset, length, start, position)
        while at(ways, way + HELD) > MOST_HELD or at(ways, way + HELD_BYTES) > MOST_HELD_BYTES:
            skip_hole(flows, ways, nodes, chunks, now, way, ts)
        return
    if at(ways, way + HEAD) < 0:
        emit(flows, ways, chunks, now, way, length, ts, start, position)
        if full > length:
            emit(flows, ways, chunks, now, way, full - length, ts, np.int64(-1), position + length)
        return
    hold(ways, nodes, holding, now, way, offset, length, start, position)
    release(flows, ways, nodes, chunks, now, way, ts)
    missing = offset + full - at(ways, way + NEXT)
    if full > length and missing > 0:
        # The rest of this packet was not captured: there is nothing to wait for.
        if at(ways, way + HEAD) >= 0:
            missing = min(missing, at(nodes, at(ways, way + HEAD) + OFFSET) - at(ways, way + NEXT))
        emit(flows, ways, chunks, now, way, missing, ts, np.int64(-1), position + length)
        release(flows, ways, nodes, chunks, now, way, ts)


@njit(cache=True, nogil=True)
def hold(ways, nodes, holding, now, way, offset, length, start, position):
    """Keeps the bytes that are not held yet."""
    before, node = np.int64(-1), at(ways, way + HEAD)
    tail = at(ways, way + TAIL)
    if tail >= 0 and offset >= at(nodes, tail + OFFSET) + at(nodes, tail + SIZE):
        before, node = tail, np.int64(-1)
    while length > 0:
        begin = at(nodes, node + OFFSET) if node >= 0 else offset + length
        if offset < begin:
            piece = min(length, begin - offset)
            before = put(ways, nodes, holding, now, way, before, node, offset, piece, start, position)
        else:
            piece = max(min(length, begin + at(nodes, node + SIZE) - offset), np.int64(0))
            store(now, REPEATED, at(now, REPEATED) + piece)
            before, node = node, at(nodes, node + FOLLOWING)
        offset, start, position, length = offset + piece, start + piece, position + piece, length - piece
    if at(ways, way + HEAD) >= 0:
        set_alarm(ways, nodes, now, way)


@njit(cache=True, nogil=True)
def put(ways, nodes, holding, now, way, before, following, offset, length, start, position):
    """A new node between two others."""
    node = at(now, FREE)
    store(now, FREE, at(nodes, node + FOLLOWING))
    store(now, USED, at(now, USED) + 1)
    store(now, HELD_TOTAL, at(now, HELD_TOTAL) + length)
    store(nodes, node + FOLLOWING, following)
    store(nodes, node + OFFSET, offset)
    store(nodes, node + SIZE, length)
    store(nodes, node + PLACE, start)
    store(nodes, node + POSITION, position)
    store(nodes, node + HELD_AT, at(now, CLOCK))
    if at(ways, way + HEAD) < 0:
        store(ways, way + HELD_SINCE, at(now, CLOCK))
    if before < 0:
        store(ways, way + HEAD, node)
    else:
        store(nodes, before + FOLLOWING, node)
    if following < 0:
        store(ways, way + TAIL, node)
    store(ways, way + HELD, at(ways, way + HELD) + 1)
    store(ways, way + HELD_BYTES, at(ways, way + HELD_BYTES) + length)
    if at(ways, way + LISTED) == 0:
        store(ways, way + LISTED, 1)
        store(holding, at(now, HOLDING), way)
        store(now, HOLDING, at(now, HOLDING) + 1)
    return node


@njit(cache=True, nogil=True)
def release(flows, ways, nodes, chunks, now, way, ts):
    """Gives out what is held and no longer has a hole before it."""
    node = at(ways, way + HEAD)
    while node >= 0 and at(nodes, node + OFFSET) == at(ways, way + NEXT):
        following, length = at(nodes, node + FOLLOWING), at(nodes, node + SIZE)
        emit(flows, ways, chunks, now, way, length, ts, at(nodes, node + PLACE), at(nodes, node + POSITION))
        if at(ways, way + FINISH) == at(ways, way + NEXT) and length == 0:
            store(ways, way + IS_FINISHED, 1)
        store(ways, way + HEAD, following)
        store(ways, way + HELD, at(ways, way + HELD) - 1)
        store(ways, way + HELD_BYTES, at(ways, way + HELD_BYTES) - length)
        store(now, HELD_TOTAL, at(now, HELD_TOTAL) - length)
        store(nodes, node + FOLLOWING, at(now, FREE))
        store(now, FREE, node)
        store(now, USED, at(now, USED) - 1)
        node = following
    if node < 0:
        store(ways, way + TAIL, -1)
    else:
        store(ways, way + HELD_SINCE, at(nodes, node + HELD_AT))
        set_alarm(ways, nodes, now, way)


@njit(cache=True, nogil=True)
def skip_hole(flows, ways, nodes, chunks, now, way, ts):
    """Gives up the first hole."""
    node = at(ways, way + HEAD)
    missing = at(nodes, node + OFFSET) - at(ways, way + NEXT)
    emit(flows, ways, chunks, now, way, missing, ts, np.int64(-1), at(nodes, node + POSITION))
    release(flows, ways, nodes, chunks, now, way, ts)


@njit(cache=True, nogil=True)
def take_finish(ways, nodes, holding, now, way, sequence):
    """A FIN has a place in the stream; until everything before it is there, it is held as a segment without bytes."""
    if at(ways, way + FINISH) >= 0:
        return
    if at(ways, way + KNOWN) != SURE:
        settle_by_payload(ways, way, sequence)
    offset, tail = offset_of(ways, way, sequence), at(ways, way + TAIL)
    is_behind = offset < at(ways, way + NEXT)
    if is_behind or (tail >= 0 and offset < at(nodes, tail + OFFSET) + at(nodes, tail + SIZE)):
        return
    store(ways, way + FINISH, offset)
    if offset == at(ways, way + NEXT):
        store(ways, way + IS_FINISHED, 1)
        return
    put(ways, nodes, holding, now, way, tail, np.int64(-1), offset, np.int64(0), np.int64(-1), np.int64(-1))
    set_alarm(ways, nodes, now, way)


@njit(cache=True, nogil=True)
def give_up_what_is_due(flows, ways, nodes, holding, chunks, seen, now, ts):
    """Holes that the peer has acknowledged, and that were waited for long enough."""
    clock, count = at(now, CLOCK), at(now, HOLDING)
    store(now, DUE, NEVER)
    left = np.int64(0)
    for k in range(count):
        way = at(holding, k)
        flow = flow_of(way)
        while (
            at(ways, way + HEAD) >= 0
            and clock - at(ways, way + HELD_SINCE) >= PATIENCE_US
            and at(ways, way + ACKED) >= at(nodes, at(ways, way + HEAD) + OFFSET)
        ):
            touch(flows, seen, now, flow)
            skip_hole(flows, ways, nodes, chunks, now, way, ts)
        end_if_finished(flows, ways, nodes, chunks, now, flow, ts)
        if at(ways, way + HEAD) < 0:
            store(ways, way + LISTED, 0)
        else:
            set_alarm(ways, nodes, now, way)
            store(holding, left, way)
            left += 1
    store(now, HOLDING, left)


@njit(cache=True, nogil=True)
def give_up_all(flows, ways, nodes, holding, chunks, seen, now):
    """Nothing more comes."""
    for k in range(at(now, HOLDING)):
        way = at(holding, k)
        flow = flow_of(way)
        ts = at(flows, flow + LAST_US)
        while at(ways, way + HEAD) >= 0:
            touch(flows, seen, now, flow)
            skip_hole(flows, ways, nodes, chunks, now, way, ts)
        store(ways, way + LISTED, 0)
        end_if_finished(flows, ways, nodes, chunks, now, flow, ts)
    store(now, HOLDING, 0)
    store(now, DUE, NEVER)


@njit(cache=True, nogil=True)
def keep_held(data, ways, nodes, holding, now, kept):
    """Copies the bytes that are held out of a window, one after the other; that is where they are from now on."""
    place = np.int64(0)
    for k in range(at(now, HOLDING)):
        node = at(ways, at(holding, k) + HEAD)
        while node >= 0:
            length = at(nodes, node + SIZE)
            if length > 0:
                copy(kept, place, data, at(nodes, node + PLACE), length)
                store(nodes, node + PLACE, place)
                place += length
            node = at(nodes, node + FOLLOWING)


@njit(cache=True, nogil=True)
def forget_positions(ways, nodes, holding, now):
    """Another file begins: what is held lies in none of its places."""
    for k in range(at(now, HOLDING)):
        node = at(ways, at(holding, k) + HEAD)
        while node >= 0:
            store(nodes, node + POSITION, -1)
            node = at(nodes, node + FOLLOWING)


@njit(cache=True, nogil=True)
def copy_held(data, ways, nodes, holding, count, new_nodes, kept):
    """The lists of some directions, one node after the other in ``new_nodes``; their heads and tails move with them.

    Gives the number of nodes. Unlike ``keep_held`` it leaves the old nodes as they are.
    """
    place, made = np.int64(0), np.int64(0)
    for k in range(count):
        way = at(holding, k)
        node = at(ways, way + HEAD)
        if node >= 0:
            store(ways, way + HEAD, made * NODE)
        while node >= 0:
            new = made * NODE
            made += 1
            following, length = at(nodes, node + FOLLOWING), at(nodes, node + SIZE)
            for part in range(NODE):
                store(new_nodes, new + part, at(nodes, node + part))
            store(new_nodes, new + FOLLOWING, made * NODE if following >= 0 else -1)
            if length > 0:
                copy(kept, place, data, at(nodes, node + PLACE), length)
                store(new_nodes, new + PLACE, place)
                place += length
            if following < 0:
                store(ways, way + TAIL, new)
            node = following
    return made
