"""The columnar kernel: runs a program of integers over many frames and fills dense columns.

A program has eight numbers per operation: ``op, slot, a, b, c, d, e, f`` (``columnar/kernel_program.py`` writes
them). Every column is a slot: a dense run of entries ``value or position, length, row``. Elements of lists number their
rows through all messages of the batch.

The kernel never raises. A frame that is not plain in every respect is *declined*: its half-written entries are taken
back and the record codec looks at it. A full column ends the batch at the last whole message.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .content import MAX_DEPTH, is_msgpack, is_utf8
from .memory import at, behind, store, widened
from .numbers import read_int
from .numerals import FOUND, checksum, find_bytes, holds, read_digits, read_varint, same_bytes
from .words import MAX_WORDS, decimal, matches, same_word, split_line

# Operations; their operands are named beside the code that runs them.
END, INT, FIXED, RUN, RUN_REG, RUN_REST, JUMP, JUMP_IN, EMPTY, SUM_MOST = range(10)
LIST, NEXT, BOOL, TAGS, CELLS, BODY, HEAD_REACHES, IF_LEFT, DECLINE, LINE = range(10, 20)
WORD_CODE, WORD, IF_REG, IF_EMPTY, DECLINE_IF_LESS, END_VIEWS, BACK, SKIP, PAIR = range(20, 29)
BITS, VARINT, DIGITS, CONST, FIND, SUM, MARK, SET, WHEN = range(29, 38)
SEEK, CUT, NARROW, ENTER, LEAVE, UNITS, PADDED = range(38, 45)

# More flags of an integer, and of a run whose content may be empty.
RANGED, MAY_BE_EMPTY = 4, 8
# Flags of a list: its count is in a register; it ends with certain bytes.
COUNTED, ENDED = 16, 32
NO_LIMIT = 1 << 62
# Contents of a run.
RAW, TEXT, MSGPACK, MSGPACK_MAP, NEVER = range(5)
# Types of a tag or a cell.
KIND_ODD, KIND_FLAG, KIND_INT, KIND_FLOAT, KIND_TEXT, KIND_BYTES = range(6)
# Flags of a word.
OPTIONAL, NUMBER, FORBIDDEN = 1, 2, 4

MAX_NESTING = 8
MOST_UNITS = 1 << 32
REGISTERS = 16

ACCEPTED, DECLINED, FULL = 0, 1, 2
GOES_ON = -1

# Where things are in the scratch memory that a caller provides.
AT_LOOPS = REGISTERS
AT_ORDINAL = AT_LOOPS + 5 * MAX_NESTING
AT_WORDS = AT_ORDINAL + MAX_NESTING + 1
AT_DEPTH = AT_WORDS + 2 * (MAX_WORDS + 1)
AT_SEEN = AT_DEPTH + 2 * (MAX_DEPTH + 1)
SCRATCH = AT_SEEN + 256


def new_scratch() -> NDArray[np.int64]:
    """Memory that one batch of frames needs; it keeps which tags were seen in which frame."""
    scratch = np.zeros(SCRATCH, np.int64)
    scratch[AT_SEEN:] = -1
    return scratch


@njit(cache=True, nogil=True, forceinline=True)
def put(out, room, fill, slot, row, value, length):
    """Appends an entry (value, length, row) where the slot is filled up to; false if the column is full."""
    place = at(fill, slot)
    if place >= at(room, slot):
        return False
    store(out, place, value)
    store(out, place + 1, length)
    store(out, place + 2, row)
    store(fill, slot, place + 3)
    return True


@njit(cache=True, nogil=True)
def run_program(
    prog, entries, tags, cells, dfa, patterns, words, n_messages, word_bytes,
    buf, size_of_buf, starts, lengths, payloads, heads, messages, first, stop,
    out, room, fill, n_slots, elements, n_lists, status, row0, row_message, row_padded, message_rows,
    saved, saved_elements, regs,
):  # fmt: skip
    """Decodes frames from ``first`` up to ``stop``; all arguments are pointers or numbers.

    Returns the number of the first frame that was not looked at, and the row behind the last one.

    ``status[i]`` becomes ACCEPTED or DECLINED; accepted frames get rows ``row0, row0 + 1, ...``, their message in
    ``row_message`` (``message_rows`` counts them), and in ``row_padded`` whether a tolerated padding followed.
    """
    loop_pc = behind(regs, AT_LOOPS)
    loop_left = behind(loop_pc, MAX_NESTING)
    loop_count = behind(loop_left, MAX_NESTING)
    loop_slot = behind(loop_count, MAX_NESTING)
    loop_list = behind(loop_slot, MAX_NESTING)
    ordinal = behind(regs, AT_ORDINAL)
    word_at = behind(regs, AT_WORDS)
    word_len = behind(word_at, MAX_WORDS + 1)
    depth_counts = behind(regs, AT_DEPTH)
    depth_maps = behind(depth_counts, MAX_DEPTH + 1)
    seen = behind(regs, AT_SEEN)
    row = row0
    i = first
    while i < stop:
        message = at(messages, i)
        if message < 0:
            store(status, i, DECLINED)
            i += 1
            continue
        for s in range(n_slots):
            store(saved, s, at(fill, s))
        for s in range(n_lists):
            store(saved_elements, s, at(elements, s))
        start = at(starts, i)
        end = start + at(lengths, i)
        lim = end
        p = start + at(payloads, i)
        head_end = start + at(heads, i)
        for r in range(REGISTERS):
            store(regs, r, 0)
        pc = at(entries, message)
        level = 0
        store(ordinal, 0, row)
        n_words = np.int64(0)
        padded = np.int8(0)
        outcome = np.int64(GOES_ON)
        while True:
            pc8 = pc * 8
            op = at(prog, pc8)
            slot = at(prog, pc8 + 1)
            pc += 1
            if op == INT:
                # a size, b flags, c low, d high, e register, f bytes to skip before
                size = at(prog, pc8 + 2)
                flags = at(prog, pc8 + 3)
                p += at(prog, pc8 + 7)
                if p + size > lim:
                    outcome = DECLINED
                    break
                value = read_int(buf, size_of_buf, p, size, flags)
                p += size
                if flags & RANGED and (value < at(prog, pc8 + 4) or value > at(prog, pc8 + 5)):
                    outcome = DECLINED
                    break
                if at(prog, pc8 + 6) >= 0:
                    store(regs, at(prog, pc8 + 6), value)
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), value, 0):
                    outcome = FULL
                    break
            elif op == RUN or op == RUN_REG or op == RUN_REST:  # noqa: SIM109 (Numba is quicker this way)
                # RUN: a size of length, f bytes to skip before; RUN_REG: a register;
                # all: b flags, c content, d least, e most
                if op == RUN:
                    size = at(prog, pc8 + 2)
                    p += at(prog, pc8 + 7)
                    if p + size > lim:
                        outcome = DECLINED
                        break
                    length = read_int(buf, size_of_buf, p, size, at(prog, pc8 + 3))
                    p += size
                elif op == RUN_REG:
                    length = at(regs, at(prog, pc8 + 2))
                else:
                    length = lim - p
                if length > lim - p or length < at(prog, pc8 + 5) or length > at(prog, pc8 + 6):
                    outcome = DECLINED
                    break
                content = at(prog, pc8 + 4)
                if content == TEXT:
                    if not is_utf8(buf, size_of_buf, p, p + length):
                        outcome = DECLINED
                        break
                elif content >= MSGPACK:
                    if length == 0 and at(prog, pc8 + 3) & MAY_BE_EMPTY:
                        continue
                    if content == NEVER or not is_msgpack(
                        buf, size_of_buf, p, p + length, content == MSGPACK_MAP, depth_counts, depth_maps
                    ):
                        outcome = DECLINED
                        break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), p, length):
                    outcome = FULL
                    break
                p += length
            elif op == FIXED:
                # a size
                size = at(prog, pc8 + 2)
                if p + size > lim:
                    outcome = DECLINED
                    break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), p, size):
                    outcome = FULL
                    break
                p += size
            elif op == END:
                # a size and b byte of a padding that is tolerated
                outcome = ACCEPTED
                if p != end:
                    padded = np.int8(1)
                    if end - p != at(prog, pc8 + 2):
                        outcome = DECLINED
                    else:
                        for k in range(p, end):
                            if at(buf, k) != at(prog, pc8 + 3):
                                outcome = DECLINED
                break
            elif op == JUMP_IN:
                # a register, b and c values, d target: jumps if the register has one of the values
                value = at(regs, at(prog, pc8 + 2))
                if value == at(prog, pc8 + 3) or value == at(prog, pc8 + 4):
                    pc = at(prog, pc8 + 5)
            elif op == JUMP:
                pc = at(prog, pc8 + 2)
            elif op == EMPTY:
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), 0, 0):
                    outcome = FULL
                    break
            elif op == SUM_MOST:
                # a and b registers, c most
                one = at(regs, at(prog, pc8 + 2))
                other = at(regs, at(prog, pc8 + 3))
                most = at(prog, pc8 + 4)
                if one < 0 or other < 0 or one > most or other > most - one:
                    outcome = DECLINED
                    break
            elif op == PAIR:
                # two lengths, and as many bytes as they say: a size, b flags, c most of their sum
                size = at(prog, pc8 + 2)
                flags = at(prog, pc8 + 3)
                most = at(prog, pc8 + 4)
                if p + 2 * size > lim:
                    outcome = DECLINED
                    break
                one = read_int(buf, size_of_buf, p, size, flags)
                other = read_int(buf, size_of_buf, p + size, size, flags)
                if one < 0 or other < 0 or one > most or other > most - one or one + other > lim - p - 2 * size:
                    outcome = DECLINED
                    break
                p += 2 * size + one + other
            elif op == SKIP:
                # a size
                p += at(prog, pc8 + 2)
                if p > lim:
                    outcome = DECLINED
                    break
            elif op == LIST:
                # a size of count (0: until the range ends; -n: n elements), b flags, c least element, d list, e end
                # f place and size of the bytes that end it
                size = at(prog, pc8 + 2)
                if size > 0:
                    if at(prog, pc8 + 3) & COUNTED:
                        count = at(regs, size - 1)
                    else:
                        if p + size > lim:
                            outcome = DECLINED
                            break
                        count = read_int(buf, size_of_buf, p, size, at(prog, pc8 + 3))
                        p += size
                    if count < 0 or count > lim - p or count * at(prog, pc8 + 4) > lim - p:
                        outcome = DECLINED
                        break
                elif size < 0:
                    count = -size
                elif at(prog, pc8 + 3) & ENDED:
                    ends = at(prog, pc8 + 7)
                    count = np.int64(-2)
                    if same_bytes(buf, p, lim, behind(word_bytes, ends >> 8), ends & 255):
                        p += ends & 255
                        count = np.int64(0)
                    elif p >= lim:
                        outcome = DECLINED
                        break
                else:
                    count = np.int64(-1)
                if count == 0 or (count < 0 and p >= lim):
                    if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), 0, 0):
                        outcome = FULL
                        break
                    pc = at(prog, pc8 + 6)
                else:
                    which = at(prog, pc8 + 5)
                    store(loop_pc, level, pc)
                    store(loop_left, level, count)
                    store(loop_count, level, 1)
                    store(loop_slot, level, slot)
                    store(loop_list, level, which)
                    level += 1
                    store(ordinal, level, at(elements, which))
                    store(elements, which, at(elements, which) + 1)
            elif op == NEXT:
                # a place and size of the bytes that end the list
                inner = level - 1
                left = at(loop_left, inner)
                count = at(loop_count, inner)
                more = p < lim if left < 0 else count < left
                if left == -2:
                    ends = at(prog, pc8 + 2)
                    if same_bytes(buf, p, lim, behind(word_bytes, ends >> 8), ends & 255):
                        p += ends & 255
                        more = False
                    elif not more:
                        outcome = DECLINED
                        break
                if more:
                    which = at(loop_list, inner)
                    store(loop_count, inner, count + 1)
                    store(ordinal, level, at(elements, which))
                    store(elements, which, at(elements, which) + 1)
                    pc = at(loop_pc, inner)
                else:
                    level = inner
                    slot = at(loop_slot, level)
                    if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), count, 0):
                        outcome = FULL
                        break
            elif op == BOOL:
                # a lenient, b register and 1, or 0
                if p >= lim or (at(buf, p) > 1 and at(prog, pc8 + 2) == 0):
                    outcome = DECLINED
                    break
                if at(prog, pc8 + 3) > 0:
                    store(regs, at(prog, pc8 + 3) - 1, np.int64(at(buf, p) != 0))
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), 1 if at(buf, p) != 0 else 0, 0):
                    outcome = FULL
                    break
                p += 1
            elif op == TAGS:
                # slot: count of keys, a table, b slot of keys, c list of keys, d required tag or -1, e waiving register
                outcome, p = run_tags(
                    behind(tags, at(prog, pc8 + 2)), slot, at(prog, pc8 + 3), at(prog, pc8 + 4),
                    at(prog, pc8 + 5), at(prog, pc8 + 6), seen, i, buf, size_of_buf, p, head_end,
                    at(ordinal, level), out, room, fill, elements, regs,
                )  # fmt: skip
                if outcome != GOES_ON:
                    break
            elif op == CELLS:
                # slot: count, a table, b first slot of (fid, type, long, double, text, bytes), c list, d closer look
                outcome = run_cells(
                    behind(cells, at(prog, pc8 + 2)), slot, at(prog, pc8 + 3), at(prog, pc8 + 4), at(prog, pc8 + 5),
                    buf, size_of_buf, p, lim, at(ordinal, level), out, room, fill, elements,
                )  # fmt: skip
                if outcome != GOES_ON:
                    break
                p = lim
            elif op == BODY:
                # a exactly or -1, b most or -1: the views that follow read it again
                size = lim - p
                exactly = at(prog, pc8 + 2)
                most = at(prog, pc8 + 3)
                if (exactly >= 0 and size != exactly) or (most >= 0 and size > most):
                    outcome = DECLINED
                    break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), p, size):
                    outcome = FULL
                    break
            elif op == IF_REG:
                # a register, b target: jumps if it is not zero
                if at(regs, at(prog, pc8 + 2)) != 0:
                    pc = at(prog, pc8 + 3)
            elif op == IF_EMPTY or op == IF_LEFT:  # noqa: SIM109
                # a target: jumps if nothing is left
                if p >= lim:
                    pc = at(prog, pc8 + 2)
            elif op == END_VIEWS:
                # the views were skipped: the body counts as read
                p = lim
            elif op == HEAD_REACHES:
                # a size, b target: jumps if the head is shorter
                if head_end - start < at(prog, pc8 + 2):
                    pc = at(prog, pc8 + 3)
            elif op == BACK:
                # a distance, b size: a field of the frame header, which lies before the payload
                if slot >= 0 and not put(
                    out, room, fill, slot, at(ordinal, level), p - at(prog, pc8 + 2), at(prog, pc8 + 3)
                ):
                    outcome = FULL
                    break
            elif op == DECLINE_IF_LESS:
                # a bytes: declines if fewer are left
                if lim - p < at(prog, pc8 + 2):
                    outcome = DECLINED
                    break
            elif op == LINE:
                # a separator, b end, c window, d fewest, e most
                n_words, p = split_line(
                    buf, size_of_buf, p, min(lim, p + at(prog, pc8 + 4)), at(prog, pc8 + 2), at(prog, pc8 + 3),
                    word_at, word_len,
                )  # fmt: skip
                if n_words < at(prog, pc8 + 5) or n_words > at(prog, pc8 + 6):
                    outcome = DECLINED
                    break
            elif op == WORD_CODE:
                # finds the message whose word is the first one
                message = same_word(buf, at(word_at, 0), at(word_len, 0), words, n_messages, word_bytes)
                if message < 0:
                    outcome = DECLINED
                    break
                pc = at(words, 4 * message + 3)
                message = at(words, 4 * message + 2)
            elif op == WORD:
                # a word, b pattern, c most, d flags, e low, f high
                w = at(prog, pc8 + 2)
                flags = at(prog, pc8 + 5)
                length = at(word_len, w) if w < n_words else 0
                if length == 0 and flags & OPTIONAL:
                    continue
                value = at(word_at, w)
                if (
                    length == 0
                    or flags & FORBIDDEN
                    or length > at(prog, pc8 + 4)
                    or not matches(buf, value, length, dfa, behind(patterns, 2 * at(prog, pc8 + 3)))
                ):
                    outcome = DECLINED
                    break
                if flags & NUMBER:
                    value = decimal(buf, value, length)
                    if value < at(prog, pc8 + 6) or value > at(prog, pc8 + 7):
                        outcome = DECLINED
                        break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), value, length):
                    outcome = FULL
                    break
            elif op == BITS:
                # a size, lowest bit, width and bytes to go on, one byte each; b flags, c low, d high, e register
                packed = at(prog, pc8 + 2)
                size = packed & 255
                flags = at(prog, pc8 + 3)
                if p + size > lim:
                    outcome = DECLINED
                    break
                value = read_int(buf, size_of_buf, p, size, flags)
                value = (value >> (packed >> 8 & 255)) & ((np.int64(1) << (packed >> 16 & 255)) - 1)
                p += packed >> 24
                if flags & RANGED and (value < at(prog, pc8 + 4) or value > at(prog, pc8 + 5)):
                    outcome = DECLINED
                    break
                if at(prog, pc8 + 6) >= 0:
                    store(regs, at(prog, pc8 + 6), value)
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), value, 0):
                    outcome = FULL
                    break
            elif op == VARINT or op == DIGITS:  # noqa: SIM109
                # a most bytes or digits, b flags, c low, d high, e register, f place and size of the end of digits
                if op == VARINT:
                    found, value, p = read_varint(buf, p, lim, at(prog, pc8 + 2), at(prog, pc8 + 3))
                else:
                    ends = at(prog, pc8 + 7)
                    found, value, p = read_digits(
                        buf, p, lim, at(prog, pc8 + 3), at(prog, pc8 + 2), behind(word_bytes, ends >> 8), ends & 255,
                        at(prog, pc8 + 4), at(prog, pc8 + 5),
                    )  # fmt: skip
                if found != FOUND:
                    outcome = DECLINED
                    break
                if at(prog, pc8 + 6) >= 0:
                    store(regs, at(prog, pc8 + 6), value)
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), value, 0):
                    outcome = FULL
                    break
            elif op == CONST:
                # a place and b size of what must be here
                size = at(prog, pc8 + 3)
                if not same_bytes(buf, p, lim, behind(word_bytes, at(prog, pc8 + 2)), size):
                    outcome = DECLINED
                    break
                p += size
            elif op == FIND:
                # a place and b size of what is searched, c register: how many bytes are before it
                place = find_bytes(buf, size_of_buf, p, lim, behind(word_bytes, at(prog, pc8 + 2)), at(prog, pc8 + 3))
                if place < 0:
                    outcome = DECLINED
                    break
                store(regs, at(prog, pc8 + 4), place - p)
            elif op == SUM:
                # a kind, b size, c flags, d register of its first byte, or -1
                size = at(prog, pc8 + 3)
                begin = start if at(prog, pc8 + 5) < 0 else at(regs, at(prog, pc8 + 5))
                if p + size > lim or read_int(buf, size_of_buf, p, size, at(prog, pc8 + 4)) != checksum(
                    buf, begin, p, at(prog, pc8 + 2)
                ):
                    outcome = DECLINED
                    break
                p += size
            elif op == MARK:
                # a register: where we are
                store(regs, at(prog, pc8 + 2), p)
            elif op == SET:
                # a register, b value
                store(regs, at(prog, pc8 + 2), at(prog, pc8 + 3))
            elif op == WHEN:
                # a register, b place of the condition, c target: jumps if it does not hold
                if not holds(behind(cells, at(prog, pc8 + 3)), at(regs, at(prog, pc8 + 2))):
                    pc = at(prog, pc8 + 4)
            elif op == SEEK:
                # a distance from the first byte of the frame or, if b, of the payload
                p = start + at(prog, pc8 + 2) + (at(payloads, i) if at(prog, pc8 + 3) else 0)
            elif op == CUT:
                # a size of what stands behind the payload, b its place
                end -= at(prog, pc8 + 2)
                lim = end
                if not same_bytes(
                    buf, end, end + at(prog, pc8 + 2), behind(word_bytes, at(prog, pc8 + 3)), at(prog, pc8 + 2)
                ):
                    outcome = DECLINED
                    break
            elif op == NARROW:
                # a bytes by which the range ends earlier
                lim -= at(prog, pc8 + 2)
            elif op == ENTER:
                # a register of the size of a range, b register that keeps the end of the outer one
                size = at(regs, at(prog, pc8 + 2))
                if size < 0 or size > lim - p:
                    outcome = DECLINED
                    break
                store(regs, at(prog, pc8 + 3), lim)
                lim = p + size
            elif op == LEAVE:
                # a register of the end of the outer range
                if p != lim:
                    outcome = DECLINED
                    break
                lim = at(regs, at(prog, pc8 + 2))
            elif op == UNITS:
                # a register, b by which it is multiplied, c what is added to it
                size = at(regs, at(prog, pc8 + 2))
                if size > MOST_UNITS:
                    outcome = DECLINED
                    break
                store(regs, at(prog, pc8 + 2), size * at(prog, pc8 + 3) + at(prog, pc8 + 4))
            elif op == PADDED:
                # a size, b byte that fills it up, c whether before the value, d content
                size = at(prog, pc8 + 2)
                if p + size > lim:
                    outcome = DECLINED
                    break
                first, last = p, p + size
                if at(prog, pc8 + 4):
                    while first < last and at(buf, first) == at(prog, pc8 + 3):
                        first += 1
                else:
                    while first < last and at(buf, last - 1) == at(prog, pc8 + 3):
                        last -= 1
                if at(prog, pc8 + 5) == TEXT and not is_utf8(buf, size_of_buf, first, last):
                    outcome = DECLINED
                    break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), first, last - first):
                    outcome = FULL
                    break
                p += size
            else:
                outcome = DECLINED
                break
        if outcome == ACCEPTED:
            store(status, i, ACCEPTED)
            store(row_message, row, message)
            store(row_padded, row, padded)
            store(message_rows, message, at(message_rows, message) + 1)
            row += 1
            i += 1
        else:
            for s in range(n_slots):
                store(fill, s, at(saved, s))
            for s in range(n_lists):
                store(elements, s, at(saved_elements, s))
            if outcome == FULL:
                return i, row
            store(status, i, DECLINED)
            i += 1
    return i, row


@njit(cache=True, nogil=True)
def run_tags(
    tags, slot, key_slot, key_list, required, waiver, seen, frame,
    buf, size_of_buf, p, end, row, out, room, fill, elements, regs,
):  # fmt: skip
    """A tag table up to ``end``; ``tags`` has six numbers per code: kind, size, flags, slot, most, register."""
    count = 0
    found_required = required < 0
    while p < end:
        code = np.int64(at(buf, p))
        p += 1
        tag = behind(tags, 6 * code)
        kind = at(tag, 0)
        if kind == KIND_ODD or at(seen, code) == frame:
            return DECLINED, p
        store(seen, code, frame)
        if code == required:
            found_required = True
        tag_slot = at(tag, 3)
        if kind == KIND_FLAG:
            if tag_slot >= 0 and not put(out, room, fill, tag_slot, row, 1, 0):
                return FULL, p
        else:
            size = at(tag, 1)
            if p + size > end:
                return DECLINED, p
            value = read_int(buf, size_of_buf, p, size, at(tag, 2))
            p += size
            length = np.int64(0)
            if kind == KIND_TEXT:
                length = value
                if length > at(tag, 4) or length > end - p or not is_utf8(buf, size_of_buf, p, p + length):
                    return DECLINED, p
                value = p
                p += length
            if at(tag, 5) >= 0:
                store(regs, at(tag, 5), value)
            if tag_slot >= 0 and not put(out, room, fill, tag_slot, row, value, length):
                return FULL, p
        if key_slot >= 0:
            element = at(elements, key_list)
            if not put(out, room, fill, key_slot, element, code, 0):
                return FULL, p
            store(elements, key_list, element + 1)
        count += 1
    if not found_required and not (waiver >= 0 and at(regs, waiver) > 0):
        return DECLINED, p
    if slot >= 0 and not put(out, room, fill, slot, row, count, 0):
        return FULL, p
    return GOES_ON, p


@njit(cache=True, nogil=True)
def run_cells(
    cells, slot, first, cell_list, closer,
    buf, size_of_buf, p, end, row, out, room, fill, elements,
):  # fmt: skip
    """Typed, numbered values until ``end``.

    ``cells`` holds head size, flags, id shift, type shift, type mask, flag mask, id max, and then four numbers per
    type: kind, size, flags, most.
    """
    head_size = at(cells, 0)
    head_flags = at(cells, 1)
    id_shift = at(cells, 2)
    type_shift = at(cells, 3)
    type_mask = at(cells, 4)
    flag_mask = at(cells, 5)
    id_max = at(cells, 6)
    count = 0
    element = at(elements, cell_list)
    while p < end:
        if p + head_size > end:
            return DECLINED
        head = read_int(buf, size_of_buf, p, head_size, head_flags)
        p += head_size
        fid = head >> id_shift
        code = (head >> type_shift) & type_mask
        if head & flag_mask or fid > id_max:
            return DECLINED
        about = behind(cells, 7 + 4 * code)
        kind = at(about, 0)
        size = at(about, 1)
        if kind == KIND_ODD or p + size > end:
            return DECLINED
        value = read_int(buf, size_of_buf, p, size, at(about, 2))
        p += size
        if kind == KIND_INT:
            if first >= 0 and not put(out, room, fill, first + 2, element, value, 0):
                return FULL
        elif kind == KIND_FLOAT:
            if size == 4:
                if value & 0x7F800000 == 0x7F800000 and value & 0x7FFFFF:
                    return DECLINED
                value = widened(value)
            elif value & 0x7FF0000000000000 == 0x7FF0000000000000 and value & 0xFFFFFFFFFFFFF:
                return DECLINED
            if first >= 0 and not put(out, room, fill, first + 3, element, value, 0):
                return FULL
        else:
            if value > at(about, 3) or value > end - p:
                return DECLINED
            if kind == KIND_TEXT:
                if not is_utf8(buf, size_of_buf, p, p + value):
                    return DECLINED
                if first >= 0 and not put(out, room, fill, first + 4, element, p, value):
                    return FULL
            else:
                if fid == closer:
                    return DECLINED
                if first >= 0 and not put(out, room, fill, first + 5, element, p, value):
                    return FULL
            p += value
        if first >= 0:
            if not put(out, room, fill, first, element, fid, 0):
                return FULL
            if not put(out, room, fill, first + 1, element, code, 0):
                return FULL
        element += 1
        count += 1
    store(elements, cell_list, element)
    if slot >= 0 and not put(out, room, fill, slot, row, count, 0):
        return FULL
    return GOES_ON
