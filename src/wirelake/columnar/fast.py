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
Status = NDArray[np.int8]
_STRIDE = 4096
_FULL = -1
_MAX_GROWTH = 16


@lru_cache(maxsize=128)
def fast_for(layout: Layout, wanted: tuple[str, ...], undecided: tuple[Layout, ...]) -> Fast:
    return Fast(Lowering(layout, wanted, undecided).lower())


class Fast:
    """The kernel with one layout and one choice of columns."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.growth = 1

    def stream(self, buf: NDArray[np.uint8], start: int, end: int, most: int) -> tuple[Frames, Filled, Status, int]:
        """Finds and decodes frames from ``start`` on: the frames, what they hold, a status for each, and where it ended.

        It ends at the first header that is not good, at a full column, or after ``most`` frames. Headers are walked a
        few thousand at a time, so that the frames are still in the cache when they are decoded.
        """
        p = self.program
        most = max(1, min(most, (end - start) // 2))
        while True:
            frames = Frames.empty(most)
            work = _Work(p, most, self.growth)
            count, position, outcome = 0, start, f.GOOD
            while count < most and outcome == f.GOOD and position < end:
                ahead = min(_STRIDE, most - count)
                found, position, outcome = f.read_frames(
                    p.parts, p.magic, p.codes, p.code_heads, buf, position, end, False,
                    *frames.part(count, count + ahead),
                )  # fmt: skip
                stop = work.run(buf, frames.head(count + found), count)
                if stop < count + found:
                    position, outcome = int(frames.starts[stop]), _FULL
                count = stop
            if outcome != _FULL or not self._grow() or count:
                break
        if outcome == _FULL and count == 0:
            count, position = 1, work.give_up(frames, 0)
        frames = frames.head(count)
        return frames, work.filled(buf, frames, 0), work.status[:count], position

    def judge(self, buf: NDArray[np.uint8], starts: Ints, lengths: Ints) -> Frames:
        """Frames whose boundaries are given."""
        frames = Frames.of(starts, lengths)
        p = self.program
        f.read_frames(p.parts, p.magic, p.codes, p.code_heads, buf, 0, 0, True, *frames.arrays())
        return frames

    def decode(self, buf: NDArray[np.uint8], frames: Frames, first: int) -> tuple[Filled, Status, int]:
        """Decodes given frames from ``first`` on: what they hold, a status for each, and the first that is left over."""
        count = len(frames.starts)
        while True:
            work = _Work(self.program, count, self.growth)
            stop = work.run(buf, frames, first)
            if stop == count or not self._grow() or stop > first:
                break
        if stop == first < count:
            work.give_up(frames, first)
            stop = first + 1
        return work.filled(buf, frames.head(stop), first), work.status[first:stop], stop

    def _grow(self) -> bool:
        """Makes more room for elements of lists from now on; false if there is too much already."""
        if self.growth >= _MAX_GROWTH:
            return False
        self.growth *= 2
        return True


class _Work:
    """The arrays that the kernel fills. Pages that no entry reaches are never touched."""

    def __init__(self, program: Program, most: int, growth: int) -> None:
        p = self.program = program
        cap = np.full(p.n_slots, 3 * most, np.int64)
        cap[p.element_slots] = 3 * (4 * most + 1024) * growth
        self.room = np.cumsum(cap)
        self.base = self.room - cap
        self.out = np.empty(int(cap.sum()), np.int64)
        self.fill = self.base.copy()
        self.elements = np.zeros(max(p.n_lists, 1), np.int64)
        self.status = np.zeros(most, np.int8)
        self.row_message = np.empty(most, np.int64)
        self.row_padded = np.empty(most, np.int8)
        self.saved = np.empty_like(self.fill)
        self.saved_elements = np.empty_like(self.elements)
        self.scratch = k.new_scratch()
        self.rows = 0

    def run(self, buf: NDArray[np.uint8], frames: Frames, first: int) -> int:
        p = self.program
        stop, self.rows = k.run_program(
            p.prog, p.entries, p.tags, p.cells, p.dfa, p.patterns, p.words, p.word_bytes,
            buf, *frames.arrays(), first, len(frames.starts),
            self.out, self.room, self.fill, self.elements, self.status, self.row_message, self.row_padded,
            self.rows,
            self.saved, self.saved_elements, self.scratch,
        )  # fmt: skip
        return int(stop)

    def give_up(self, frames: Frames, index: int) -> int:
        """Declines a frame with more elements than there can be room for; gives the position behind it."""
        self.status[index] = k.DECLINED
        return int(frames.starts[index] + frames.lengths[index])

    def filled(self, buf: NDArray[np.uint8], frames: Frames, first: int) -> Filled:
        stop = len(frames.starts)
        accepted: Ints | slice = slice(first, stop)
        if self.rows < stop - first:
            accepted = np.flatnonzero(self.status[first:stop] == k.ACCEPTED) + first
        return Filled(
            self.program, buf, self.out, self.base, self.fill, self.elements, self.rows, self.row_message,
            self.row_padded, frames.lengths[accepted], frames.payloads[accepted], accepted,
        )  # fmt: skip


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

    def part(self, first: int, stop: int) -> list[Ints]:
        return [array[first:stop] for array in self.arrays()]

    def head(self, count: int) -> Frames:
        return Frames(*(array[:count] for array in self.arrays()))
