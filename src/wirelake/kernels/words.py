"""Header lines: words between separators, patterns as tables of states, digits."""

from __future__ import annotations

import numpy as np
from numba import njit

from .memory import BLOCK, at, equal_bits, lowest_bit, store
from .numbers import lowest

MAX_WORDS = 16


@njit(cache=True, nogil=True)
def split_line(buf, size_of_buf, p, stop, separator, end, word_at, word_len):
    """Cuts a line into words: how many there are, and where the line ends; 0 words if it has no end or too many.

    Looks for separators in 32 bytes at a time, and in single bytes at the end of the buffer.
    """
    n_words = 0
    begin = p
    while p < stop:
        if p + BLOCK <= size_of_buf:
            width = min(stop - p, BLOCK)
            separators = equal_bits(buf, p, separator) & lowest(width)
            ends = equal_bits(buf, p, end) & lowest(width)
        else:
            width = np.int64(1)
            separators = np.uint64(at(buf, p) == separator)
            ends = np.uint64(at(buf, p) == end)
        if ends:
            # Only those before the first end count.
            separators &= lowest(lowest_bit(ends))
        while separators:
            here = p + lowest_bit(separators)
            separators &= separators - np.uint64(1)
            store(word_at, n_words, begin)
            store(word_len, n_words, here - begin)
            begin = here + 1
            n_words += 1
            if n_words == MAX_WORDS:
                return 0, p
        if ends:
            here = p + lowest_bit(ends)
            store(word_at, n_words, begin)
            store(word_len, n_words, here - begin)
            return n_words + 1, here + 1
        p += width
    return 0, p


@njit(cache=True, nogil=True)
def same_word(buf, start, length, words, n_messages, word_bytes):
    """Which of the words this is, or -1. ``words`` has four numbers each: position, length, message, program."""
    for m in range(n_messages):
        if at(words, 4 * m + 1) == length:
            place = at(words, 4 * m)
            k = 0
            while k < length and at(word_bytes, place + k) == at(buf, start + k):
                k += 1
            if k == length:
                return m
    return -1


@njit(cache=True, nogil=True)
def matches(buf, p, length, dfa, pattern):
    """Whether a word matches a pattern: its first state, and its length if each place has its own set of bytes, else 0.

    States are numbered by 256 and stand in the table as such; 0 is dead, the lowest bit means "may end here".
    """
    state = at(pattern, 0)
    chain = at(pattern, 1)
    if chain > 0:
        # Every byte can be looked up at once: the state at each place is known before.
        if length != chain:
            return False
        dead = 0
        for k in range(chain):
            dead |= at(dfa, state + 256 * k + np.int64(at(buf, p + k))) == 0
        return dead == 0
    state = np.int64(state)
    for k in range(p, p + length):
        state = np.int64(at(dfa, (state & ~1) + np.int64(at(buf, k))))
    return state & 1 != 0


@njit(cache=True, nogil=True)
def decimal(buf, p, length):
    """The number that these digits are; of more than 18 the lowest that is too large."""
    if length > 18:
        return np.int64(1) << np.int64(62)
    value = np.int64(0)
    for k in range(p, p + length):
        value = value * 10 + np.int64(at(buf, k)) - 48
    return value
