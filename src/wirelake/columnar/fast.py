"""Frames through the kernel: what it accepts as Arrow columns, what it declines as a list."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..kernels import columns as k
from ..kernels import frames as f
from ..spec.resolve import Layout
from .batch import Filled
from .lower import Lowering, Program

Ints = NDArray[np.int64]


@lru_cache(maxsize=128)
def fast_for(layout: Layout, wanted: tuple[str, ...], undecided: tuple[Layout, ...]) -> Fast:
    return Fast(Lowering(layout, wanted, undecided).lower())


class Fast:
    """The kernel with one layout and one choice of columns."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.growth = 1

    def walk(self, buf: NDArray[np.uint8], start: int, end: int, most: int) -> tuple[Frames, int, int]:
        """Frames from ``start`` on by their headers alone; where that ends, and why (frames.GOOD, SHORT or ODD)."""
        frames = Frames.empty(most)
        p = self.program
        count, position, outcome = f.walk_frames(
            p.parts, p.magic, p.codes, p.code_heads, buf, start, end, *frames.arrays()
        )
        return frames.head(count), position, outcome

    def judge(self, buf: NDArray[np.uint8], starts: Ints, lengths: Ints) -> Frames:
        """Frames whose boundaries are given."""
        frames = Frames.of(starts, lengths)
        p = self.program
        f.judge_frames(p.parts, p.magic, p.codes, p.code_heads, buf, *frames.arrays())
        return frames

    def decode(self, buf: NDArray[np.uint8], frames: Frames, first: int) -> tuple[Filled, NDArray[np.int8], int]:
        """Decodes from frame ``first`` on: the filled slots, a status per frame, and the first frame that was not looked at."""
        p = self.program
        count = len(frames.starts) - first
        while True:
            cap = np.full(p.n_slots, 3 * count, np.int64)
            cap[p.element_slots] = 3 * (4 * count + 1024) * self.growth
            room = np.cumsum(cap)
            base = room - cap
            out = np.empty(int(cap.sum()), np.int64)
            fill = base.copy()
            elements = np.zeros(max(p.n_lists, 1), np.int64)
            status = np.zeros(len(frames.starts), np.int8)
            row_message = np.empty(count, np.int64)
            stop, rows = k.run_program(
                p.prog, p.entries, p.tags, p.cells, p.dfa, p.dfa_accept, p.words, p.word_bytes,
                buf, frames.starts, frames.lengths, frames.payloads, frames.heads, frames.messages, first,
                out, room, fill, elements, status, row_message, 0,
            )  # fmt: skip
            if stop > first or count == 0:
                break
            self.growth *= 4
        accepted = np.flatnonzero(status[first:stop] == k.ACCEPTED) + first
        filled = Filled(
            p, buf, out, base, fill, elements, rows, row_message,
            frames.lengths[accepted], frames.payloads[accepted], accepted,
        )  # fmt: skip
        return filled, status[first:stop], stop


class Frames:
    """Where frames are, and what their headers say."""

    def __init__(self, starts: Ints, lengths: Ints, payloads: Ints, heads: Ints, messages: Ints) -> None:
        self.starts, self.lengths, self.payloads, self.heads, self.messages = starts, lengths, payloads, heads, messages

    @classmethod
    def empty(cls, most: int) -> Frames:
        return cls(*(np.empty(most, np.int64) for _ in range(5)))

    @classmethod
    def of(cls, starts: Ints, lengths: Ints) -> Frames:
        return cls(starts, lengths, *(np.zeros(len(starts), np.int64) for _ in range(3)))

    def arrays(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        return self.starts, self.lengths, self.payloads, self.heads, self.messages

    def head(self, count: int) -> Frames:
        return Frames(*(array[:count] for array in self.arrays()))
