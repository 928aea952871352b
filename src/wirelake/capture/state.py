"""Everything that is remembered between windows, partitions, files and runs: plain typed values.

The live objects are rebuilt from it. A codec can write it without knowing more than the types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..codec.stream import Lost
from ..errors import DecodeError
from .chunks import Ints
from .identify import Identifier
from .tcp_state import TrackerState
from .websocket import UnwrapperState

END, TS, POSITION, CAPTURE = range(4)
"""Columns of arrivals: how far the bytes of a chunk reach, its time, its position in the file, and its capture."""
ARRIVAL = 4
NO_ARRIVALS = np.empty((0, ARRIVAL), np.int64)


@dataclass(frozen=True, slots=True)
class State:
    """The state of TCP connections and that of the streams that they carry; None where nothing was read yet."""

    tracker: TrackerState | None = None
    streams: StreamsState | None = None

    def __post_init__(self) -> None:
        if self.tracker is not None:
            self.tracker.check()

    def only(self, ids: Collection[str]) -> State:
        """Return the state restricted to these connections."""
        return State(
            self.tracker.only(ids) if self.tracker is not None else None,
            self.streams.only(ids) if self.streams is not None else None,
        )


class LooseChunk(NamedTuple):
    """A chunk outside the arrays. ``rule`` is empty for bytes of the stream, else it says why they are none: GAP,
    "websocket" or STRANGE_TIME.
    """

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
class EncryptedRange:
    """A range of an encrypted stream that is not quarantined yet: its first bytes, its length, its last arrival."""

    head: bytes = b""
    length: int = 0
    ts: int = -1
    position: int = 0
    capture: int = 0


@dataclass(frozen=True, slots=True)
class SearchState:
    """A search for the next frame that is under way, and the fault that began it."""

    scan: int
    passed: int
    spent: int
    rule: str
    path: str
    detail: str
    offset: int | None

    @classmethod
    def of(cls, search: Lost) -> SearchState:
        error = search.error
        return cls(search.scan, search.passed, search.spent, error.rule, error.path, error.detail, error.offset)

    def search(self) -> Lost:
        error = DecodeError(self.detail, rule=self.rule, path=self.path, offset=self.offset)
        return Lost(self.scan, error, self.passed, self.spent)


@dataclass(frozen=True, slots=True)
class StreamNumbers:
    """What is counted of a stream."""

    bytes_in: int
    bytes_decoded: int
    bytes_quarantined: int
    bytes_missing: int
    messages: int
    next_offset: int
    """The offset of the first byte that has not come yet."""
    proved: int
    """The number of the layout that earlier frames proved; -1 if none is."""


@dataclass(frozen=True, slots=True)
class StreamState:
    """One direction of a connection."""

    numbers: StreamNumbers
    pending: bytes
    arrivals: Ints
    search: SearchState | None
    unwrapper: UnwrapperState | None
    encrypted: EncryptedRange | None


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """A connection; ``protocol`` is empty while it is not known."""

    kind: int
    protocol: str
    capture: int
    identifier: Identifier | None
    waiting: list[LooseChunk]
    streams: tuple[StreamState, StreamState]


@dataclass(frozen=True, slots=True)
class StreamsState:
    """All streams at one place of a capture: connections by id, names of captures by number."""

    connections: dict[str, ConnectionState] = field(default_factory=dict)
    captures: dict[int, str] = field(default_factory=dict)

    def only(self, ids: Collection[str]) -> StreamsState:
        """Return the state restricted to these connections."""
        kept = {id_: state for id_, state in self.connections.items() if id_ in ids}
        used = {number for state in kept.values() for number in _captures(state)}
        return replace(
            self, connections=kept, captures={number: name for number, name in self.captures.items() if number in used}
        )


def _captures(state: ConnectionState) -> Iterator[int]:
    yield state.capture
    yield from (chunk.capture for chunk in state.waiting)
    for stream in state.streams:
        if len(stream.arrivals):
            yield from set(stream.arrivals[:, CAPTURE].tolist())
        if stream.encrypted is not None:
            yield stream.encrypted.capture
