"""Bytes of a direction on their way out: chunks in order, and the segments that are held behind holes.

Held segments are a list per direction, in order and without overlap. The directions that hold some are a heap, the one
whose first hole is given up next on top; ties are broken by the number of the direction, so that what is given up does
not depend on how the heap was built.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import at, copy, lowest_bit, prefetch, store
from .packets import mixed
from .tcp_rows import (
    ACKED,
    AT_ONCE,
    CHUNK,
    CHUNK_CONNECTION,
    CHUNK_DIRECTION,
    CHUNK_LENGTH,
    CHUNK_OFFSET,
    CHUNK_POSITION,
    CHUNK_START,
    CHUNK_TS,
    CHUNKS,
    CLIENT,
    CLOCK,
    DUE,
    DUE_AT,
    ELSEWHERE,
    ELSEWHERE_BYTES,
    EMITTED_US,
    FINISH,
    FOLLOWING,
    FREE,
    HEAD,
    HELD,
    HELD_AT,
    HELD_BYTES,
    HELD_SINCE,
    HELD_TOTAL,
    HOLDING,
    IS_FINISHED,
    JITTER_US,
    LEVEL,
    LEVEL_BITS,
    LEVELS,
    LINKS,
    LISTED,
    LOCAL,
    MISSING,
    MOST_HELD_BYTES_OF_ALL,
    MOST_HELD_OF_ALL,
    NEVER,
    NEXT,
    NODE,
    OFFSET,
    PATIENCE_US,
    PLACE,
    POSITION,
    REPEATED,
    SEED,
    SIZE,
    STREAM,
    TAIL,
    UNACKNOWLEDGED,
    USED,
)

LOWEST = FOLLOWING - LINKS
"""The level of the links from each node to the next."""


@njit(cache=True, nogil=True, inline="always")
def flow_of(stream):
    return (stream >> 5) << 4


@njit(cache=True, nogil=True)
def emit(flows, streams, chunks, now, stream, length, ts, start, position):
    """Write the next bytes of a direction as a chunk; with ``start`` -1 they were not captured."""
    if length == 0:
        return
    if ts >= 0:
        emitted = at(streams, stream + EMITTED_US)
        if emitted - JITTER_US < ts < emitted:
            ts = emitted
        store(streams, stream + EMITTED_US, ts)
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


# --- the list of a direction


@njit(cache=True, nogil=True)
def hold(streams, nodes, holding, now, stream, offset, length, start, position):
    """Hold a segment. Of two that overlap, the one that begins first counts, else the one that came first."""
    before = last_at(streams, nodes, stream, offset)
    node = at(streams, stream + HEAD) if before < 0 else before
    while node >= 0 and at(nodes, node + OFFSET) <= offset:
        known = max(min(length, at(nodes, node + OFFSET) + at(nodes, node + SIZE) - offset), np.int64(0))
        store(now, REPEATED, at(now, REPEATED) + known)
        offset, start, position, length = offset + known, start + known, position + known, length - known
        before, node = node, at(nodes, node + FOLLOWING)
    if length > 0:
        cut_covered(streams, nodes, now, stream, before, offset, length)
        put(streams, nodes, now, stream, before, offset, length, start, position)
    list_stream(streams, nodes, holding, now, stream)


@njit(cache=True, nogil=True)
def last_at(streams, nodes, stream, offset):
    """Return the last node that begins at an offset or before it, -1 if there is none."""
    node, tail = at(streams, stream + HEAD), at(streams, stream + TAIL)
    if node < 0 or at(nodes, node + OFFSET) > offset:
        return np.int64(-1)
    if at(nodes, tail + OFFSET) <= offset:
        return tail
    for level in range(LEVELS - 1, -1, -1):
        following = at(nodes, node + LINKS + level)
        while following >= 0 and at(nodes, following + OFFSET) <= offset:
            node, following = following, at(nodes, following + LINKS + level)
    following = at(nodes, node + FOLLOWING)
    while following >= 0 and at(nodes, following + OFFSET) <= offset:
        node, following = following, at(nodes, following + FOLLOWING)
    return node


@njit(cache=True, nogil=True)
def bring_near(nodes, node, level, offset, count):
    """Bring what ``last_at`` will look at into the caches, for ``count`` searches: for each the first node of its list,
    LEVELS - 1, and the offset it looks for. The searches take their steps in turn, so that they wait for memory
    together and not one after the other.
    """
    is_under_way = True
    while is_under_way:
        is_under_way = False
        for k in range(count):
            if level[k] < LOWEST:
                continue
            is_under_way = True
            following = at(nodes, node[k] + LINKS + level[k])
            if following >= 0 and at(nodes, following + OFFSET) <= offset[k]:
                node[k] = following
            else:
                level[k] -= 1
            prefetch(nodes, at(nodes, node[k] + LINKS + max(level[k], LOWEST)))


@njit(cache=True, nogil=True)
def cut_covered(streams, nodes, now, stream, before, offset, length):
    """Take the bytes of a new segment out of those behind ``before``, which begin later."""
    while True:
        node = at(nodes, before + FOLLOWING) if before >= 0 else at(streams, stream + HEAD)
        if node < 0 or at(nodes, node + OFFSET) >= offset + length:
            return
        known = min(offset + length - at(nodes, node + OFFSET), at(nodes, node + SIZE))
        store(now, REPEATED, at(now, REPEATED) + known)
        store(now, HELD_TOTAL, at(now, HELD_TOTAL) - known)
        store(streams, stream + HELD_BYTES, at(streams, stream + HELD_BYTES) - known)
        if known == at(nodes, node + SIZE):
            remove(streams, nodes, now, stream, before, node)
            continue
        for k, value in ((OFFSET, known), (SIZE, -known), (PLACE, known)):
            store(nodes, node + k, at(nodes, node + k) + value)
        if at(nodes, node + POSITION) >= 0:
            store(nodes, node + POSITION, at(nodes, node + POSITION) + known)
        return


@njit(cache=True, nogil=True)
def remove(streams, nodes, now, stream, before, node):
    """Take a node out of its list; ``before`` is the one before it, -1 if it is the first."""
    following = at(nodes, node + FOLLOWING)
    if before < 0:
        store(streams, stream + HEAD, following)
        for level in range(LEVELS):
            link = at(nodes, node + LINKS + level)
            if following >= 0 and link != following:
                store(nodes, following + LINKS + level, link)
    else:
        store(nodes, before + FOLLOWING, following)
        if at(nodes, node + LEVEL) > 0:
            unlink(streams, nodes, stream, node)
    if following < 0:
        store(streams, stream + TAIL, before)
    store(streams, stream + HELD, at(streams, stream + HELD) - 1)
    store(nodes, node + SIZE, 0)
    store(nodes, node + FOLLOWING, at(now, FREE))
    store(now, FREE, node)
    store(now, USED, at(now, USED) - 1)


@njit(cache=True, nogil=True)
def remove_finish(streams, nodes, holding, now, stream):
    """Take a FIN out that is held."""
    node = at(streams, stream + TAIL)
    if node >= 0 and at(nodes, node + SIZE) == 0:
        before = last_at(streams, nodes, stream, at(nodes, node + OFFSET) - 1)
        remove(streams, nodes, now, stream, before, node)
        list_stream(streams, nodes, holding, now, stream)


@njit(cache=True, nogil=True)
def unlink(streams, nodes, stream, node):
    before, offset = at(streams, stream + HEAD), at(nodes, node + OFFSET)
    for level in range(LEVELS - 1, -1, -1):
        following = at(nodes, before + LINKS + level)
        while following >= 0 and following != node and at(nodes, following + OFFSET) < offset:
            before, following = following, at(nodes, following + LINKS + level)
        if following == node:
            store(nodes, before + LINKS + level, at(nodes, node + LINKS + level))


@njit(cache=True, nogil=True)
def put(streams, nodes, now, stream, before, offset, length, start, position):
    """Put a new node behind another, -1 for the beginning of the list."""
    head = at(streams, stream + HEAD)
    node, following = at(now, FREE), at(nodes, before + FOLLOWING) if before >= 0 else head
    store(now, FREE, at(nodes, node + FOLLOWING))
    store(now, USED, at(now, USED) + 1)
    store(now, HELD_TOTAL, at(now, HELD_TOTAL) + length)
    store(nodes, node + OFFSET, offset)
    store(nodes, node + FOLLOWING, following)
    level = level_of(offset, at(now, SEED))
    for k, value in enumerate((length, start, position, at(now, CLOCK), level)):
        store(nodes, node + SIZE + k, value)
    if head < 0:
        store(streams, stream + HELD_SINCE, at(now, CLOCK))
    if before < 0:
        lead(nodes, node, head)
        store(streams, stream + HEAD, node)
    else:
        store(nodes, before + FOLLOWING, node)
        link(nodes, head, node)
    if following < 0:
        store(streams, stream + TAIL, node)
    store(streams, stream + HELD, at(streams, stream + HELD) + 1)
    store(streams, stream + HELD_BYTES, at(streams, stream + HELD_BYTES) + length)


@njit(cache=True, nogil=True)
def level_of(offset, seed):
    """Return the level of a node: by chance, so that no capture can make a list slow."""
    # Once is not enough: offsets at equal distances would have levels in runs, and long ways between them.
    value = mixed(mixed(np.uint64(offset) ^ np.uint64(seed))) | np.uint64(1) << np.uint64(63)
    return min(lowest_bit(value) // LEVEL_BITS, np.int64(LEVELS))


@njit(cache=True, nogil=True)
def lead(nodes, node, head):
    """Give a new first node its links, those of the one that was first before it."""
    for level in range(LEVELS):
        following = np.int64(-1)
        if head >= 0:
            following = head if at(nodes, head + LEVEL) > level else at(nodes, head + LINKS + level)
        store(nodes, node + LINKS + level, following)


@njit(cache=True, nogil=True)
def link(nodes, head, node):
    """Add a node, which is not the first, to the links of its levels."""
    before, offset, levels = head, at(nodes, node + OFFSET), at(nodes, node + LEVEL)
    if levels == 0:
        return
    for level in range(LEVELS - 1, -1, -1):
        following = at(nodes, before + LINKS + level)
        while following >= 0 and at(nodes, following + OFFSET) < offset:
            before, following = following, at(nodes, following + LINKS + level)
        if level < levels:
            store(nodes, node + LINKS + level, following)
            store(nodes, before + LINKS + level, node)


@njit(cache=True, nogil=True)
def release(flows, streams, nodes, holding, chunks, now, stream, ts):
    """Emit held segments that no longer have a hole before them."""
    node = at(streams, stream + HEAD)
    while node >= 0 and at(nodes, node + OFFSET) == at(streams, stream + NEXT):
        following, length = at(nodes, node + FOLLOWING), at(nodes, node + SIZE)
        emit(flows, streams, chunks, now, stream, length, ts, at(nodes, node + PLACE), at(nodes, node + POSITION))
        if at(streams, stream + FINISH) == at(streams, stream + NEXT) and length == 0:
            store(streams, stream + IS_FINISHED, 1)
        store(streams, stream + HELD_BYTES, at(streams, stream + HELD_BYTES) - length)
        store(now, HELD_TOTAL, at(now, HELD_TOTAL) - length)
        remove(streams, nodes, now, stream, np.int64(-1), node)
        node = following
    if node >= 0:
        store(streams, stream + HELD_SINCE, at(nodes, node + HELD_AT))
    list_stream(streams, nodes, holding, now, stream)


@njit(cache=True, nogil=True)
def skip_hole(flows, streams, nodes, holding, chunks, now, stream, ts):
    """Give up the first hole."""
    node = at(streams, stream + HEAD)
    missing = at(nodes, node + OFFSET) - at(streams, stream + NEXT)
    emit(flows, streams, chunks, now, stream, missing, ts, np.int64(-1), at(nodes, node + POSITION))
    release(flows, streams, nodes, holding, chunks, now, stream, ts)


# --- the heap of directions


@njit(cache=True, nogil=True)
def due_at(streams, nodes, stream):
    """Return when the first hole of a direction is given up: never before the peer has acknowledged its bytes; then
    after some time, or at once if both directions have finished.
    """
    if at(streams, stream + ACKED) < at(nodes, at(streams, stream + HEAD) + OFFSET):
        return at(streams, stream + HELD_SINCE) + UNACKNOWLEDGED
    if at(streams, stream + FINISH) >= 0 and at(streams, (stream ^ STREAM) + FINISH) >= 0:
        return np.int64(AT_ONCE)
    return at(streams, stream + HELD_SINCE) + PATIENCE_US


@njit(cache=True, nogil=True)
def list_stream(streams, nodes, holding, now, stream):
    """Bring a direction to its place in the heap, or out of it if it holds nothing."""
    listed = at(streams, stream + LISTED)
    if at(streams, stream + HEAD) >= 0:
        store(streams, stream + DUE_AT, due_at(streams, nodes, stream))
        if listed == 0:
            listed = at(now, HOLDING) + 1
            store(now, HOLDING, listed)
        seat(streams, holding, listed - 1, stream)
        sift(streams, holding, at(now, HOLDING), listed - 1)
    elif listed > 0:
        last = at(now, HOLDING) - 1
        store(now, HOLDING, last)
        store(streams, stream + LISTED, 0)
        if listed - 1 < last:
            seat(streams, holding, listed - 1, at(holding, last))
            sift(streams, holding, last, listed - 1)
    store(now, DUE, next_due(streams, holding, now))


@njit(cache=True, nogil=True)
def next_due(streams, holding, now):
    """Return when the next hole is given up: at once while too much is held."""
    if at(now, HOLDING) == 0:
        return np.int64(NEVER)
    return np.int64(AT_ONCE) if holds_too_much(now) else at(streams, at(holding, 0) + DUE_AT)


@njit(cache=True, nogil=True, inline="always")
def holds_too_much(now):
    count, total = at(now, USED) + at(now, ELSEWHERE), at(now, HELD_TOTAL) + at(now, ELSEWHERE_BYTES)
    return count > MOST_HELD_OF_ALL or total > MOST_HELD_BYTES_OF_ALL


@njit(cache=True, nogil=True, inline="always")
def seat(streams, holding, place, stream):
    store(holding, place, stream)
    store(streams, stream + LISTED, place + 1)


@njit(cache=True, nogil=True, inline="always")
def is_sooner(streams, stream, other):
    due, other_due = at(streams, stream + DUE_AT), at(streams, other + DUE_AT)
    return due < other_due or (due == other_due and stream < other)


@njit(cache=True, nogil=True)
def sift(streams, holding, count, place):
    """Move a direction up or down to where the heap is in order again."""
    stream = at(holding, place)
    while place > 0 and is_sooner(streams, stream, at(holding, (place - 1) // 2)):
        seat(streams, holding, place, at(holding, (place - 1) // 2))
        place = (place - 1) // 2
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and is_sooner(streams, at(holding, child + 1), at(holding, child)):
            child += 1
        if not is_sooner(streams, at(holding, child), stream):
            break
        seat(streams, holding, place, at(holding, child))
        place = child
    seat(streams, holding, place, stream)


# --- between windows


@njit(cache=True, nogil=True)
def list_all(streams, nodes, holding, count, now):
    """Build the heap of ``count`` directions, and the links of their lists, from nothing."""
    store(now, HOLDING, 0)
    store(now, DUE, NEVER)
    wanted, last = holding[:count].copy(), np.empty(LEVELS, np.int64)
    for k in range(count):
        stream = wanted[k]
        node = head = at(streams, stream + HEAD)
        last[:] = head
        while node >= 0:
            levels = level_of(at(nodes, node + OFFSET), at(now, SEED))
            store(nodes, node + LEVEL, levels)
            for level in range(LEVELS):
                store(nodes, node + LINKS + level, -1)
                if node != head and level < levels:
                    store(nodes, last[level] + LINKS + level, node)
                    last[level] = node
            node = at(nodes, node + FOLLOWING)
        list_stream(streams, nodes, holding, now, stream)


@njit(cache=True, nogil=True)
def count_holes(streams, nodes, holding, count, holes):
    """Write down how many holes there are in each of the directions that hold segments."""
    for k in range(count):
        stream = at(holding, k)
        expected, node, found = at(streams, stream + NEXT), at(streams, stream + HEAD), np.int64(0)
        while node >= 0:
            found += at(nodes, node + OFFSET) > expected
            expected = at(nodes, node + OFFSET) + at(nodes, node + SIZE)
            node = at(nodes, node + FOLLOWING)
        store(holes, k, found)


@njit(cache=True, nogil=True)
def keep_held(data, nodes, kept):
    """Move the held bytes out of a window, one after the other, to their new place: in the order of the nodes, which is
    about that of the bytes. Unused nodes have no bytes.
    """
    place = np.int64(0)
    for node in range(0, nodes.shape[0], NODE):
        length = at(nodes, node + SIZE)
        if length > 0:
            copy(kept, place, data, at(nodes, node + PLACE), length)
            store(nodes, node + PLACE, place)
            place += length


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
