"""The framing kernel: finds frame boundaries by walking headers, without looking at payloads.

``parts`` describes a frame header, six numbers a part: kind, size, flags, a, b, c (see ``columnar/lower.py``).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .columns import read_int
from .memory import at, pointer, prefetch, store

MAGIC, SIZE_WHOLE, SIZE_AFTER, ESCAPED, HEAD, CODE, KEPT, LINE = range(8)

GOOD, SHORT, ODD = 0, 1, 2


@njit(cache=True, nogil=True)
def read_frames(
    parts, magic, codes, code_heads, buf, position, end, given, starts, lengths, payloads, heads, messages
):  # fmt: skip
    """Walks from frame to frame from ``position`` on while headers are good; or, ``given`` boundaries, judges each frame alone.

    Returns how many there were, the position behind them, and the outcome there: GOOD, SHORT (bytes are missing) or ODD (look
    closely). A given frame that is not good, or says another length, gets message -1.

    One function and not two: a call in this loop would cost more than the header.
    """
    data = pointer(buf)
    size_of_buf = buf.shape[0]
    n = 0
    most = starts.shape[0]
    outcome = GOOD
    while n < most:
        if given:
            position = at(starts, n)
            end = position + at(lengths, n)
        elif position >= end:
            break
        behind = position
        length = end - position
        head = np.int64(0)
        message = np.int64(-1)
        code_at = np.int64(-1)
        code_part = np.int64(0)
        outcome = GOOD
        for part in range(0, parts.shape[0], 6):
            kind = at(parts, part)
            size = at(parts, part + 1)
            if behind + size > end:
                outcome = SHORT
                break
            if kind == CODE:
                code_at = behind
                code_part = part
            elif kind == SIZE_WHOLE or kind == SIZE_AFTER:
                # a least, b most
                value = read_int(data, size_of_buf, behind, size, at(parts, part + 2))
                if value < at(parts, part + 3) or value > at(parts, part + 4):
                    outcome = ODD
                    break
                length = value if kind == SIZE_WHOLE else value + behind + size - position
            elif kind == ESCAPED:
                # a least, b escape, c wide size (-1: not to be read); flags are those of the wide form
                value = np.int64(at(data, behind))
                if value == at(parts, part + 4):
                    size += at(parts, part + 5)
                    if size < 2:
                        outcome = ODD
                        break
                    if behind + size > end:
                        outcome = SHORT
                        break
                    value = read_int(data, size_of_buf, behind + 1, size - 1, at(parts, part + 2))
                    if value < at(parts, part + 4):
                        outcome = ODD
                        break
                elif value > at(parts, part + 4) or value < at(parts, part + 3):
                    outcome = ODD
                    break
                length = value + behind + size - position
            elif kind == HEAD:
                # a least, b most, c body most
                head = read_int(data, size_of_buf, behind, size, at(parts, part + 2))
                if head < at(parts, part + 3) or head > at(parts, part + 4) or head > length:
                    outcome = ODD
                    break
                if length - head > at(parts, part + 5):
                    outcome = ODD
                    break
            elif kind == MAGIC:
                for j in range(size):
                    if at(data, behind + j) != at(magic, at(parts, part + 3) + j):
                        outcome = ODD
                if outcome == ODD:
                    break
            elif kind == LINE:
                message = 0
            behind += size
        if outcome == GOOD:
            if code_at >= 0:
                code = read_int(data, size_of_buf, code_at, at(parts, code_part + 1), at(parts, code_part + 2))
                for m in range(codes.shape[0]):
                    if at(codes, m) == code:
                        message = m
                        break
            if message < 0 or length < behind - position or head < at(code_heads, message):
                outcome = ODD
            elif position + length > end:
                outcome = SHORT
            elif given and position + length != end:
                outcome = ODD
        if outcome != GOOD:
            if not given:
                break
            message = -1
        if not given:
            store(starts, n, position)
            store(lengths, n, length)
        store(payloads, n, behind - position)
        store(heads, n, head)
        store(messages, n, message)
        n += 1
        position += length
        # Traffic repeats itself: frames of this length are the best guess of where headers will be.
        prefetch(data, position + 6 * length)
    return n, position, outcome
