"""The streams at hand: arrays for the numbers, since there may be many connections.

A stream is one direction of a connection; the streams of the connection in slot ``i`` have the numbers ``2 i`` and
``2 i + 1``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.stream import Lost
from .chunks import DIRECTIONS, Ints
from .identify import Identifier, Kind
from .state import NO_ARRIVALS, ConnectionState, EncryptedRange, LooseChunk, SearchState, StreamNumbers, StreamState
from .websocket import Unwrapper

NUMBERS = tuple(number.name for number in fields(StreamNumbers))
_FIRST = {name: -1 if name == "proved" else 0 for name in NUMBERS}
NO_READER = -1


class StreamTable:
    """The connections that have not ended, by slot, and their streams."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.ids: list[str] = []
        self.free: list[int] = []
        self.kind = np.zeros(0, np.int8)
        self.reader = np.zeros(0, np.int64)
        """The number of the protocol reader of each connection."""
        self.capture = np.zeros(0, np.int64)
        self.numbers = {name: np.zeros(0, np.int64) for name in NUMBERS}
        self.pending: list[bytes] = []
        self.arrivals: list[Ints] = []
        self.searches: dict[int, Lost] = {}
        self.unwrappers: dict[int, Unwrapper] = {}
        self.encrypted: dict[int, EncryptedRange] = {}
        self.identifiers: dict[int, Identifier] = {}
        self.waiting: dict[int, list[LooseChunk]] = {}
        """Chunks of connections that are not identified yet."""
        self.accounted_undecided: set[int] = set()
        """Connections that were accounted for before it was known what they are."""
        self.captures = [""]
        """The names of captures by number."""

    def name(self, stream: int) -> str:
        return f"{self.ids[stream // 2]} {DIRECTIONS[stream % 2]}"

    def add(self, id_: str) -> int:
        """Return a slot for a new connection."""
        if self.free:
            slot = self.free.pop()
            self.ids[slot] = id_
        else:
            slot = len(self.ids)
            self.ids.append(id_)
            self.pending += (b"", b"")
            self.arrivals += (NO_ARRIVALS, NO_ARRIVALS)
            if slot >= len(self.kind):
                self._grow(max(64, 2 * slot))
        self.slots[id_] = slot
        return slot

    def _grow(self, size: int) -> None:
        self.kind, self.capture = _longer(self.kind, size, Kind.UNDECIDED), _longer(self.capture, size, 0)
        self.reader = _longer(self.reader, size, NO_READER)
        self.numbers = {name: _longer(values, 2 * size, _FIRST[name]) for name, values in self.numbers.items()}

    def remove(self, slot: int) -> None:
        del self.slots[self.ids[slot]]
        self.identifiers.pop(slot, None)
        self.waiting.pop(slot, None)
        self.accounted_undecided.discard(slot)
        self.kind[slot], self.reader[slot], self.capture[slot] = Kind.UNDECIDED, NO_READER, 0
        for name, values in self.numbers.items():
            values[2 * slot : 2 * slot + 2] = _FIRST[name]
        for stream in streams_of(slot):
            self.pending[stream], self.arrivals[stream] = b"", NO_ARRIVALS
            self.searches.pop(stream, None)
            self.unwrappers.pop(stream, None)
            self.encrypted.pop(stream, None)
        self.free.append(slot)

    def bytes_pending(self, streams: Ints) -> Ints:
        """Return how many bytes of each stream are neither decoded nor quarantined yet."""
        pending = self.pending
        counts = np.fromiter((len(pending[stream]) for stream in streams.tolist()), np.int64, len(streams))
        if self.waiting or self.encrypted:
            counts += np.fromiter(map(self._set_aside, streams.tolist()), np.int64, len(streams))
        return counts

    def _set_aside(self, stream: int) -> int:
        encrypted = self.encrypted.get(stream)
        waiting = self.waiting.get(stream // 2, ())
        size = sum(chunk.length for chunk in waiting if chunk.stream == stream and chunk.rule != "gap")
        return size + (encrypted.length if encrypted is not None else 0)

    # --- state

    def states(self, protocols: list[str]) -> Iterator[tuple[str, ConnectionState]]:
        """Yield the state of each connection; ``protocols`` are the names of the protocol readers by number."""
        numbers = np.stack(list(self.numbers.values()), axis=1).tolist()
        for id_, slot in self.slots.items():
            first, second = (self._stream(stream, numbers[stream]) for stream in streams_of(slot))
            reader, identifier = int(self.reader[slot]), self.identifiers.get(slot)
            state = ConnectionState(
                int(self.kind[slot]),
                protocols[reader] if reader != NO_READER else "",
                int(self.capture[slot]),
                identifier.copy() if identifier is not None else None,
                list(self.waiting.get(slot, ())),
                (first, second),
            )
            yield id_, state

    def _stream(self, stream: int, numbers: list[int]) -> StreamState:
        search = self.searches.get(stream)
        unwrapper, encrypted = self.unwrappers.get(stream), self.encrypted.get(stream)
        return StreamState(
            StreamNumbers(*numbers),
            self.pending[stream],
            self.arrivals[stream],
            SearchState.of(search) if search is not None else None,
            replace(unwrapper.state) if unwrapper is not None else None,
            replace(encrypted) if encrypted is not None else None,
        )

    def restore(self, id_: str, state: ConnectionState) -> int:
        """Return the slot of a connection that goes on; whoever knows its protocol restores the unwrappers."""
        slot = self.add(id_)
        self.kind[slot], self.capture[slot] = state.kind, state.capture
        if state.kind == Kind.UNDECIDED:
            self.accounted_undecided.add(slot)
        if state.identifier is not None:
            self.identifiers[slot] = state.identifier.copy()
        if state.waiting:
            self.waiting[slot] = [chunk._replace(stream=2 * slot + chunk.stream % 2) for chunk in state.waiting]
        for stream, known in zip(streams_of(slot), state.streams, strict=True):
            for name, values in self.numbers.items():
                values[stream] = getattr(known.numbers, name)
            self.pending[stream], self.arrivals[stream] = known.pending, known.arrivals
            if known.search is not None:
                self.searches[stream] = known.search.search()
            if known.encrypted is not None:
                self.encrypted[stream] = replace(known.encrypted)
        return slot


def streams_of(slot: int) -> tuple[int, int]:
    """Return the streams of a connection, to the server and to the client."""
    return 2 * slot, 2 * slot + 1


def _longer(values: NDArray[Any], size: int, first: int) -> NDArray[Any]:
    return np.pad(values, (0, size - len(values)), constant_values=first)
