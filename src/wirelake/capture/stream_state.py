"""What is remembered about streams between windows, files and runs: arrays for the numbers, since there may be many.

A stream is one direction of a connection; the streams of the connection in slot ``i`` have the numbers ``2 i`` and
``2 i + 1``. The snapshot holds plain values and bytes only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..codec.stream import Lost
from .identify import Chooser
from .websocket import Unwrapper

Ints = NDArray[np.int64]

UNDECIDED, PLAIN, WEBSOCKET, ENCRYPTED, FOREIGN = range(5)
NUMBERS = ("bytes_in", "bytes_decoded", "bytes_quarantined", "bytes_missing", "messages", "next_offset", "proved")
"""What is counted per stream. ``next_offset`` is that of the first byte that has not come yet."""
_FIRST = {name: -1 if name == "proved" else 0 for name in NUMBERS}
MARK = 4
"""A mark says until which pending byte a chunk reaches, and its time, position and capture."""
NO_MARKS = np.empty((0, MARK), np.int64)


class Entry(NamedTuple):
    """A chunk outside the arrays. ``rule``: empty for bytes of the stream; ``gap`` or another if they are none."""

    stream: int
    data: bytes
    length: int
    ts: int
    position: int
    capture: int
    offset: int = 0
    ends_message: bool = False
    rule: str = ""


@dataclass(slots=True)
class Sealed:
    """A range of an encrypted stream that is not told yet: its beginning, its length, the last mark."""

    data: bytes = b""
    length: int = 0
    ts: int = -1
    position: int = 0
    capture: int = 0


@dataclass(slots=True)
class StreamState:
    """One direction in a snapshot."""

    numbers: tuple[int, ...]
    tail: bytes
    marks: Ints
    lost: Lost | None
    unwrapper: Unwrapper | None
    sealed: Sealed | None


@dataclass(slots=True)
class ConnectionState:
    """A connection in a snapshot. ``way`` is the protocol and whether it is within WebSocket messages."""

    kind: int
    way: tuple[str, bool] | None
    capture: int
    chooser: Chooser | None
    waiting: list[Entry]
    streams: tuple[StreamState, StreamState]


@dataclass(slots=True)
class Snapshot:
    """The state at one place of a capture: connections by id, names of captures by number."""

    connections: dict[str, ConnectionState] = field(default_factory=dict)
    captures: dict[int, str] = field(default_factory=dict)

    def only(self, ids: Iterable[str]) -> Snapshot:
        """Restricted to these connections."""
        wanted = set(ids)
        kept = {id_: state for id_, state in self.connections.items() if id_ in wanted}
        used = {number for state in kept.values() for number in _captures(state)}
        return replace(
            self, connections=kept, captures={number: name for number, name in self.captures.items() if number in used}
        )


def _captures(state: ConnectionState) -> Iterable[int]:
    yield state.capture
    yield from (entry.capture for entry in state.waiting)
    for stream in state.streams:
        if len(stream.marks):
            yield from set(stream.marks[:, 3].tolist())
        if stream.sealed is not None:
            yield stream.sealed.capture


class Table:
    """The connections at hand."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.ids: list[str] = []
        self.free: list[int] = []
        self.kind = np.zeros(0, np.int8)
        self.way = np.zeros(0, np.int64)
        self.capture = np.zeros(0, np.int64)
        self.numbers = {name: np.zeros(0, np.int64) for name in NUMBERS}
        self.tails: list[bytes] = []
        self.marks: list[Ints] = []
        self.lost: dict[int, Lost] = {}
        self.unwrappers: dict[int, Unwrapper] = {}
        self.sealed: dict[int, Sealed] = {}
        self.choosers: dict[int, Chooser] = {}
        self.waiting: dict[int, list[Entry]] = {}

    def add(self, id_: str) -> int:
        """A slot for a new connection."""
        if self.free:
            slot = self.free.pop()
            self.ids[slot] = id_
        else:
            slot = len(self.ids)
            self.ids.append(id_)
            self.tails += (b"", b"")
            self.marks += (NO_MARKS, NO_MARKS)
            if slot >= len(self.kind):
                self._grow(max(64, 2 * slot))
        self.slots[id_] = slot
        return slot

    def _grow(self, size: int) -> None:
        self.kind, self.capture = _longer(self.kind, size, UNDECIDED), _longer(self.capture, size, 0)
        self.way = _longer(self.way, size, -1)
        self.numbers = {name: _longer(values, 2 * size, _FIRST[name]) for name, values in self.numbers.items()}

    def remove(self, slot: int) -> None:
        del self.slots[self.ids[slot]]
        self.choosers.pop(slot, None)
        self.waiting.pop(slot, None)
        self.kind[slot], self.way[slot], self.capture[slot] = UNDECIDED, -1, 0
        for name, values in self.numbers.items():
            values[2 * slot : 2 * slot + 2] = _FIRST[name]
        for stream in (2 * slot, 2 * slot + 1):
            self.tails[stream], self.marks[stream] = b"", NO_MARKS
            self.lost.pop(stream, None)
            self.unwrappers.pop(stream, None)
            self.sealed.pop(stream, None)
        self.free.append(slot)

    def pending(self, streams: Ints) -> Ints:
        """Bytes of each stream that nothing was said about yet."""
        tails = self.tails
        counts = np.fromiter((len(tails[s]) for s in streams.tolist()), np.int64, len(streams))
        if self.waiting or self.sealed:
            for i, stream in enumerate(streams.tolist()):
                if stream in self.sealed:
                    counts[i] += self.sealed[stream].length
                counts[i] += sum(
                    entry.length
                    for entry in self.waiting.get(stream // 2, ())
                    if entry.stream == stream and not entry.rule
                )
        return counts

    # --- snapshots

    def state(self, slot: int, way: tuple[str, bool] | None, numbers: list[list[int]]) -> ConnectionState:
        """The state of a connection; ``numbers`` are those of all streams."""
        first = 2 * slot
        return ConnectionState(
            int(self.kind[slot]),
            way,
            int(self.capture[slot]),
            _copied(self.choosers.get(slot)),
            list(self.waiting.get(slot, ())),
            (self._stream(first, numbers[first]), self._stream(first + 1, numbers[first + 1])),
        )

    def _stream(self, stream: int, numbers: list[int]) -> StreamState:
        unwrapper, sealed = self.unwrappers.get(stream), self.sealed.get(stream)
        return StreamState(
            tuple(numbers),
            self.tails[stream],
            self.marks[stream],
            self.lost.get(stream),
            replace(unwrapper) if unwrapper is not None else None,
            replace(sealed) if sealed is not None else None,
        )

    def restore(self, id_: str, state: ConnectionState) -> int:
        slot = self.add(id_)
        self.kind[slot], self.capture[slot] = state.kind, state.capture
        if state.chooser is not None:
            self.choosers[slot] = state.chooser.copy()
        if state.waiting:
            self.waiting[slot] = [entry._replace(stream=2 * slot + entry.stream % 2) for entry in state.waiting]
        for stream, kept in zip((2 * slot, 2 * slot + 1), state.streams, strict=True):
            for values, number in zip(self.numbers.values(), kept.numbers, strict=True):
                values[stream] = number
            self.tails[stream], self.marks[stream] = kept.tail, kept.marks
            if kept.lost is not None:
                self.lost[stream] = kept.lost
            if kept.unwrapper is not None:
                self.unwrappers[stream] = replace(kept.unwrapper)
            if kept.sealed is not None:
                self.sealed[stream] = replace(kept.sealed)
        return slot


def _copied(chooser: Chooser | None) -> Chooser | None:
    return chooser.copy() if chooser is not None else None


def _longer(values: NDArray[Any], size: int, first: int) -> NDArray[Any]:
    longer = np.full(size, first, values.dtype)
    longer[: len(values)] = values
    return longer
