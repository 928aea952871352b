"""The framing kernel: finds frame boundaries by walking headers; and the kernel that frames and decodes in turn.

``parts`` describes a frame header, eight numbers a part: kind, size, flags, a to e
(see ``columnar/kernel_program.py``).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .columns import ACCEPTED, run_program
from .memory import at, pointer, prefetch, store
from .memory import behind as place_behind
from .numbers import read_int
from .numerals import FOUND, MISSING, find_bytes, read_digits, read_varint

MAGIC, SIZE_WHOLE, SIZE_AFTER, ESCAPED, HEAD, CODE, KEPT, ONLY, VARINT, DIGITS, TAIL, UNTIL = range(12)
WHOLE = 16
"""A flag of a number that is a length: it counts from the first byte of the frame."""
NUMBERS_PER_PART = 8

GOOD, SHORT, ODD = range(3)

NO_SEARCH, SEARCH, SEARCH_FINAL = range(3)
SEARCHED = 1_000
"""A search that goes further is left to ``StreamDecoder``, which counts what it spends in vain."""

CHUNK = 256
"""So many frames are found before they are decoded: few enough to be still in the cache then."""
AHEAD = 2048
"""How many bytes ahead of the headers bytes are fetched."""


@njit(cache=True, nogil=True)
def decode_frames(
    parts, magic, codes, code_heads, prog, entries, tags, cells, dfa, patterns, words, word_bytes,
    buf, starts, lengths, payloads, heads, messages, first,
    out, room, fill, elements, status, row_message, row_padded, message_rows, saved, saved_elements, scratch,
):  # fmt: skip
    """Decode given frames from ``first`` on.

    Return the number of the first frame that was not looked at, because a column is full, and the number of rows.
    """
    count = first
    most = starts.shape[0]
    rows = np.int64(0)
    while count < most:
        last, _, _ = read_frames(
            pointer(parts), parts.shape[0], pointer(magic), pointer(codes), codes.shape[0], pointer(code_heads),
            pointer(buf), buf.shape[0], 0, 0, True,
            pointer(starts), pointer(lengths), pointer(payloads), pointer(heads), pointer(messages),
            count, min(count + CHUNK, most),
        )  # fmt: skip
        count, rows = run_program(
            pointer(prog), pointer(entries), pointer(tags), pointer(cells), pointer(dfa), pointer(patterns),
            pointer(words), words.shape[0] // 4, pointer(word_bytes),
            pointer(buf), buf.shape[0], pointer(starts), pointer(lengths), pointer(payloads), pointer(heads),
            pointer(messages), count, last,
            pointer(out), pointer(room), pointer(fill), fill.shape[0], pointer(elements), elements.shape[0],
            pointer(status), rows, pointer(row_message), pointer(row_padded), pointer(message_rows),
            pointer(saved), pointer(saved_elements), pointer(scratch),
        )  # fmt: skip
        if count < last:
            break
    return count, rows


@njit(cache=True, nogil=True)
def decode_ranges(
    parts, magic, codes, code_heads, prog, entries, tags, cells, dfa, patterns, words, word_bytes,
    buf, positions, ends, searches, outcomes, firsts, faults, starts, lengths, payloads, heads, messages,
    out, room, fill, elements, status, row_message, row_padded, message_rows, saved, saved_elements, scratch,
):  # fmt: skip
    """Finds and decodes the frames of many ranges of a buffer, one range after the other.

    ``positions`` move to where the frames of each range end, ``outcomes`` say why there (GOOD: at its end, or there is
    no more room), ``firsts`` which frame is the first of each range. Returns the number of frames that were looked at,
    of rows, of ranges that were begun, of faults, and whether a column is full: then frames behind the last one were
    found too.

    Where ``searches`` allow it, a range goes on behind broken bytes where frames seem to begin again. ``faults`` tell
    five numbers of each: the range, where the broken bytes begin and end, how long the frame is that was declined
    there (0: its header is odd), and the number of the next frame. That one must be good, and its successor seem so.
    """
    most = starts.shape[0]
    n_ranges = positions.shape[0]
    count = np.int64(0)
    rows = np.int64(0)
    found = np.int64(0)
    n_faults = np.int64(0)
    proof = np.int64(0)
    which = 0
    is_begun = False
    while which < n_ranges and count < most:
        # The frame behind a fault comes alone: if it is not good, nothing behind it is sure.
        is_proof = proof == count + 1
        stop = min(count + (1 if is_proof else CHUNK), most)
        is_lost = False
        while which < n_ranges and found < stop and not is_lost:
            if not is_begun:
                store(firsts, which, found)
            found, position, outcome = read_frames(
                pointer(parts), parts.shape[0], pointer(magic), pointer(codes), codes.shape[0], pointer(code_heads),
                pointer(buf), buf.shape[0], at(positions, which), at(ends, which), False,
                pointer(starts), pointer(lengths), pointer(payloads), pointer(heads), pointer(messages),
                found, stop,
            )  # fmt: skip
            store(positions, which, position)
            store(outcomes, which, outcome)
            is_lost = outcome == ODD and at(searches, which) != NO_SEARCH and found < most
            is_begun = is_lost or (outcome == GOOD and position < at(ends, which))
            if not is_begun:
                which += 1
        count, rows = run_program(
            pointer(prog), pointer(entries), pointer(tags), pointer(cells), pointer(dfa), pointer(patterns),
            pointer(words), words.shape[0] // 4, pointer(word_bytes),
            pointer(buf), buf.shape[0], pointer(starts), pointer(lengths), pointer(payloads), pointer(heads),
            pointer(messages), count, found,
            pointer(out), pointer(room), pointer(fill), fill.shape[0], pointer(elements), elements.shape[0],
            pointer(status), rows, pointer(row_message), pointer(row_padded), pointer(message_rows),
            pointer(saved), pointer(saved_elements), pointer(scratch),
        )  # fmt: skip
        if count < found:
            return count, rows, which + is_begun, n_faults, True
        if is_proof and is_begun and at(status, count - 1) != ACCEPTED:
            is_begun = False
            which += 1
        elif is_lost:
            # The end that a declined frame claims is no good: it is the frame that is broken.
            length = np.int64(0)
            if found > at(firsts, which) and at(status, found - 1) != ACCEPTED:
                length = at(lengths, found - 1)
            begin = at(positions, which) - length
            resumed = np.int64(-1)
            if length == 0 or found > proof:
                resumed = next_frame(
                    pointer(parts), parts.shape[0], pointer(magic), pointer(codes), codes.shape[0],
                    pointer(code_heads), pointer(buf), buf.shape[0], begin + 1, at(ends, which),
                    at(searches, which) == SEARCH_FINAL,
                    pointer(starts), pointer(lengths), pointer(payloads), pointer(heads), pointer(messages), found,
                )  # fmt: skip
            if resumed < 0:
                is_begun = False
                which += 1
                continue
            found -= length > 0
            count = found
            for k, value in enumerate((which, begin, resumed, length, found)):
                store(faults, 5 * n_faults + k, value)
            n_faults += 1
            proof = found + 1
            store(positions, which, resumed)
            store(outcomes, which, GOOD)
    return count, rows, which + is_begun, n_faults, False


@njit(cache=True, nogil=True)
def next_frame(
    parts, size_of_parts, magic, codes, n_codes, code_heads, data, size_of_buf, position, end, is_final,
    starts, lengths, payloads, heads, messages, spare,
):  # fmt: skip
    """Where, not far from ``position``, a frame seems to begin that another one or the end follows; -1: look closely.

    ``spare`` is the number of a frame that may be overwritten.
    """
    width = np.int64(0)
    for part in range(0, size_of_parts, NUMBERS_PER_PART):
        width += at(parts, part + 1)
    for place in range(position, min(position + SEARCHED, end - width)):
        behind = place
        for frame in range(2):
            _, behind, outcome = read_frames(
                parts, size_of_parts, magic, codes, n_codes, code_heads, data, size_of_buf, behind, end, False,
                starts, lengths, payloads, heads, messages, spare, spare + 1,
            )  # fmt: skip
            if outcome == SHORT and (frame == 1 or not is_final):
                return -1
            if outcome != GOOD:
                break
            if frame == 1 or behind == end:
                return place if frame == 1 or is_final else -1
    return -1


@njit(cache=True, nogil=True)
def read_frames(
    parts, size_of_parts, magic, codes, n_codes, code_heads, data, size_of_buf, position, end, given,
    starts, lengths, payloads, heads, messages, first, stop,
):  # fmt: skip
    """Walks from frame to frame from ``position`` on while headers are good; or judges ``given`` frames, each alone.

    Returns the number behind the last, the position behind it, and the outcome there: GOOD, SHORT (bytes are missing)
    or ODD (look closely). A given frame that is not good, or says another length, gets message -1.

    One function and not two: a call in this loop would cost more than the header.
    """
    n = first
    last = np.int64(0)
    outcome = np.int64(GOOD)
    while n < stop:
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
        tail = np.int64(0)
        outcome = np.int64(GOOD)
        for part in range(0, size_of_parts, NUMBERS_PER_PART):
            kind = at(parts, part)
            size = at(parts, part + 1)
            if behind + size > end:
                outcome = SHORT
                break
            if kind == CODE:
                code_at = behind
                code_part = part
            elif kind == SIZE_WHOLE or kind == SIZE_AFTER:  # noqa: SIM109 (Numba is quicker this way)
                # a least, b most, c what is added
                value = read_int(data, size_of_buf, behind, size, at(parts, part + 2))
                if value < at(parts, part + 3) or value > at(parts, part + 4):
                    outcome = ODD
                    break
                length = at(parts, part + 5) + (value if kind == SIZE_WHOLE else value + behind + size - position)
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
            elif kind == ONLY:
                message = 0
            elif kind == VARINT or kind == DIGITS:  # noqa: SIM109
                # a least, b most, c what is added, d most bytes or digits, e (of digits) place and size of their end
                flags = at(parts, part + 2)
                if kind == VARINT:
                    found, value, size = read_varint(data, behind, end, at(parts, part + 6), flags)
                else:
                    ends = at(parts, part + 7)
                    found, value, size = read_digits(
                        data, behind, end, flags, at(parts, part + 6), place_behind(magic, ends >> 8), ends & 255,
                        at(parts, part + 3), at(parts, part + 4),
                    )  # fmt: skip
                if found != FOUND:
                    outcome = SHORT if found == MISSING else ODD
                    break
                if value < at(parts, part + 3) or value > at(parts, part + 4):
                    outcome = ODD
                    break
                size -= behind
                length = at(parts, part + 5) + value + (0 if flags & WHOLE else behind + size - position)
            elif kind == TAIL:
                # a bytes behind the payload
                tail = at(parts, part + 3)
            elif kind == UNTIL:
                # a most bytes before the end, b place and c size of the end
                tail = at(parts, part + 5)
                reach = behind + at(parts, part + 3) + tail
                place = find_bytes(
                    data, size_of_buf, behind, min(end, reach), place_behind(magic, at(parts, part + 4)), tail
                )
                if place < 0:
                    outcome = ODD if end >= reach else SHORT
                    break
                length = place + tail - position
            behind += size
        if outcome == GOOD:
            if code_at >= 0:
                # c width, a lowest bit, b mask
                code = read_int(data, size_of_buf, code_at, at(parts, code_part + 5), at(parts, code_part + 2))
                code = code >> at(parts, code_part + 3) & at(parts, code_part + 4)
                # Traffic repeats itself: most often this is the message that was before.
                message = last
                if at(codes, message) != code:
                    message = n_codes - 1
                    while message >= 0 and at(codes, message) != code:
                        message -= 1
                    last = max(message, 0)
            if message < 0 or length < behind - position + tail or head < at(code_heads, message):
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
        ahead = position + AHEAD
        prefetch(data, ahead)
        prefetch(data, ahead + 64)
        if length > 128:
            prefetch(data, ahead + 128)
            prefetch(data, ahead + 192)
            prefetch(data, ahead + 256)
            prefetch(data, ahead + 320)
            prefetch(data, ahead + 384)
            prefetch(data, ahead + 448)
    if given:
        outcome = np.int64(GOOD)
    return n, position, outcome
