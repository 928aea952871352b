"""The resumable state of TCP connections: rows of integers, and the bytes of held segments.

A state may come from a file, and the kernels trust the places that rows name. ``check`` refuses a state in which a row
names a place that does not exist.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import tcp_rows as rows
from .chunks import SERVER_DIGITS, Ints, server_of
from .fragments import FragmentsState
from .lazy_kernels import packets, tcp_held
from .read.tap import TapState

# What stays of the name of a connection: the words of its id, and when it began, -1 where there are no times.
NAME_SERVER, NAME_ITSELF, NAME_FIRST_US = range(3)
NAME, ID = 3, 2


def words_of(identity: str) -> tuple[int, int]:
    """Return an id as two numbers, for its server and for itself."""
    itself = int(identity[SERVER_DIGITS:], 16)
    return int(server_of(identity), 16), itself - (itself >> 63 << 64)


def id_of(server: int, itself: int) -> str:
    """Return the id of which these are the words."""
    return f"{server:0{SERVER_DIGITS}x}{itself & (1 << 64) - 1:016x}"


@dataclass(frozen=True, slots=True, eq=False)
class TrackerState:
    """All that a tracker knows at some place of a capture, the bytes of held segments included."""

    ports: tuple[int, ...]
    count: int
    """Of flows; the arrays of a state that is not copied have room for more."""
    keys: NDArray[np.uint64]
    flows: NDArray[np.int64]
    streams: NDArray[np.int64]
    nodes: NDArray[np.int64]
    holding: NDArray[np.int64]
    now: NDArray[np.int64]
    names: NDArray[np.int64]
    held: NDArray[np.uint8]
    taps: TapState = field(default_factory=TapState)
    fragments: FragmentsState = field(default_factory=FragmentsState)

    @classmethod
    def empty(cls) -> TrackerState:
        nothing = np.empty(0, np.int64)
        now = np.zeros(rows.NOW, np.int64)
        now[rows.CLOCK], now[rows.DUE] = -1, rows.NEVER
        return cls(
            (), 0, np.empty(0, np.uint64), nothing, nothing, nothing, nothing, now, nothing, np.empty(0, np.uint8)
        )

    def only(self, ids: Collection[str]) -> TrackerState:
        """Return the state of these connections alone."""
        wanted = ids if isinstance(ids, (set, frozenset, dict)) else set(ids)
        names = _rows(self.names, self.count, NAME)[:, :ID].tolist()
        numbers = [number for number, words in enumerate(names) if id_of(*words) in wanted]
        return replace(self.select(np.array(numbers, np.int64)), taps=self.taps.only(wanted))

    def select(self, numbers: Ints) -> TrackerState:
        """Return a copy with these flows only, numbered anew in the same order."""
        count = self.count
        streams = _rows(self.streams, count, 2 * rows.STREAM)[numbers].reshape(-1)
        holding = self._holding_of(numbers)
        nodes = np.empty(int(streams[holding + rows.HELD].sum()) * rows.NODE, np.int64)
        held = np.empty(int(streams[holding + rows.HELD_BYTES].sum()), np.uint8)
        tcp_held.copy_held(self.held, streams, self.nodes, holding, len(holding), nodes, held)
        now = self.now.copy()
        now[rows.SEED] = 0
        now[rows.ELSEWHERE] += int(now[rows.USED]) - len(nodes) // rows.NODE
        now[rows.ELSEWHERE_BYTES] += int(now[rows.HELD_TOTAL]) - len(held)
        now[rows.HOLDING], now[rows.USED], now[rows.HELD_TOTAL] = len(holding), len(nodes) // rows.NODE, len(held)
        return replace(
            self,
            count=len(numbers),
            keys=_rows(self.keys, count, packets.KEY)[numbers].reshape(-1),
            flows=_rows(self.flows, count, rows.FLOW)[numbers].reshape(-1),
            streams=streams,
            nodes=nodes,
            holding=holding,
            now=now,
            names=_rows(self.names, count, NAME)[numbers].reshape(-1),
            held=held,
        )

    def _holding_of(self, numbers: Ints) -> Ints:
        """Return the streams of these flows that hold segments, by their new place."""
        row = 2 * rows.STREAM
        new_number = np.full(self.count, -1, np.int64)
        new_number[numbers] = np.arange(len(numbers))
        holding = self.holding[: int(self.now[rows.HOLDING])]
        holding = holding[new_number[holding // row] >= 0]
        moved: Ints = new_number[holding // row] * row + holding % row
        return moved

    def check(self) -> None:
        """Raise ValueError if the rows do not fit together; ``select`` makes only states that do."""
        count = self.count
        sizes = (
            len(self.keys) == count * packets.KEY
            and len(self.names) == count * NAME
            and len(self.flows) == count * rows.FLOW
            and len(self.streams) == 2 * count * rows.STREAM
            and len(self.now) == rows.NOW
            and len(self.holding) == len(np.unique(self.holding)) == self.now[rows.HOLDING]
            and len(self.nodes) == self.now[rows.USED] * rows.NODE
            and len(self.held) == self.now[rows.HELD_TOTAL]
        )
        holding = self.holding
        is_stream = (holding >= 0) & (holding < len(self.streams)) & (holding % rows.STREAM == 0)
        if not sizes or not is_stream.all() or not self._nodes_fit():
            raise ValueError("the state of TCP connections does not fit together")

    def _nodes_fit(self) -> bool:
        """Return whether the lists of held segments lie one after the other, in order, and their bytes in ``held``."""
        streams, nodes = self.streams.reshape(-1, rows.STREAM), self.nodes.reshape(-1, rows.NODE)
        which = self.holding // rows.STREAM
        held = streams[which, rows.HELD]
        if (held <= 0).any() or (held > len(nodes)).any() or int(held.sum()) != len(nodes):
            return False
        behind = np.cumsum(held)
        first = behind - held
        bytes_before = np.append(0, np.cumsum(nodes[:, rows.SIZE]))
        expected = np.zeros_like(streams)
        expected[:, [rows.HEAD, rows.TAIL]] = -1
        expected[which, rows.HEAD] = first * rows.NODE
        expected[which, rows.TAIL] = (behind - 1) * rows.NODE
        expected[which, rows.HELD] = held
        expected[which, rows.HELD_BYTES] = bytes_before[behind] - bytes_before[first]
        following = np.arange(1, len(nodes) + 1) * rows.NODE
        following[behind - 1] = -1
        lists = [rows.HEAD, rows.TAIL, rows.HELD, rows.HELD_BYTES]
        return bool(
            (streams[:, lists] == expected[:, lists]).all()
            and (nodes[:, rows.FOLLOWING] == following).all()
            and self._held_fits(nodes)
        )

    def _held_fits(self, nodes: Ints) -> bool:
        size, place, offset = nodes[:, rows.SIZE], nodes[:, rows.PLACE], nodes[:, rows.OFFSET]
        is_within = (size == 0) | ((place >= 0) & (place <= len(self.held) - size))
        # Only a FIN has no bytes, and it is the last of its list.
        is_ordered = (nodes[:-1, rows.FOLLOWING] < 0) | ((size[:-1] > 0) & (offset[:-1] + size[:-1] <= offset[1:]))
        return bool((size >= 0).all() and is_within.all() and is_ordered.all() and int(size.sum()) == len(self.held))


def _rows(values: NDArray[Any], count: int, width: int) -> NDArray[Any]:
    return values[: count * width].reshape(-1, width)
