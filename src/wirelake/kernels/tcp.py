"""The TCP kernel: turns segments in the order of capture into stream bytes in the order of sending.

It reads no payload: a piece of payload is named by its place. State is in rows of integers, one for each connection
(``flows``), each direction (``streams``) and each segment that waits for missing bytes before it (``nodes``, a list per
stream, in order and without overlap: of bytes that were captured twice, the first ones count).

Decisions depend on nothing but the packets so far: the same packets give the same chunks, however they are cut into
windows. A row is named by the place of its first number: the row of the other direction is
``stream ^ STREAM``, that of the connection ``(stream >> 5) << 4``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import at, copy, pointer, store
from .packets import ACKNOWLEDGED, DIRECTION, FLAGS, FULL, KEY, KEY_PORTS, LENGTH, SEGMENT, SEQUENCE, START, TS

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
LOW32 = 0xFFFFFFFF
BEHIND = 1 << 30
"""How far a segment may lie behind the expected offset; one that seems further back lies ahead, behind a long gap."""

PATIENCE_US = 2_000_000
"""How long a hole stays open after the first segment behind it, if the peer has acknowledged the missing bytes."""
MEMORY_US = 120_000_000
"""How long an ended connection is remembered, and one that never got beyond its SYN."""
MOST_HELD, MOST_HELD_BYTES = 4096, 4 << 20
"""The most that is held per direction; beyond that, a hole is given up."""
LATE_BYTES = 1 << 20
"""A SYN after data begins another connection only if its sequence number is further away than this."""
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
STREAM = 16
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
def track(segments, first, count, keys, is_server, flows, streams, nodes, holding, chunks, seen, now):
    """Take segments from ``first`` on; return the number of the first one for which there is no room."""
    segments_, keys_, is_server_, flows_ = pointer(segments), pointer(keys), pointer(is_server), pointer(flows)
    streams_, nodes_, holding_ = pointer(streams), pointer(nodes), pointer(holding)
    chunks_, seen_, now_ = pointer(chunks), pointer(seen), pointer(now)
    most_nodes, most_holding = nodes.shape[0] // NODE, holding.shape[0]
    most_chunks, most_seen = chunks.shape[0] // CHUNK, seen.shape[0] // SEEN
    for i in range(first, count):
        row = i * SEGMENT
        stream = at(segments_, row + DIRECTION) * STREAM
        used = at(now_, USED)
        held = at(streams_, stream + HELD)
        if (
            most_nodes - used < held + 4 or most_chunks - at(now_, CHUNKS) < 4 * used + 16
            or most_seen - at(now_, SEENS) < 4 + at(now_, HOLDING) or most_holding - at(now_, HOLDING) < 4
        ):  # fmt: skip
            return i
        ts = at(segments_, row + TS)
        if ts > at(now_, CLOCK):
            store(now_, CLOCK, ts)
        take_segment(
            segments_, row, stream, keys_, is_server_, flows_, streams_, nodes_, holding_, chunks_, seen_, now_
        )
        if at(now_, CLOCK) >= at(now_, DUE):
            give_up(flows_, streams_, nodes_, holding_, chunks_, seen_, now_, ts, False)
    return count


@njit(cache=True, nogil=True)
def take_segment(segments, row, stream, keys, is_server, flows, streams, nodes, holding, chunks, seen, now):
    ts, flags = at(segments, row + TS), at(segments, row + FLAGS)
    sequence, acknowledged = at(segments, row + SEQUENCE), at(segments, row + ACKNOWLEDGED)
    length, full = at(segments, row + LENGTH), at(segments, row + FULL)
    flow, other, clock = flow_of(stream), stream ^ STREAM, at(now, CLOCK)
    phase = at(flows, flow + PHASE)
    if phase != NONE and is_forgotten(flows, flow, clock):
        phase = np.int64(NONE)
    if flags & SYN:
        is_new = begins(flows, streams, flow, stream, phase, sequence, acknowledged, flags, clock)
    else:
        # A connection that began before the capture is one as soon as it carries something: late acknowledgements and
        # resets of others are none. A single byte without PSH is how some systems ask whether the peer is still there.
        is_new = phase == NONE and flags & RST == 0 and full > 0 and (full > 1 or flags & PSH != 0)
    if is_new:
        if phase == OPEN:
            touch(flows, seen, now, flow)
            end_connection(flows, streams, nodes, chunks, now, flow, CLOSED, ts)
        open_connection(flows, streams, seen, now, keys, is_server, flow, stream, ts, sequence, flags)
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
        know_beginning(flows, streams, flow, stream, sequence)
        if is_new and flags & ACK:
            know_beginning(flows, streams, flow, other, acknowledged - 1 & LOW32)
        sequence = sequence + 1 & LOW32
    else:
        store(flows, flow + BEYOND_SYN, 1)
    if flags & RST:
        if at(streams, stream + KNOWN) == UNKNOWN or is_near(streams, stream, sequence):
            end_connection(flows, streams, nodes, chunks, now, flow, RESET, ts)
        return
    if flags & ACK:
        take_acknowledgement(flows, streams, nodes, now, flow, other, acknowledged)
    if full > 0:
        store(flows, flow + CARRIED, 1)
        take_payload(
            flows, streams, nodes, holding, chunks, now, stream, sequence, length, full, at(segments, row + START), ts
        )
    elif at(streams, stream + KNOWN) == UNKNOWN:
        settle(streams, stream, sequence, GUESSED)
    if flags & FIN:
        take_finish(streams, nodes, holding, now, stream, sequence + full & LOW32)
    end_if_finished(flows, streams, nodes, chunks, now, flow, ts)


@njit(cache=True, nogil=True, inline="always")
def flow_of(stream):
    return (stream >> 5) << 4


# --- connections


@njit(cache=True, nogil=True)
def is_forgotten(flows, flow, clock):
    """Return whether a connection ended long ago, or never got beyond a SYN without reply."""
    if clock - at(flows, flow + QUIET_SINCE) <= MEMORY_US:
        return False
    return at(flows, flow + PHASE) != OPEN or at(flows, flow + BEYOND_SYN) == 0


@njit(cache=True, nogil=True)
def begins(flows, streams, flow, stream, phase, sequence, acknowledged, flags, clock):
    """Return whether a SYN begins another connection; otherwise it is a repeated or late one of this connection."""
    if phase == NONE:
        return True
    initial, theirs = at(streams, stream + INITIAL), at(streams, (stream ^ STREAM) + INITIAL)
    if flags & ACK:
        if initial >= 0:
            return initial != sequence
        if theirs >= 0:
            return theirs + 1 & LOW32 != acknowledged
    elif initial >= 0:
        # The same number again: refused and tried once more, or a copy.
        return initial != sequence or (phase == RESET and at(flows, flow + CARRIED) == 0)
    elif phase == OPEN and at(streams, stream + KNOWN) == UNKNOWN and theirs >= 0 and at(flows, flow + CARRIED) == 0:
        return False
    if phase != OPEN or at(streams, stream + KNOWN) == UNKNOWN:
        return True
    distance = at(streams, stream + FIRST) - sequence - 1 & LOW32
    is_late = distance < LATE_BYTES and clock - at(flows, flow + BEGAN_CLOCK) <= PATIENCE_US
    return distance != 0 and not is_late


@njit(cache=True, nogil=True)
def open_connection(flows, streams, seen, now, keys, is_server, flow, stream, ts, sequence, flags):
    if at(flows, flow + STAMP) == at(now, WINDOW):
        note_connection(flows, seen, at(flows, flow + LOCAL) * SEEN, flow)
    for k in range(FLOW):
        store(flows, flow + k, 0)
    store(flows, flow + PHASE, OPEN)
    store(flows, flow + CLIENT, client_side(keys, is_server, flow, stream, flags))
    store(flows, flow + BEGAN_US, ts)
    store(flows, flow + BEGAN_SEQUENCE, sequence)
    store(flows, flow + BEGAN_CLOCK, at(now, CLOCK))
    store(flows, flow + LAST_US, ts)
    first = flow * 2
    for direction in (first, first + STREAM):
        listed = at(streams, direction + LISTED)
        for k in range(STREAM):
            store(streams, direction + k, 0)
        store(streams, direction + LISTED, listed)
        for k in (FINISH, ACKED, HEAD, TAIL, INITIAL):
            store(streams, direction + k, -1)
    see(flows, seen, now, flow, NEW)


@njit(cache=True, nogil=True)
def client_side(keys, is_server, flow, stream, flags):
    """Return the side of the client: it sent the SYN, else its port is not a server's, else its port is higher."""
    sender = stream // STREAM & 1
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
def end_connection(flows, streams, nodes, chunks, now, flow, phase, ts):
    """End a connection: emit held segments; the holes that are left become gaps."""
    first = flow * 2
    for stream in (first, first + STREAM):
        while at(streams, stream + HEAD) >= 0:
            skip_hole(flows, streams, nodes, chunks, now, stream, ts)
    store(flows, flow + PHASE, phase)
    store(flows, flow + ENDED_US, ts)
    store(flows, flow + QUIET_SINCE, at(now, CLOCK))


@njit(cache=True, nogil=True)
def end_if_finished(flows, streams, nodes, chunks, now, flow, ts):
    first = flow * 2
    is_finished = at(streams, first + IS_FINISHED) and at(streams, first + STREAM + IS_FINISHED)
    if is_finished and at(flows, flow + PHASE) == OPEN:
        end_connection(flows, streams, nodes, chunks, now, flow, CLOSED, ts)


@njit(cache=True, nogil=True)
def touch(flows, seen, now, flow):
    """Add a connection to those of this window."""
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
def note_connections(flows, seen, now):
    """Write down what the connections of this window are at its end."""
    for number in range(at(now, SEENS)):
        row = number * SEEN
        flow = at(seen, row + SEEN_FLOW) * FLOW
        if at(flows, flow + LOCAL) == number:
            note_connection(flows, seen, row, flow)


@njit(cache=True, nogil=True)
def note_connection(flows, seen, row, flow):
    for k in range(QUIET_SINCE):
        store(seen, row + SEEN_ROW + k, at(flows, flow + k))


# --- numbers


@njit(cache=True, nogil=True, inline="always")
def offset_of(streams, stream, sequence):
    """Return the stream offset of a sequence number: the one nearest to the expected offset."""
    expected = at(streams, stream + NEXT)
    return expected + ((sequence - at(streams, stream + FIRST) - expected + BEHIND & LOW32) - BEHIND)


@njit(cache=True, nogil=True)
def is_near(streams, stream, sequence):
    return abs(offset_of(streams, stream, sequence) - at(streams, stream + NEXT)) < FARTHEST_RESET


@njit(cache=True, nogil=True)
def know_beginning(flows, streams, flow, stream, initial):
    """Learn the sequence number of the SYN. A direction that has begun stays where it is."""
    store(streams, stream + INITIAL, initial)
    first = initial + 1 & LOW32
    if at(streams, stream + KNOWN) != SURE:
        settle(streams, stream, first, SURE)
    if at(streams, stream + FIRST) == first:
        store(flows, flow + WHOLE, 1)


@njit(cache=True, nogil=True)
def settle(streams, stream, first, how):
    """Let a direction begin here; nothing of it has been emitted yet."""
    if at(streams, stream + ACKED) >= 0:
        moved = (first - at(streams, stream + FIRST) + (1 << 31) & LOW32) - (1 << 31)
        store(streams, stream + ACKED, max(at(streams, stream + ACKED) - moved, np.int64(-1)))
    store(streams, stream + FIRST, first)
    store(streams, stream + KNOWN, how)


@njit(cache=True, nogil=True)
def settle_by_payload(streams, stream, sequence):
    """Settle a beginning by payload before a guessed one, or one byte behind it: there the guess was a keep-alive."""
    if at(streams, stream + KNOWN) == UNKNOWN:
        settle(streams, stream, sequence, SURE)
    elif at(streams, stream + KNOWN) == GUESSED:
        ahead = (sequence - at(streams, stream + FIRST) + (1 << 31) & LOW32) - (1 << 31)
        settle(streams, stream, sequence if ahead < 0 or ahead == 1 else at(streams, stream + FIRST), SURE)


@njit(cache=True, nogil=True)
def take_acknowledgement(flows, streams, nodes, now, flow, stream, acknowledged):
    """Note how far the bytes of ``stream`` are acknowledged. That alone gives up no hole."""
    if at(streams, stream + KNOWN) == UNKNOWN:
        if at(flows, flow + WHOLE):
            # The reply to the SYN was not captured, but this is its number.
            settle(streams, stream, acknowledged, GUESSED)
            store(streams, stream + ACKED, 0)
        return
    offset = offset_of(streams, stream, acknowledged)
    if offset > at(streams, stream + ACKED):
        store(streams, stream + ACKED, offset)
        if at(streams, stream + HEAD) >= 0:
            set_alarm(streams, nodes, now, stream)


@njit(cache=True, nogil=True)
def set_alarm(streams, nodes, now, stream):
    if at(streams, stream + ACKED) >= at(nodes, at(streams, stream + HEAD) + OFFSET):
        due = at(streams, stream + HELD_SINCE) + PATIENCE_US
        if due < at(now, DUE):
            store(now, DUE, due)


# --- bytes


@njit(cache=True, nogil=True)
def emit(flows, streams, chunks, now, stream, length, ts, start, position):
    """Write the next bytes of a direction as a chunk; with ``start`` -1 they were not captured."""
    if length == 0:
        return
    flow = flow_of(stream)
    number = at(now, CHUNKS)
    store(now, CHUNKS, number + 1)
    row = number * CHUNK
    offset = at(streams, stream + NEXT)
    store(chunks, row + CHUNK_CONNECTION, at(flows, flow + LOCAL))
    store(chunks, row + CHUNK_DIRECTION, (stream // STREAM & 1) ^ at(flows, flow + CLIENT))
    store(chunks, row + CHUNK_OFFSET, offset)
    store(chunks, row + CHUNK_LENGTH, length)
    store(chunks, row + CHUNK_TS, ts)
    store(chunks, row + CHUNK_START, start)
    store(chunks, row + CHUNK_POSITION, position)
    store(streams, stream + NEXT, offset + length)
    if start < 0:
        store(now, MISSING, at(now, MISSING) + length)


@njit(cache=True, nogil=True)
def take_payload(flows, streams, nodes, holding, chunks, now, stream, sequence, length, full, start, ts):
    """Take payload, of which ``length`` of ``full`` bytes were captured."""
    if at(streams, stream + KNOWN) != SURE:
        settle_by_payload(streams, stream, sequence)
    offset, expected = offset_of(streams, stream, sequence), at(streams, stream + NEXT)
    finish = at(streams, stream + FINISH)
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
        hold(streams, nodes, holding, now, stream, offset, length, start, position)
        while at(streams, stream + HELD) > MOST_HELD or at(streams, stream + HELD_BYTES) > MOST_HELD_BYTES:
            skip_hole(flows, streams, nodes, chunks, now, stream, ts)
        return
    if at(streams, stream + HEAD) < 0:
        emit(flows, streams, chunks, now, stream, length, ts, start, position)
        if full > length:
            emit(flows, streams, chunks, now, stream, full - length, ts, np.int64(-1), position + length)
        return
    hold(streams, nodes, holding, now, stream, offset, length, start, position)
    release(flows, streams, nodes, chunks, now, stream, ts)
    missing = offset + full - at(streams, stream + NEXT)
    if full > length and missing > 0:
        # The rest of this packet was not captured: there is nothing to wait for.
        if at(streams, stream + HEAD) >= 0:
            missing = min(missing, at(nodes, at(streams, stream + HEAD) + OFFSET) - at(streams, stream + NEXT))
        emit(flows, streams, chunks, now, stream, missing, ts, np.int64(-1), position + length)
        release(flows, streams, nodes, chunks, now, stream, ts)


@njit(cache=True, nogil=True)
def hold(streams, nodes, holding, now, stream, offset, length, start, position):
    """Hold those of these bytes that are not held yet."""
    before, node = np.int64(-1), at(streams, stream + HEAD)
    tail = at(streams, stream + TAIL)
    if tail >= 0 and offset >= at(nodes, tail + OFFSET) + at(nodes, tail + SIZE):
        before, node = tail, np.int64(-1)
    while length > 0:
        begin = at(nodes, node + OFFSET) if node >= 0 else offset + length
        if offset < begin:
            piece = min(length, begin - offset)
            before = put(streams, nodes, holding, now, stream, before, node, offset, piece, start, position)
        else:
            piece = max(min(length, begin + at(nodes, node + SIZE) - offset), np.int64(0))
            store(now, REPEATED, at(now, REPEATED) + piece)
            before, node = node, at(nodes, node + FOLLOWING)
        offset, start, position, length = offset + piece, start + piece, position + piece, length - piece
    if at(streams, stream + HEAD) >= 0:
        set_alarm(streams, nodes, now, stream)


@njit(cache=True, nogil=True)
def put(streams, nodes, holding, now, stream, before, following, offset, length, start, position):
    """Put a new node between two others. Its numbers are written in their order: FOLLOWING, OFFSET and so on."""
    node = at(now, FREE)
    store(now, FREE, at(nodes, node + FOLLOWING))
    store(now, USED, at(now, USED) + 1)
    store(now, HELD_TOTAL, at(now, HELD_TOTAL) + length)
    for k, value in enumerate((following, offset, length, start, position, at(now, CLOCK))):
        store(nodes, node + k, value)
    if at(streams, stream + HEAD) < 0:
        store(streams, stream + HELD_SINCE, at(now, CLOCK))
    if before < 0:
        store(streams, stream + HEAD, node)
    else:
        store(nodes, before + FOLLOWING, node)
    if following < 0:
        store(streams, stream + TAIL, node)
    store(streams, stream + HELD, at(streams, stream + HELD) + 1)
    store(streams, stream + HELD_BYTES, at(streams, stream + HELD_BYTES) + length)
    if at(streams, stream + LISTED) == 0:
        store(streams, stream + LISTED, 1)
        store(holding, at(now, HOLDING), stream)
        store(now, HOLDING, at(now, HOLDING) + 1)
    return node


@njit(cache=True, nogil=True)
def release(flows, streams, nodes, chunks, now, stream, ts):
    """Emit held segments that no longer have a hole before them."""
    node = at(streams, stream + HEAD)
    while node >= 0 and at(nodes, node + OFFSET) == at(streams, stream + NEXT):
        following, length = at(nodes, node + FOLLOWING), at(nodes, node + SIZE)
        emit(flows, streams, chunks, now, stream, length, ts, at(nodes, node + PLACE), at(nodes, node + POSITION))
        if at(streams, stream + FINISH) == at(streams, stream + NEXT) and length == 0:
            store(streams, stream + IS_FINISHED, 1)
        store(streams, stream + HEAD, following)
        store(streams, stream + HELD, at(streams, stream + HELD) - 1)
        store(streams, stream + HELD_BYTES, at(streams, stream + HELD_BYTES) - length)
        store(now, HELD_TOTAL, at(now, HELD_TOTAL) - length)
        store(nodes, node + FOLLOWING, at(now, FREE))
        store(now, FREE, node)
        store(now, USED, at(now, USED) - 1)
        node = following
    if node < 0:
        store(streams, stream + TAIL, -1)
    else:
        store(streams, stream + HELD_SINCE, at(nodes, node + HELD_AT))
        set_alarm(streams, nodes, now, stream)


@njit(cache=True, nogil=True)
def skip_hole(flows, streams, nodes, chunks, now, stream, ts):
    """Give up the first hole."""
    node = at(streams, stream + HEAD)
    missing = at(nodes, node + OFFSET) - at(streams, stream + NEXT)
    emit(flows, streams, chunks, now, stream, missing, ts, np.int64(-1), at(nodes, node + POSITION))
    release(flows, streams, nodes, chunks, now, stream, ts)


@njit(cache=True, nogil=True)
def take_finish(streams, nodes, holding, now, stream, sequence):
    """Take a FIN; until all bytes before it have come, it is held as a segment without bytes."""
    if at(streams, stream + FINISH) >= 0:
        return
    if at(streams, stream + KNOWN) != SURE:
        settle_by_payload(streams, stream, sequence)
    offset, tail = offset_of(streams, stream, sequence), at(streams, stream + TAIL)
    is_behind = offset < at(streams, stream + NEXT)
    if is_behind or (tail >= 0 and offset < at(nodes, tail + OFFSET) + at(nodes, tail + SIZE)):
        return
    store(streams, stream + FINISH, offset)
    if offset == at(streams, stream + NEXT):
        store(streams, stream + IS_FINISHED, 1)
        return
    put(streams, nodes, holding, now, stream, tail, np.int64(-1), offset, np.int64(0), np.int64(-1), np.int64(-1))
    set_alarm(streams, nodes, now, stream)


@njit(cache=True, nogil=True)
def give_up(flows, streams, nodes, holding, chunks, seen, now, ts, is_end):
    """Give up holes that the peer has acknowledged, once their time is over; all of them if nothing more comes."""
    store(now, DUE, NEVER)
    left = np.int64(0)
    for k in range(at(now, HOLDING)):
        stream = at(holding, k)
        flow = flow_of(stream)
        at_us = at(flows, flow + LAST_US) if is_end else ts
        while at(streams, stream + HEAD) >= 0 and (is_end or is_due(streams, nodes, now, stream)):
            touch(flows, seen, now, flow)
            skip_hole(flows, streams, nodes, chunks, now, stream, at_us)
        end_if_finished(flows, streams, nodes, chunks, now, flow, at_us)
        if at(streams, stream + HEAD) < 0:
            store(streams, stream + LISTED, 0)
        else:
            set_alarm(streams, nodes, now, stream)
            store(holding, left, stream)
            left += 1
    store(now, HOLDING, left)


@njit(cache=True, nogil=True)
def is_due(streams, nodes, now, stream):
    is_acknowledged = at(streams, stream + ACKED) >= at(nodes, at(streams, stream + HEAD) + OFFSET)
    return is_acknowledged and at(now, CLOCK) - at(streams, stream + HELD_SINCE) >= PATIENCE_US


@njit(cache=True, nogil=True)
def keep_held(data, streams, nodes, holding, now, kept):
    """Move the held bytes out of a window, one after the other, to their new place."""
    place = np.int64(0)
    for k in range(at(now, HOLDING)):
        node = at(streams, at(holding, k) + HEAD)
        while node >= 0:
            length = at(nodes, node + SIZE)
            if length > 0:
                copy(kept, place, data, at(nodes, node + PLACE), length)
                store(nodes, node + PLACE, place)
                place += length
            node = at(nodes, node + FOLLOWING)


@njit(cache=True, nogil=True)
def copy_held(data, streams, nodes, holding, count, new_nodes, kept):
    """Copy the lists of some directions to ``new_nodes``, one node after the other; heads and tails move with them.

    Unlike ``keep_held``, it leaves the old nodes as they are.
    """
    place, made = np.int64(0), np.int64(0)
    for k in range(count):
        stream = at(holding, k)
        node = at(streams, stream + HEAD)
        if node >= 0:
            store(streams, stream + HEAD, made * NODE)
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
                store(streams, stream + TAIL, new)
            node = following
