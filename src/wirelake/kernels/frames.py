"""The framing kernel: finds frame boundaries by walking headers, without looking at payloads.

``parts[k] = kind, size, flags, a, b, c`` describes a frame header (see ``columnar/lower.py``).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .columns import read_int

MAGIC, SIZE_WHOLE, SIZE_AFTER, ESCAPED, HEAD, CODE, CODE_EARLY, KEPT, LINE = range(9)

GOOD, SHORT, ODD = 0, 1, 2


@njit(cache=True, nogil=True)
def read_frame(parts, magic, codes, code_heads, buf, start, end):
    """Returns outcome, length, payload, head, message of the frame at ``start``. SHORT: bytes are missing; ODD: look closely."""
    at = np.int64(0)
    length = end - start
    head = np.int64(0)
    message = np.int64(-1)
    code_at = np.int64(-1)
    code_part = 0
    for k in range(parts.shape[0]):
        kind = parts[k, 0]
        size = parts[k, 1]
        if kind == LINE:
            message = 0
            continue
        if start + at + size > end:
            return SHORT, length, at, head, message
        if kind == MAGIC:
            for j in range(size):
                if buf[start + at + j] != magic[parts[k, 3] + j]:
                    return ODD, length, at, head, message
            at += size
        elif kind == SIZE_WHOLE or kind == SIZE_AFTER:
            value = read_int(buf, start + at, size, parts[k, 2])
            at += size
            if value < parts[k, 3] or value > parts[k, 4]:
                return ODD, length, at, head, message
            length = value if kind == SIZE_WHOLE else value + at
        elif kind == ESCAPED:
            # a least, b escape, c wide size; flags are those of the wide form
            value = np.int64(buf[start + at])
            at += 1
            if value == parts[k, 4]:
                if parts[k, 5] < 0:
                    return ODD, length, at, head, message
                if start + at + parts[k, 5] > end:
                    return SHORT, length, at, head, message
                value = read_int(buf, start + at, parts[k, 5], parts[k, 2])
                at += parts[k, 5]
                if value < parts[k, 4]:
                    return ODD, length, at, head, message
            elif value > parts[k, 4] or value < parts[k, 3]:
                return ODD, length, at, head, message
            length = value + at
        elif kind == HEAD:
            # a least, b most, c body most
            head = read_int(buf, start + at, size, parts[k, 2])
            at += size
            if head < parts[k, 3] or head > parts[k, 4] or head > length or length - head > parts[k, 5]:
                return ODD, length, at, head, message
        elif kind == CODE or kind == CODE_EARLY:
            code_at = at
            code_part = k
            at += size
        else:
            at += size
    if length < at:
        return ODD, length, at, head, message
    if code_at >= 0:
        code = read_int(buf, start + code_at, parts[code_part, 1], parts[code_part, 2])
        for m in range(codes.shape[0]):
            if codes[m] == code:
                message = m
                break
        if message < 0 or head < code_heads[message]:
            return ODD, length, at, head, message
    if start + length > end:
        return SHORT, length, at, head, message
    return GOOD, length, at, head, message


@njit(cache=True, nogil=True)
def walk_frames(parts, magic, codes, code_heads, buf, start, end, starts, lengths, payloads, heads, messages):
    """Fills the arrays with frames from ``start`` on while each header is good. Returns count, position, outcome of the frame there."""
    n = 0
    most = starts.shape[0]
    while start < end and n < most:
        outcome, length, payload, head, message = read_frame(parts, magic, codes, code_heads, buf, start, end)
        if outcome != GOOD:
            return n, start, outcome
        starts[n] = start
        lengths[n] = length
        payloads[n] = payload
        heads[n] = head
        messages[n] = message
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
