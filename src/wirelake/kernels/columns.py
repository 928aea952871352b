"""The columnar kernel: runs a program of integers over many frames and fills dense columns.

A program has eight numbers per operation: ``op, slot, a, b, c, d, e, f`` (see ``columnar/lower.py``, which writes them). Every column is a
slot: a dense run of entries ``value or position, length, row``. Elements of lists number their rows through all messages of the
batch.

The kernel never raises. A frame that is not plain in every respect is *declined*: its half-written entries are taken back and the
record codec looks at it. A full column ends the batch at the last whole message.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import at, copy, load_little, store, swapped

# Operations; their operands are named beside the code that runs them.
END, INT, FIXED, RUN, RUN_REG, RUN_REST, JUMP, JUMP_IN, EMPTY, SUM_MOST = range(10)
LIST, NEXT, BOOL, TAGS, CELLS, BODY, HEAD_REACHES, IF_LEFT, DECLINE, LINE = range(10, 20)
WORD_CODE, WORD, IF_REG, IF_EMPTY, DECLINE_IF_LESS, END_VIEWS, BACK = range(20, 27)

# Flags of an integer.
SIGNED, LITTLE, RANGED = 1, 2, 4
# Contents of a run.
RAW, TEXT, MSGPACK, MSGPACK_MAP, NEVER = range(5)
# Types of a tag or a cell.
KIND_ODD, KIND_FLAG, KIND_INT, KIND_FLOAT, KIND_TEXT, KIND_BYTES = range(6)

MAX_NESTING = 8
MAX_WORDS = 16
MAX_DEPTH = 256
REGISTERS = 16

ACCEPTED, DECLINED, FULL = 0, 1, 2


@njit(cache=True, nogil=True)
def read_int(buf, p, size, flags):
    """An integer of 1..8 bytes, sign-extended to 64 bits (unsigned 64-bit values wrap)."""
    shift = np.uint64(64 - 8 * size)
    if p + 8 <= buf.shape[0]:
        word = load_little(buf, p)
        if flags & LITTLE:
            word = word << shift
        else:
            word = (swapped(word) >> shift) << shift
    else:
        word = np.uint64(0)
        for i in range(size):
            k = size - 1 - i if flags & LITTLE else i
            word = (word << np.uint64(8)) | np.uint64(at(buf, p + k))
        word = word << shift
    # The value stands at the top of the word; shifting it down extends its sign or not.
    if flags & SIGNED:
        return np.int64(word) >> np.int64(shift)
    return np.int64(word >> shift)


@njit(cache=True, nogil=True)
def is_utf8(buf, p, end):
    """Whether these bytes are well-formed UTF-8 (no surrogates, no overlong forms)."""
    while p < end:
        c = at(buf, p)
        if c < 0x80:
            p += 1
        elif c < 0xC2:
            return False
        elif c < 0xE0:
            if p + 1 >= end or at(buf, p + 1) & 0xC0 != 0x80:
                return False
            p += 2
        elif c < 0xF0:
            if p + 2 >= end or at(buf, p + 1) & 0xC0 != 0x80 or at(buf, p + 2) & 0xC0 != 0x80:
                return False
            if (c == 0xE0 and at(buf, p + 1) < 0xA0) or (c == 0xED and at(buf, p + 1) > 0x9F):
                return False
            p += 3
        elif c < 0xF5:
            if (
                p + 3 >= end
                or at(buf, p + 1) & 0xC0 != 0x80
                or at(buf, p + 2) & 0xC0 != 0x80
                or at(buf, p + 3) & 0xC0 != 0x80
            ):
                return False
            if (c == 0xF0 and at(buf, p + 1) < 0x90) or (c == 0xF4 and at(buf, p + 1) > 0x8F):
                return False
            p += 4
        else:
            return False
    return True


@njit(cache=True, nogil=True)
def is_msgpack(buf, p, end, need_map, counts, maps):
    """Whether exactly one MessagePack object fills the range. Extensions of the reserved type are left to a closer look."""
    if p >= end:
        return False
    lead = at(buf, p)
    if need_map and not (0x80 <= lead <= 0x8F or lead == 0xDE or lead == 0xDF):
        return False
    depth = 0
    counts[0] = 1
    maps[0] = 0
    while depth >= 0:
        if counts[depth] == 0:
            depth -= 1
            continue
        is_key = maps[depth] == 1 and counts[depth] % 2 == 0
        counts[depth] -= 1
        if p >= end:
            return False
        lead = at(buf, p)
        p += 1
        size = np.int64(0)
        children = np.int64(-1)
        is_map = 0
        if lead <= 0x7F or lead >= 0xE0:
            pass
        elif lead <= 0x8F:
            children = np.int64(lead & 0x0F) * 2
            is_map = 1
        elif lead <= 0x9F:
            children = np.int64(lead & 0x0F)
        elif lead <= 0xBF:
            size = np.int64(lead & 0x1F)
        elif lead == 0xC0 or lead == 0xC2 or lead == 0xC3:
            pass
        elif lead == 0xC1:
            return False
        elif lead <= 0xC9 or 0xD9 <= lead <= 0xDB:
            width = 1 << ((lead - 0xC4) % 3 if lead <= 0xC9 else lead - 0xD9)
            if p + width > end:
                return False
            size = read_int(buf, p, width, 0)
            p += width
            if 0xC7 <= lead <= 0xC9:
                if p >= end or at(buf, p) == 0xFF:
                    return False
                size += 1
        elif lead <= 0xCB:
            size = np.int64(4 if lead == 0xCA else 8)
        elif lead <= 0xD3:
            size = np.int64(1) << np.int64((lead - 0xCC) % 4)
        elif lead <= 0xD8:
            if p >= end or at(buf, p) == 0xFF:
                return False
            size = (np.int64(1) << np.int64(lead - 0xD4)) + 1
        else:
            width = 2 if lead == 0xDC or lead == 0xDE else 4
            if p + width > end:
                return False
            children = read_int(buf, p, width, 0)
            p += width
            if lead >= 0xDE:
                children *= 2
                is_map = 1
        if children >= 0:
            if is_key or children > end - p or depth + 1 >= MAX_DEPTH:
                return False
            depth += 1
            counts[depth] = children
            maps[depth] = is_map
        else:
            if size > end - p:
                return False
            p += size
    return p == end


@njit(cache=True, nogil=True)
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
    prog, entries, tags, cells, dfa, dfa_accept, words, word_bytes,
    buf, starts, lengths, payloads, heads, messages, first,
    out, room, fill, elements, status, row_message, row0,
):  # fmt: skip
    """Decodes frames from ``first`` on. Returns the number of the first frame that was not looked at.

    ``status[i]`` becomes ACCEPTED or DECLINED; accepted frames get rows ``row0, row0 + 1, ...`` and their message in ``row_message``.
    """
    regs = np.zeros(REGISTERS, np.int64)
    saved = fill.copy()
    saved_elements = elements.copy()
    loop_pc = np.zeros(MAX_NESTING, np.int64)
    loop_left = np.zeros(MAX_NESTING, np.int64)
    loop_count = np.zeros(MAX_NESTING, np.int64)
    loop_slot = np.zeros(MAX_NESTING, np.int64)
    loop_list = np.zeros(MAX_NESTING, np.int64)
    ordinal = np.zeros(MAX_NESTING + 1, np.int64)
    word_at = np.zeros(MAX_WORDS, np.int64)
    word_len = np.zeros(MAX_WORDS, np.int64)
    depth_counts = np.zeros(MAX_DEPTH + 1, np.int64)
    depth_maps = np.zeros(MAX_DEPTH + 1, np.int64)
    seen = np.full(256, -1, np.int64)
    row = row0
    n_frames = starts.shape[0]
    i = first
    while i < n_frames:
        message = messages[i]
        if message < 0:
            status[i] = DECLINED
            i += 1
            continue
        for s in range(fill.shape[0]):
            store(saved, s, at(fill, s))
        for s in range(elements.shape[0]):
            store(saved_elements, s, at(elements, s))
        start = starts[i]
        end = start + lengths[i]
        lim = end
        p = start + payloads[i]
        head_end = start + heads[i]
        for r in range(REGISTERS):
            store(regs, r, 0)
        pc = entries[message]
        level = 0
        ordinal[0] = row
        n_words = 0
        outcome = -1
        while outcome < 0:
            pc8 = pc * 8
            op = at(prog, pc8)
            slot = at(prog, pc8 + 1)
            if op == INT:
                # a size, b flags, c low, d high, e register
                size = at(prog, pc8 + 2)
                flags = at(prog, pc8 + 3)
                if p + size > lim:
                    outcome = DECLINED
                    break
                value = read_int(buf, p, size, flags)
                p += size
                if flags & RANGED and (value < at(prog, pc8 + 4) or value > at(prog, pc8 + 5)):
                    outcome = DECLINED
                    break
                if at(prog, pc8 + 6) >= 0:
                    store(regs, at(prog, pc8 + 6), value)
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), value, 0):
                    outcome = FULL
                    break
                pc += 1
            elif op == RUN or op == RUN_REG or op == RUN_REST:
                # RUN: a size of length, b flags; RUN_REG: a register; all: c content, d least, e most
                if op == RUN:
                    size = at(prog, pc8 + 2)
                    if p + size > lim:
                        outcome = DECLINED
                        break
                    length = read_int(buf, p, size, at(prog, pc8 + 3))
                    p += size
                elif op == RUN_REG:
                    length = at(regs, at(prog, pc8 + 2))
                else:
                    length = lim - p
                if length < 0 or length > lim - p or length < at(prog, pc8 + 5) or length > at(prog, pc8 + 6):
                    outcome = DECLINED
                    break
                content = at(prog, pc8 + 4)
                if content == TEXT:
                    if not is_utf8(buf, p, p + length):
                        outcome = DECLINED
                        break
                elif content >= MSGPACK:
                    if length == 0 and at(prog, pc8 + 7):
                        p += length
                        pc += 1
                        continue
                    if content == NEVER or not is_msgpack(
                        buf, p, p + length, content == MSGPACK_MAP, depth_counts, depth_maps
                    ):
                        outcome = DECLINED
                        break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), p, length):
                    outcome = FULL
                    break
                p += length
                pc += 1
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
                pc += 1
            elif op == END:
                outcome = ACCEPTED if p == end else DECLINED
            elif op == JUMP_IN:
                # a register, b and c values, d target: jumps if the register has one of the values
                value = at(regs, at(prog, pc8 + 2))
                pc = at(prog, pc8 + 5) if value == at(prog, pc8 + 3) or value == at(prog, pc8 + 4) else pc + 1
            elif op == JUMP:
                pc = at(prog, pc8 + 2)
            elif op == EMPTY:
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), 0, 0):
                    outcome = FULL
                    break
                pc += 1
            elif op == SUM_MOST:
                # a and b registers, c most
                if at(regs, at(prog, pc8 + 2)) < 0 or at(regs, at(prog, pc8 + 3)) < 0:
                    outcome = DECLINED
                    break
                if at(regs, at(prog, pc8 + 2)) + at(regs, at(prog, pc8 + 3)) > at(prog, pc8 + 4):
                    outcome = DECLINED
                    break
                pc += 1
            elif op == LIST:
                # a size of count (0: until the range ends; -n: n elements), b flags, c least element, d list, e end target
                size = at(prog, pc8 + 2)
                if size > 0:
                    if p + size > lim:
                        outcome = DECLINED
                        break
                    count = read_int(buf, p, size, at(prog, pc8 + 3))
                    p += size
                    if count < 0 or count > lim - p or count * at(prog, pc8 + 4) > lim - p:
                        outcome = DECLINED
                        break
                elif size < 0:
                    count = -size
                else:
                    count = np.int64(-1)
                if count == 0 or (count < 0 and p >= lim):
                    if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), 0, 0):
                        outcome = FULL
                        break
                    pc = at(prog, pc8 + 6)
                else:
                    loop_pc[level] = pc + 1
                    loop_left[level] = count
                    loop_count[level] = 1
                    loop_slot[level] = slot
                    loop_list[level] = at(prog, pc8 + 5)
                    level += 1
                    store(ordinal, level, elements[at(prog, pc8 + 5)])
                    elements[at(prog, pc8 + 5)] += 1
                    pc += 1
            elif op == NEXT:
                inner = level - 1
                more = p < lim if loop_left[inner] < 0 else loop_count[inner] < loop_left[inner]
                if more:
                    loop_count[inner] += 1
                    store(ordinal, level, elements[loop_list[inner]])
                    elements[loop_list[inner]] += 1
                    pc = loop_pc[inner]
                else:
                    level -= 1
                    if loop_slot[level] >= 0 and not put(
                        out, room, fill, loop_slot[level], at(ordinal, level), loop_count[level], 0
                    ):
                        outcome = FULL
                        break
                    pc += 1
            elif op == BOOL:
                # a lenient
                if p >= lim or (at(buf, p) > 1 and at(prog, pc8 + 2) == 0):
                    outcome = DECLINED
                    break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), 1 if at(buf, p) != 0 else 0, 0):
                    outcome = FULL
                    break
                p += 1
                pc += 1
            elif op == TAGS:
                # slot: count of keys, a table, b slot of keys, c list of keys, d required tag or -1, e register that waives it
                outcome, p = run_tags(
                    tags, at(prog, pc8 + 2), slot, at(prog, pc8 + 3), at(prog, pc8 + 4), at(prog, pc8 + 5), at(prog, pc8 + 6), seen, i,
                    buf, p, head_end, at(ordinal, level), out, room, fill, elements, regs,
                )  # fmt: skip
                pc += 1
            elif op == CELLS:
                # slot: count, a table, b first slot of (fid, type, long, double, text, bytes), c list, d number that needs a closer look
                outcome = run_cells(
                    cells, at(prog, pc8 + 2), slot, at(prog, pc8 + 3), at(prog, pc8 + 4), at(prog, pc8 + 5),
                    buf, p, lim, at(ordinal, level), out, room, fill, elements,
                )  # fmt: skip
                p = lim
                pc += 1
            elif op == BODY:
                # a exactly or -1, b most or -1: the views that follow read it again
                size = lim - p
                if (at(prog, pc8 + 2) >= 0 and size != at(prog, pc8 + 2)) or (
                    at(prog, pc8 + 3) >= 0 and size > at(prog, pc8 + 3)
                ):
                    outcome = DECLINED
                    break
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), p, size):
                    outcome = FULL
                    break
                pc += 1
            elif op == IF_REG:
                # a register, b target: jumps if it is not zero
                pc = at(prog, pc8 + 3) if at(regs, at(prog, pc8 + 2)) != 0 else pc + 1
            elif op == IF_EMPTY:
                # a target: jumps if nothing is left
                pc = at(prog, pc8 + 2) if p >= lim else pc + 1
            elif op == END_VIEWS:
                # the views were skipped: the body counts as read
                p = lim
                pc += 1
            elif op == HEAD_REACHES:
                # a size, b target: jumps if the head is shorter; sets registers to zero in any case by not touching them
                pc = at(prog, pc8 + 3) if head_end - start < at(prog, pc8 + 2) else pc + 1
            elif op == IF_LEFT:
                # a target: jumps if nothing is left
                pc = at(prog, pc8 + 2) if p >= lim else pc + 1
            elif op == BACK:
                # a distance, b size: a field of the frame header, which lies before the payload
                if slot >= 0 and not put(
                    out, room, fill, slot, at(ordinal, level), p - at(prog, pc8 + 2), at(prog, pc8 + 3)
                ):
                    outcome = FULL
                    break
                pc += 1
            elif op == DECLINE_IF_LESS:
                # a bytes: declines if fewer are left
                if lim - p < at(prog, pc8 + 2):
                    outcome = DECLINED
                    break
                pc += 1
            elif op == LINE:
                # a separator, b end, c window, d fewest, e most
                stop = min(lim, p + at(prog, pc8 + 4))
                q = p
                n_words = 0
                word_at[0] = p
                found = False
                while q < stop:
                    c = at(buf, q)
                    if c == at(prog, pc8 + 3):
                        found = True
                        break
                    if c == at(prog, pc8 + 2):
                        word_len[n_words] = q - word_at[n_words]
                        n_words += 1
                        if n_words >= MAX_WORDS:
                            break
                        word_at[n_words] = q + 1
                    q += 1
                if not found:
                    outcome = DECLINED
                    break
                word_len[n_words] = q - word_at[n_words]
                n_words += 1
                if n_words < at(prog, pc8 + 5) or n_words > at(prog, pc8 + 6):
                    outcome = DECLINED
                    break
                p = q + 1
                pc += 1
            elif op == WORD_CODE:
                # finds the message whose word is the first one
                found_message = np.int64(-1)
                for m in range(words.shape[0]):
                    if words[m, 1] == word_len[0]:
                        same = True
                        for k in range(word_len[0]):
                            if word_bytes[words[m, 0] + k] != buf[word_at[0] + k]:
                                same = False
                                break
                        if same:
                            found_message = m
                            break
                if found_message < 0:
                    outcome = DECLINED
                    break
                message = words[found_message, 2]
                pc = words[found_message, 3]
            elif op == WORD:
                # a word, b automaton, c most, d flags (1 optional, 2 number, 4 forbidden), e low, f high
                w = at(prog, pc8 + 2)
                flags = at(prog, pc8 + 5)
                length = word_len[w] if w < n_words else 0
                if length == 0 and flags & 1:
                    pc += 1
                    continue
                if w >= n_words or length == 0 or flags & 4 or length > at(prog, pc8 + 4):
                    outcome = DECLINED
                    break
                state = dfa_accept[at(prog, pc8 + 3), 0]
                value = np.int64(0)
                for k in range(word_at[w], word_at[w] + length):
                    c = at(buf, k)
                    state = dfa[state, c]
                    if state == 0:
                        break
                    value = value * 10 + np.int64(c) - 48
                if state == 0 or dfa_accept[state, 1] == 0:
                    outcome = DECLINED
                    break
                if flags & 2:
                    if value < at(prog, pc8 + 6) or value > at(prog, pc8 + 7):
                        outcome = DECLINED
                        break
                else:
                    value = word_at[w]
                if slot >= 0 and not put(out, room, fill, slot, at(ordinal, level), value, length):
                    outcome = FULL
                    break
                pc += 1
            else:
                outcome = DECLINED
        if outcome == ACCEPTED:
            status[i] = ACCEPTED
            row_message[row] = message
            row += 1
            i += 1
        else:
            fill[:] = saved
            elements[:] = saved_elements
            if outcome == FULL:
                return i, row
            status[i] = DECLINED
            i += 1
    return i, row


@njit(cache=True, nogil=True)
def run_tags(
    tags, table, slot, key_slot, key_list, required, waiver, seen, frame,
    buf, p, end, row, out, room, fill, elements, regs,
):  # fmt: skip
    """A tag table up to ``end``; ``tags`` from ``table`` on has six numbers per code: kind, size, flags, slot, most, register."""
    count = 0
    found_required = required < 0
    while p < end:
        code = at(buf, p)
        p += 1
        tag = table + np.int64(code) * 6
        kind = at(tags, tag)
        if kind == KIND_ODD or seen[code] == frame:
            return DECLINED, p
        seen[code] = frame
        if code == required:
            found_required = True
        tag_slot = at(tags, tag + 3)
        if kind == KIND_FLAG:
            if tag_slot >= 0 and not put(out, room, fill, tag_slot, row, 1, 0):
                return FULL, p
        else:
            size = at(tags, tag + 1)
            if p + size > end:
                return DECLINED, p
            value = read_int(buf, p, size, at(tags, tag + 2))
            p += size
            length = np.int64(0)
            if kind == KIND_TEXT:
                length = value
                if length > at(tags, tag + 4) or length > end - p or not is_utf8(buf, p, p + length):
                    return DECLINED, p
                value = p
                p += length
            if at(tags, tag + 5) >= 0:
                regs[at(tags, tag + 5)] = value
            if tag_slot >= 0 and not put(out, room, fill, tag_slot, row, value, length):
                return FULL, p
        if key_slot >= 0:
            if not put(out, room, fill, key_slot, elements[key_list], code, 0):
                return FULL, p
            elements[key_list] += 1
        count += 1
    if not found_required and not (waiver >= 0 and regs[waiver] > 0):
        return DECLINED, p
    if slot >= 0 and not put(out, room, fill, slot, row, count, 0):
        return FULL, p
    return -1, p


@njit(cache=True, nogil=True)
def run_cells(
    cells, table, slot, first, cell_list, closer,
    buf, p, end, row, out, room, fill, elements,
):  # fmt: skip
    """Typed, numbered values until ``end``; ``cells`` from ``table`` on: head size, flags, id shift, type shift, type mask, flag mask,
    id max, and then four numbers per type: kind, size, flags, most."""
    id_shift = at(cells, table + 2)
    type_shift = at(cells, table + 3)
    type_mask = at(cells, table + 4)
    flag_mask = at(cells, table + 5)
    id_max = at(cells, table + 6)
    head_size = at(cells, table)
    head_flags = at(cells, table + 1)
    count = 0
    while p < end:
        if p + head_size > end:
            return DECLINED
        head = read_int(buf, p, head_size, head_flags)
        p += head_size
        fid = head >> id_shift
        code = (head >> type_shift) & type_mask
        if head & flag_mask or fid > id_max:
            return DECLINED
        kind_at = table + 7 + 4 * code
        kind = at(cells, kind_at)
        size = at(cells, kind_at + 1)
        if kind == KIND_ODD or p + size > end:
            return DECLINED
        value = read_int(buf, p, size, at(cells, kind_at + 2))
        p += size
        element = elements[cell_list]
        if kind == KIND_INT:
            if first >= 0 and not put(out, room, fill, first + 2, element, value, 0):
                return FULL
        elif kind == KIND_FLOAT:
            if size == 4:
                if value & 0x7F800000 == 0x7F800000 and value & 0x7FFFFF:
                    return DECLINED
            elif value & 0x7FF0000000000000 == 0x7FF0000000000000 and value & 0xFFFFFFFFFFFFF:
                return DECLINED
            if first >= 0 and not put(out, room, fill, first + 3, element, value, size):
                return FULL
        else:
            if value > at(cells, kind_at + 3) or value > end - p:
                return DECLINED
            if kind == KIND_TEXT:
                if not is_utf8(buf, p, p + value):
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
        elements[cell_list] += 1
        count += 1
    if slot >= 0 and not put(out, room, fill, slot, row, count, 0):
        return FULL
    return -1


@njit(cache=True, nogil=True)
def gather(buf, entries, offsets, data):
    """Copies the spans of a slot one after the other into ``data``."""
    for k in range(entries.shape[0] // 3):
        copy(data, at(offsets, k), buf, at(entries, 3 * k), at(entries, 3 * k + 1))
