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

from .memory import at, pointer, store
from .packets import (
    ACKNOWLEDGED,
    DIRECTION,
    FLAGS,
    FULL,
    KEY,
    KEY_PORTS,
    LENGTH,
    NO_SCALE,
    ORIGIN_BITS,
    SCALE,
    SCALE_BITS,
    SEGMENT,
    SEQUENCE,
    START,
    TS,
    WINDOW_BITS,
)
from .tcp_held import bring_near, emit, flow_of, hold, list_stream, put, release, remove_finish, skip_hole
from .tcp_rows import (
    ACKED,
    BEGAN_CLOCK,
    BEGAN_SEQUENCE,
    BEGAN_US,
    BEYOND_SYN,
    CARRIED,
    CHUNK,
    CHUNKS,
    CLIENT,
    CLOCK,
    CLOSED,
    DUE,
    EARLY,
    ENDED_US,
    FINISH,
    FIRST,
    FLOW,
    GOES_ON,
    GOING_ON,
    GUESSED,
    HEAD,
    HELD,
    HELD_BYTES,
    HOLDING,
    INITIAL,
    IS_FINISHED,
    KNOWN,
    LAST_US,
    LEVELS,
    LOCAL,
    MEMORY_US,
    MOST_HELD_BYTES,
    NEW,
    NEXT,
    NODE,
    NONE,
    OFFERED,
    OFFSET,
    OPEN,
    OUTSIDE,
    OVER,
    PATIENCE_US,
    PHASE,
    QUIET_SINCE,
    REPEATED,
    RESET,
    SCALES,
    SEEN,
    SEEN_BEFORE,
    SEEN_FLOW,
    SEEN_ROW,
    SEENS,
    SHIFT,
    SIZE,
    STAMP,
    STREAM,
    SURE,
    TAIL,
    UNKNOWN,
    USED,
    WHOLE,
    WINDOW,
)
from .times import STRANGE

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
LOW32 = 0xFFFFFFFF
BEHIND = 1 << 30
"""How far a segment may lie behind the expected offset; one that seems further back lies ahead, behind a long gap."""
LATE_BYTES = 1 << 20
"""A SYN after data begins another connection only if its sequence number is further away than this."""
FARTHEST = 1 << 24
"""How far ahead the peer is believed to receive where its windows are not known, and how far from the end of a
connection its late packets may lie."""
AHEAD, LONG = 32, 1 << 12
"""For how many segments at a time, and from how many held segments on, it looks ahead."""


@njit(cache=True, nogil=True)
def track(segments, first, count, keys, is_server, flows, streams, nodes, holding, chunks, seen, now):
    """Take segments from ``first`` on; return the number of the first one for which there is no room."""
    segments_, keys_, is_server_, flows_ = pointer(segments), pointer(keys), pointer(is_server), pointer(flows)
    streams_, nodes_, holding_ = pointer(streams), pointer(nodes), pointer(holding)
    chunks_, seen_, now_ = pointer(chunks), pointer(seen), pointer(now)
    most_nodes, most_holding = nodes.shape[0] // NODE, holding.shape[0]
    most_chunks, most_seen = chunks.shape[0] // CHUNK, seen.shape[0] // SEEN
    near = (np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64))
    for i in range(first, count):
        if (i - first) % AHEAD == 0:
            look_ahead(segments_, i, min(count, i + AHEAD), streams_, nodes_, *near)
        row = i * SEGMENT
        stream = at(segments_, row + DIRECTION) * STREAM
        used = at(now_, USED)
        if (
            most_nodes - used < 4 or most_chunks - at(now_, CHUNKS) < 2 * used + 16
            or most_seen - at(now_, SEENS) < 4 + at(now_, HOLDING) or most_holding - at(now_, HOLDING) < 4
        ):  # fmt: skip
            return i
        ts = at(segments_, row + TS)
        if ts > at(now_, CLOCK):
            store(now_, CLOCK, ts)
        elif ts == STRANGE:
            ts = at(now_, CLOCK)
        take_segment(
            segments_, row, stream, ts, keys_, is_server_, flows_, streams_, nodes_, holding_, chunks_, seen_, now_
        )
        if at(now_, CLOCK) >= at(now_, DUE):
            give_up(flows_, streams_, nodes_, holding_, chunks_, seen_, now_, ts)
    return count


@njit(cache=True, nogil=True)
def look_ahead(segments, first, end, streams, nodes, node, level, offset):
    """Bring near what the next segments need of long lists: most of the time would pass with waiting for memory."""
    count = 0
    for i in range(first, end):
        stream = at(segments, i * SEGMENT + DIRECTION) * STREAM
        if at(streams, stream + HELD) >= LONG:
            node[count], level[count] = at(streams, stream + HEAD), LEVELS - 1
            offset[count] = offset_of(streams, stream, at(segments, i * SEGMENT + SEQUENCE))
            count += 1
    if count > 1:
        bring_near(nodes, node, level, offset, count)


@njit(cache=True, nogil=True)
def take_segment(segments, row, stream, ts, keys, is_server, flows, streams, nodes, holding, chunks, seen, now):
    """Take a segment at a time; that in its row may be STRANGE."""
    flags = at(segments, row + FLAGS)
    sequence, acknowledged = at(segments, row + SEQUENCE), at(segments, row + ACKNOWLEDGED)
    length, full = at(segments, row + LENGTH), at(segments, row + FULL)
    flow, other, clock = flow_of(stream), stream ^ STREAM, at(now, CLOCK)
    phase = at(flows, flow + PHASE)
    if phase != NONE and is_forgotten(flows, flow, clock):
        phase = np.int64(NONE)
    if flags & SYN:
        is_new = begins(flows, streams, nodes, flow, stream, phase, sequence, acknowledged, flags, clock)
    else:
        is_new = phase == NONE and carries(flags, full)
    if is_new:
        if at(flows, flow + PHASE) == OPEN:
            touch(flows, seen, now, flow)
            end_connection(flows, streams, nodes, holding, chunks, now, flow, CLOSED, ts)
        open_connection(flows, streams, seen, now, keys, is_server, flow, stream, ts, sequence, flags)
        phase = np.int64(OPEN)
    elif phase == NONE:
        store(now, REPEATED, at(now, REPEATED) + length)
        return
    elif phase != OPEN and flags & SYN == 0 and carries(flags, full):
        if goes_on(flows, streams, flow, stream, phase, sequence, full):
            go_on(flows, streams, seen, now, keys, is_server, flow, stream, ts, sequence, flags)
            phase = np.int64(OPEN)
        else:
            touch(flows, seen, now, flow)
    else:
        touch(flows, seen, now, flow)
    if ts > at(flows, flow + LAST_US):
        store(flows, flow + LAST_US, ts)
    if phase != OPEN:
        take_late(streams, now, stream, sequence, length, full)
        return
    store(flows, flow + QUIET_SINCE, clock)
    if flags & SYN:
        know_beginning(flows, streams, flow, stream, sequence)
        note_scale(flows, flow, stream, flags)
        if is_new and flags & ACK:
            know_beginning(flows, streams, flow, other, acknowledged - 1 & LOW32)
        sequence = sequence + 1 & LOW32
    else:
        store(flows, flow + BEYOND_SYN, 1)
    if flags & RST and not resets(flows, streams, nodes, flow, stream, sequence, acknowledged, flags):
        store(now, OUTSIDE, at(now, OUTSIDE) + length)
        return
    if flags & ACK and flags & RST == 0:
        take_acknowledgement(flows, streams, nodes, holding, now, flow, other, acknowledged, flags)
    if full > 0:
        store(flows, flow + CARRIED, 1)
        take_payload(flows, streams, nodes, holding, chunks, now, stream, sequence, segments, row, ts)
    elif at(streams, stream + KNOWN) == UNKNOWN and flags & RST == 0:
        settle(streams, stream, sequence, GUESSED)
    if flags & RST:
        end_connection(flows, streams, nodes, holding, chunks, now, flow, RESET, ts)
        return
    if flags & FIN:
        take_finish(streams, nodes, holding, now, stream, sequence + full & LOW32)
    end_if_finished(flows, streams, nodes, holding, chunks, now, flow, ts)


@njit(cache=True, nogil=True, inline="always")
def carries(flags, full):
    """Return whether a segment shows by itself that there is a connection: late acknowledgements and resets do not. A
    single byte without PSH is how some systems ask whether the peer is still there.
    """
    return flags & RST == 0 and full > 0 and (full > 1 or flags & PSH != 0)


# --- connections


@njit(cache=True, nogil=True)
def is_forgotten(flows, flow, clock):
    """Return whether a connection ended long ago, or never got beyond a SYN without reply."""
    if clock - at(flows, flow + QUIET_SINCE) <= MEMORY_US:
        return False
    return at(flows, flow + PHASE) != OPEN or at(flows, flow + BEYOND_SYN) == 0


@njit(cache=True, nogil=True)
def begins(flows, streams, nodes, flow, stream, phase, sequence, acknowledged, flags, clock):
    """Return whether a SYN begins another connection; otherwise it is a repeated or late one of this connection."""
    if phase == NONE:
        return True
    initial, theirs = at(streams, stream + INITIAL), at(streams, (stream ^ STREAM) + INITIAL)
    if flags & ACK:
        if initial >= 0:
            return initial != sequence
        if theirs >= 0:
            # With Fast Open it acknowledges what came with the SYN and behind it, or some of that.
            return (acknowledged - theirs - 1 & LOW32) > sent_of(streams, nodes, stream ^ STREAM)
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
        for k in range(STREAM):
            store(streams, direction + k, 0)
        for k in (FINISH, ACKED, HEAD, TAIL, INITIAL, OFFERED):
            store(streams, direction + k, -1)
    see(flows, seen, now, flow, NEW)


@njit(cache=True, nogil=True)
def goes_on(flows, streams, flow, stream, phase, sequence, full):
    """Return whether payload behind the end of a connection is new: anything behind a reset that was not there before,
    and anything that lies far away, of a connection whose SYN was not captured.
    """
    if at(streams, stream + KNOWN) == UNKNOWN:
        return True
    ahead = offset_of(streams, stream, sequence) - at(streams, stream + NEXT)
    return abs(ahead) >= FARTHEST or (phase == RESET and ahead + full > 0)


@njit(cache=True, nogil=True)
def go_on(flows, streams, seen, now, keys, is_server, flow, stream, ts, sequence, flags):
    """Open a connection for what comes behind a reset. Both directions go on where they were, if that is near."""
    client, scales, first = at(flows, flow + CLIENT), at(flows, flow + SCALES), flow * 2
    ahead = offset_of(streams, stream, sequence) - at(streams, stream + NEXT)
    is_far = at(streams, stream + KNOWN) != UNKNOWN and abs(ahead) >= FARTHEST
    known_0, known_1 = at(streams, first + KNOWN), at(streams, first + STREAM + KNOWN)
    initial_0, initial_1 = at(streams, first + INITIAL), at(streams, first + STREAM + INITIAL)
    next_0, next_1 = next_sequence(streams, first), next_sequence(streams, first + STREAM)
    open_connection(flows, streams, seen, now, keys, is_server, flow, stream, ts, sequence, flags)
    if is_far:
        return
    store(flows, flow + CLIENT, client)
    store(flows, flow + SCALES, scales)
    store(flows, flow + GOES_ON, 1)
    for direction, known, initial, following in (
        (first, known_0, initial_0, next_0), (first + STREAM, known_1, initial_1, next_1),
    ):  # fmt: skip
        store(streams, direction + INITIAL, initial)
        if known != UNKNOWN:
            settle(streams, direction, following, SURE)


@njit(cache=True, nogil=True)
def next_sequence(streams, stream):
    """Return the sequence number that is expected; a FIN has one, too."""
    return at(streams, stream + FIRST) + at(streams, stream + NEXT) + at(streams, stream + IS_FINISHED) & LOW32


@njit(cache=True, nogil=True)
def take_late(streams, now, stream, sequence, length, full):
    """Count payload behind the end of a connection: it was there before, or lies behind the FIN."""
    behind = np.int64(0)
    if full > 0 and at(streams, stream + KNOWN) != UNKNOWN:
        ahead = offset_of(streams, stream, sequence) + full - at(streams, stream + NEXT)
        behind = min(max(ahead - (full - length), np.int64(0)), length)
    store(now, OUTSIDE, at(now, OUTSIDE) + behind)
    store(now, REPEATED, at(now, REPEATED) + length - behind)


@njit(cache=True, nogil=True)
def resets(flows, streams, nodes, flow, stream, sequence, acknowledged, flags):
    """Return whether a RST counts: its number must be one that the peer may receive next. Behind a reset none counts
    before both directions have carried something: resets and bytes on their way cross each other.
    """
    first = flow * 2
    if at(flows, flow + GOES_ON) and (at(streams, first + NEXT) == 0 or at(streams, first + STREAM + NEXT) == 0):
        return False
    other = stream ^ STREAM
    if at(streams, stream + KNOWN) == UNKNOWN:
        if flags & ACK == 0 or at(streams, other + KNOWN) == UNKNOWN:
            return True
        return 0 <= offset_of(streams, other, acknowledged) <= sent_of(streams, nodes, other) + 1
    lowest = min(at(streams, stream + ACKED), at(streams, stream + NEXT))
    highest = max(
        lowest + window_of(flows, flow, other, at(streams, stream + OFFERED)), sent_of(streams, nodes, stream) + 1
    )
    return lowest <= offset_of(streams, stream, sequence) <= highest


@njit(cache=True, nogil=True)
def sent_of(streams, nodes, stream):
    """Return the offset behind all that was captured of a direction."""
    tail = at(streams, stream + TAIL)
    return at(streams, stream + NEXT) if tail < 0 else at(nodes, tail + OFFSET) + at(nodes, tail + SIZE)


@njit(cache=True, nogil=True)
def note_scale(flows, flow, stream, flags):
    shift = 8 * (stream // STREAM & 1)
    scales = at(flows, flow + SCALES) & ~(0xFF << shift)
    store(flows, flow + SCALES, scales | (flags >> SCALE_BITS & 0xFF) << shift)


@njit(cache=True, nogil=True)
def window_of(flows, flow, stream, flags):
    """Return how many bytes the sender of a segment with these FLAGS is ready to receive.

    Windows are scaled if both SYN offer it.
    """
    if flags < 0:
        return np.int64(FARTHEST)
    window = flags >> WINDOW_BITS & 0xFFFF
    if flags & SYN:
        return window
    scales, shift = at(flows, flow + SCALES), 8 * (stream // STREAM & 1)
    ours, theirs = scales >> shift & 0xFF, scales >> (8 - shift) & 0xFF
    if ours == 0:
        return np.int64(FARTHEST)
    return window if ours == NO_SCALE or theirs == NO_SCALE else window << ours - SCALE


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
def end_connection(flows, streams, nodes, holding, chunks, now, flow, phase, ts):
    """End a connection: emit held segments; the holes that are left become gaps."""
    first = flow * 2
    for stream in (first, first + STREAM):
        while at(streams, stream + HEAD) >= 0:
            skip_hole(flows, streams, nodes, holding, chunks, now, stream, ts)
    store(flows, flow + PHASE, phase)
    store(flows, flow + ENDED_US, ts)
    store(flows, flow + QUIET_SINCE, at(now, CLOCK))


@njit(cache=True, nogil=True)
def end_if_finished(flows, streams, nodes, holding, chunks, now, flow, ts):
    first = flow * 2
    is_finished = at(streams, first + IS_FINISHED) and at(streams, first + STREAM + IS_FINISHED)
    if is_finished and at(flows, flow + PHASE) == OPEN:
        end_connection(flows, streams, nodes, holding, chunks, now, flow, CLOSED, ts)


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
def take_acknowledgement(flows, streams, nodes, holding, now, flow, stream, acknowledged, flags):
    """Note how far the bytes of ``stream`` are acknowledged, and how far the peer is ready to receive. That alone gives
    up no hole.
    """
    if at(streams, stream + KNOWN) == UNKNOWN:
        if at(flows, flow + WHOLE):
            # The reply to the SYN was not captured, but this is its number.
            settle(streams, stream, acknowledged, GUESSED)
            store(streams, stream + ACKED, 0)
        return
    offset = offset_of(streams, stream, acknowledged)
    store(streams, stream + OFFERED, flags)
    if offset > at(streams, stream + ACKED):
        store(streams, stream + ACKED, offset)
        if at(streams, stream + HEAD) >= 0:
            list_stream(streams, nodes, holding, now, stream)


# --- bytes


@njit(cache=True, nogil=True)
def take_payload(flows, streams, nodes, holding, chunks, now, stream, sequence, segments, row, ts):
    """Take the payload of a segment, of which LENGTH of FULL bytes were captured."""
    length, full, start = at(segments, row + LENGTH), at(segments, row + FULL), at(segments, row + START)
    position = position_of(segments, row, start, now)
    if at(streams, stream + KNOWN) != SURE:
        settle_by_payload(streams, stream, sequence)
    offset, expected = offset_of(streams, stream, sequence), at(streams, stream + NEXT)
    finish = at(streams, stream + FINISH)
    if finish >= 0 and offset + full > finish:
        if not carries(at(segments, row + FLAGS), full):
            store(now, OUTSIDE, at(now, OUTSIDE) + length)
            return
        # The FIN was not the end: tshark, too, shows what comes behind it.
        remove_finish(streams, nodes, holding, now, stream)
        store(streams, stream + FINISH, -1)
        store(streams, stream + IS_FINISHED, 0)
    if offset < expected:
        known = min(expected - offset, full)
        early = min(max(-offset, np.int64(0)), known) if at(flows, flow_of(stream) + GOES_ON) == 0 else np.int64(0)
        store(now, EARLY, at(now, EARLY) + min(early, length))
        store(now, REPEATED, at(now, REPEATED) + min(known, length) - min(early, length))
        offset, start, position, full = offset + known, start + known, position + known, full - known
        length = max(length - known, np.int64(0))
    if full == 0:
        return
    if offset > expected:
        hold(streams, nodes, holding, now, stream, offset, length, start, position)
        while at(streams, stream + HELD_BYTES) > MOST_HELD_BYTES:
            skip_hole(flows, streams, nodes, holding, chunks, now, stream, ts)
        return
    if at(streams, stream + HEAD) < 0:
        # A strange time stays one: its bytes are quarantined. Bytes that fill a hole have the time of the clock.
        emit(flows, streams, chunks, now, stream, length, at(segments, row + TS), start, position)
        if full > length:
            emit(flows, streams, chunks, now, stream, full - length, ts, np.int64(-1), position + length)
        return
    hold(streams, nodes, holding, now, stream, offset, length, start, position)
    release(flows, streams, nodes, holding, chunks, now, stream, ts)
    missing = offset + full - at(streams, stream + NEXT)
    if full > length and missing > 0:
        # The rest of this packet was not captured: there is nothing to wait for.
        if at(streams, stream + HEAD) >= 0:
            missing = min(missing, at(nodes, at(streams, stream + HEAD) + OFFSET) - at(streams, stream + NEXT))
        emit(flows, streams, chunks, now, stream, missing, ts, np.int64(-1), position + length)
        release(flows, streams, nodes, holding, chunks, now, stream, ts)


@njit(cache=True, nogil=True, inline="always")
def position_of(segments, row, start, now):
    """Return the position of payload in the file: that of the last fragment if it was put together from fragments."""
    origin = at(segments, row + FLAGS) >> ORIGIN_BITS
    return (start if origin == 0 else origin - 1) + at(now, SHIFT)


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
    if at(streams, (stream ^ STREAM) + HEAD) >= 0:
        list_stream(streams, nodes, holding, now, stream ^ STREAM)
    if offset == at(streams, stream + NEXT):
        store(streams, stream + IS_FINISHED, 1)
        return
    put(streams, nodes, now, stream, tail, offset, np.int64(0), np.int64(-1), np.int64(-1))
    list_stream(streams, nodes, holding, now, stream)


@njit(cache=True, nogil=True)
def give_up(flows, streams, nodes, holding, chunks, seen, now, ts):
    """Give up the holes whose time is over."""
    while at(now, CLOCK) >= at(now, DUE):
        stream = at(holding, 0)
        touch(flows, seen, now, flow_of(stream))
        skip_hole(flows, streams, nodes, holding, chunks, now, stream, ts)
        end_if_finished(flows, streams, nodes, holding, chunks, now, flow_of(stream), ts)


@njit(cache=True, nogil=True)
def give_up_all(flows, streams, nodes, holding, chunks, seen, now):
    """Give up all holes: nothing more comes."""
    while at(now, HOLDING) > 0:
        stream = at(holding, 0)
        flow = flow_of(stream)
        touch(flows, seen, now, flow)
        skip_hole(flows, streams, nodes, holding, chunks, now, stream, at(flows, flow + LAST_US))
        end_if_finished(flows, streams, nodes, holding, chunks, now, flow, at(flows, flow + LAST_US))
