"""The framing kernel: finds frame boundaries by walking headers, without looking at payloads.

``parts`` describes a frame header, six numbers a part: kind, size, flags, a, b, c (see ``columnar/lower.py``).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .columns import read_int
from .memory import at, store

MAGIC, SIZE_WHOLE, SIZE_AFTER, ESCAPED, HEAD, CODE, CODE_EARLY, KEPT, LINE = range(9)

GOOD, SHORT, ODD = 0, 1, 2


@njit(cache=True, nogil=True)
def read_frame(parts, magic, codes, code_heads, buf, start, end):
    """Returns outcome, length, payload, head, message of the frame at ``start``. SHORT: bytes are missing; ODD: look closely."""
    behind = np.int64(0)
    length = end - start
    head = np.int64(0)
    message = np.int64(-1)
    code_at = np.int64(-1)
    code_part = 0
    for part in range(0, parts.shape[0], 6):
        kind = at(parts, part)
        size = at(parts, part + 1)
        if kind == LINE:
            message = 0
            continue
        if start + behind + size > end:
            return SHORT, length, behind, head, message
        if kind == MAGIC:
            for j in range(size):
                if at(buf, start + behind + j) != at(magic, at(parts, part + 3) + j):
                    return ODD, length, behind, head, message
            behind += size
        elif kind == SIZE_WHOLE or kind == SIZE_AFTER:
            value = read_int(buf, start + behind, size, at(parts, part + 2))
            behind += size
            if value < at(parts, part + 3) or value > at(parts, part + 4):
                return ODD, length, behind, head, message
            length = value if kind == SIZE_WHOLE else value + behind
        elif kind == ESCAPED:
            # a least, b escape, c wide size; flags are those of the wide form
            value = np.int64(at(buf, start + behind))
            behind += 1
            if value == at(parts, part + 4):
                if at(parts, part + 5) < 0:
                    return ODD, length, behind, head, message
                if start + behind + at(parts, part + 5) > end:
                    return SHORT, length, behind, head, message
                value = read_int(buf, start + behind, at(parts, part + 5), at(parts, part + 2))
                behind += at(parts, part + 5)
                if value < at(parts, part + 4):
                    return ODD, length, behind, head, message
            elif value > at(parts, part + 4) or value < at(parts, part + 3):
                return ODD, length, behind, head, message
            length = value + behind
        elif kind == HEAD:
            # a least, b most, c body most
            head = read_int(buf, start + behind, size, at(parts, part + 2))
            behind += size
            if head < at(parts, part + 3) or head > at(parts, part + 4) or head > length or length - head > at(parts, part + 5):
                return ODD, length, behind, head, message
        elif kind == CODE or kind == CODE_EARLY:
            code_at = behind
            code_part = part
            behind += size
        else:
            behind += size
    if length < behind:
        return ODD, length, behind, head, message
    if code_at >= 0:
        code = read_int(buf, start + code_at, at(parts, code_part + 1), at(parts, code_part + 2))
        for m in range(codes.shape[0]):
            if at(codes, m) == code:
                message = m
                break
        if message < 0 or head < at(code_heads, message):
            return ODD, length, behind, head, message
    if start + length > end:
        return SHORT, length, behind, head, message
    return GOOD, length, behind, head, message


@njit(cache=True, nogil=True)
def walk_frames(parts, magic, codes, code_heads, buf, start, end, starts, lengths, payloads, heads, messages):
    """Fills the arrays with frames from ``start`` on while each header is good. Returns count, position, outcome of the frame there."""
    n = 0
    most = starts.shape[0]
    while start < end and n < most:
        outcome, length, payload, head, message = read_frame(parts, magic, codes, code_heads, buf, start, end)
        if outcome != GOOD:
            return n, start, outcome
        store(starts, n, start)
        store(lengths, n, length)
        store(payloads, n, payload)
        store(heads, n, head)
        store(messages, n, message)
        n += 1
        start += length
    return n, start, GOOD


@njit(cache=True, nogil=True)
def judge_frames(parts, magic, codes, code_heads, buf, starts, lengths, payloads, heads, messages):
    """The same for frames whose boundaries are given: a header that is not good, or says another length, leaves message -1."""
    for i in range(starts.shape[0]):
        outcome, length, payload, head, message = read_frame(
            parts, magic, codes, code_heads, buf, starts[i], starts[i] + lengths[i]
        )
        if outcome == GOOD and length == lengths[i]:
            payloads[i] = payload
            heads[i] = head
            messages[i] = message
        else:
            messages[i] = -1
