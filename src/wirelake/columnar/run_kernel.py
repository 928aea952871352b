"""Frames through the kernel: what it accepts as Arrow columns, what it declines as a list."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..kernels import columns as k
from ..kernels import frames as f
from ..spec.resolve import Layout
from .automaton import Unsupported
from .kernel_program import Lowering, Program
from .to_arrow import Filled

Ints = NDArray[np.int64]
Status = NDArray[np.int8]
Bools = NDArray[np.bool_]
_MAX_GROWTH = 16


@lru_cache(maxsize=128)
def fast_for(layout: Layout, wanted: tuple[str, ...], undecided: tuple[Layout, ...]) -> Fast | None:
    """Return the kernel with its program; None if it does not know how such frames are told apart."""
    try:
        return Fast(Lowering(layout, wanted, undecided).lower())
    except Unsupported:
        return None


class Fast:
    """The kernel with one layout and one choice of columns."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.growth = 1
        self.typical_length = 16

    def ranges(
        self, buf: NDArray[np.uint8], starts: Ints, ends: Ints, final: Bools, may_search: bool, most: int
    ) -> Walked:
        """Finds and decodes the frames of many ranges of a buffer, ``most`` frames at most."""
        searches = np.where(final, f.SEARCH_FINAL, f.SEARCH) * (may_search and self.program.can_search)
        size = int((ends - starts).sum())
        frames = Frames.empty(max(1, min(most, size * 5 // (4 * self.typical_length) + 64)))
        while True:
            slots = _Slots(self.program, len(frames.starts), self.growth)
            walked, is_full = slots.run_ranges(buf, frames, starts, ends, searches)
            if not is_full or not self._grow() or walked.count:
                break
        if is_full and not walked.count:
            # This frame has more elements than there can be room for.
            slots.status[0] = k.DECLINED
            walked.take_first(frames)
        walked.filled, walked.status = slots.filled(buf, frames, 0, walked.count), slots.status[: walked.count]
        if walked.count:
            self.typical_length = max(1, int(frames.lengths[: walked.count].sum()) // walked.count)
        return walked

    def decode(self, buf: NDArray[np.uint8], starts: Ints, lengths: Ints, first: int) -> tuple[Filled, Status, int]:
        """Decode given frames from ``first`` on: what they hold, a status for each, and the first that is left."""
        frames = Frames.of(starts, lengths)
        while True:
            slots = _Slots(self.program, len(starts), self.growth)
            stop, is_full = slots.run(buf, frames, first)
            if not is_full or not self._grow() or stop > first:
                break
        if is_full and stop == first:
            # This frame has more elements than there can be room for.
            slots.status[first] = k.DECLINED
            stop = first + 1
        return slots.filled(buf, frames, first, stop), slots.status[first:stop], stop

    def _grow(self) -> bool:
        """Makes more room for elements of lists from now on; false if there is too much already."""
        if self.growth >= _MAX_GROWTH:
            return False
        self.growth *= 2
        return True


class _Slots:
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
        self.message_rows = np.zeros(len(p.names), np.int64)
        self.saved = np.empty_like(self.fill)
        self.saved_elements = np.empty_like(self.elements)
        self.scratch = k.new_scratch()
        self.rows = 0

    def run(self, buf: NDArray[np.uint8], frames: Frames, first: int) -> tuple[int, bool]:
        """Decode given frames; return the first that is left over, and whether a column is full there."""
        p = self.program
        stop, self.rows = f.decode_frames(
            p.parts, p.magic, p.codes, p.code_heads,
            p.prog, p.entries, p.tags, p.cells, p.dfa, p.patterns, p.words, p.word_bytes,
            buf, *frames.arrays(), first,
            self.out, self.room, self.fill, self.elements,
            self.status, self.row_message, self.row_padded, self.message_rows,
            self.saved, self.saved_elements, self.scratch,
        )  # fmt: skip
        return stop, stop < len(frames.starts)

    def run_ranges(
        self, buf: NDArray[np.uint8], frames: Frames, starts: Ints, ends: Ints, searches: Ints
    ) -> tuple[Walked, bool]:
        """Finds and decodes frames; says too whether a column was full before they all were decoded."""
        p = self.program
        stops, outcomes, firsts = starts.copy(), np.zeros(len(starts), np.int64), np.zeros(len(starts) + 1, np.int64)
        faults = np.empty(5 * len(frames.starts), np.int64)
        count, self.rows, begun, n_faults, is_full = f.decode_ranges(
            p.parts, p.magic, p.codes, p.code_heads,
            p.prog, p.entries, p.tags, p.cells, p.dfa, p.patterns, p.words, p.word_bytes,
            buf, stops, ends, searches, outcomes, firsts, faults, *frames.arrays(),
            self.out, self.room, self.fill, self.elements,
            self.status, self.row_message, self.row_padded, self.message_rows,
            self.saved, self.saved_elements, self.scratch,
        )  # fmt: skip
        firsts[begun:] = len(frames.starts) if is_full else count
        walked = Walked(frames.starts, frames.lengths, count, firsts, stops, outcomes)
        walked.faults = faults.reshape(-1, 5)[:n_faults].tolist()
        if is_full:
            walked.take_back(starts)
        return walked, is_full

    def filled(self, buf: NDArray[np.uint8], frames: Frames, first: int, stop: int) -> Filled:
        accepted: Ints | slice = slice(first, stop)
        if self.rows < stop - first:
            accepted = np.flatnonzero(self.status[first:stop] == k.ACCEPTED) + first
        return Filled(
            self.program, buf, self.out, self.base, self.fill, self.elements,
            self.rows, self.row_message, self.row_padded, self.message_rows,
            frames.lengths[accepted], frames.payloads[accepted], accepted,
        )  # fmt: skip


class Walked:
    """The frames of many ranges, what they hold, and how far each range got.

    ``outcomes``: ``GOOD`` at the end of the range or where there was no more room, ``SHORT`` where bytes are missing,
    ``ODD`` where the next header must be looked at closely.
    """

    filled: Filled
    status: Status
    faults: list[list[int]]
    """The range, first byte, end and length of each broken frame, and the number of the next one."""

    def __init__(self, starts: Ints, lengths: Ints, count: int, firsts: Ints, stops: Ints, outcomes: Ints) -> None:
        self.starts, self.lengths, self.count = starts[:count], lengths[:count], count
        self.firsts, self.stops, self.outcomes = firsts, stops, outcomes
        self._every = starts

    @property
    def is_good(self) -> NDArray[np.bool_]:
        return np.equal(self.outcomes, f.GOOD)

    @property
    def is_short(self) -> NDArray[np.bool_]:
        return np.equal(self.outcomes, f.SHORT)

    @property
    def range_of(self) -> Ints:
        """The range of each frame."""
        if len(self.stops) == 1:
            return np.zeros(self.count, np.int64)
        return np.repeat(np.arange(len(self.stops)), np.diff(self.firsts))

    def take_back(self, begins: Ints) -> None:
        """Forgets the frames that were found but not decoded: their ranges go on at the first of them."""
        which = max(int(np.searchsorted(self.firsts, self.count, side="right")) - 1, 0)
        self.stops[which] = self._every[self.count]
        self.stops[which + 1 :] = begins[which + 1 :]
        self.outcomes[which:] = f.GOOD
        self.firsts[which + 1 :] = self.count

    def take_first(self, frames: Frames) -> None:
        """Takes the first frame after all."""
        which = int(np.argmax(self.stops == frames.starts[0]))
        self.starts, self.lengths, self.count = frames.starts[:1], frames.lengths[:1], 1
        self.firsts[which + 1 :] = 1
        self.stops[which] += frames.lengths[0]


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
