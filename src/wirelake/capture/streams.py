"""Chunks -> messages: the streams of all connections, each with its protocol, its pending bytes and its accounts.

What a stream gives is a function of its bytes and of the order of the packets alone: it does not matter into how many
pieces its chunks are cut, nor whether the state was put away in between. Connections whose protocol is known go through
the columnar decoder all together; the others, and WebSocket, are looked at chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.stream import torn
from ..kernels.times import STRANGE
from ..protocols import load
from .accounts import AccountsError, account_rows
from .chunks import Chunks, Connection, Ints
from .identify import Candidates, Decision, Identifier, Kind
from .messages import MessageDecoder, Output
from .protocol_reader import ProtocolReaders
from .quarantine import add_encrypted, end_encrypted
from .settings import ReadSettings
from .state import LooseChunk, StreamsState
from .stream_buffer import GAP, STRANGE_TIME, gather, is_first
from .stream_table import StreamTable, streams_of
from .websocket import Unwrapper, UnwrapperState

_PLAIN = int(Kind.PLAIN)
"""For loops over chunks: looking up a member of an enumeration takes longer than all the rest."""
MAX_BYTES = 64 << 20
"""More is taken in steps, so that memory stays bounded."""


class Streams:
    """All connections of a capture, or of several that are read one after the other."""

    def __init__(self, settings: ReadSettings, state: StreamsState | None = None) -> None:
        self.settings = settings
        self._table = StreamTable()
        self._readers = ProtocolReaders(settings)
        if state is not None:
            self._restore(state)

    # --- in and out

    def feed(self, chunks: Chunks, capture: str) -> Output:
        """Return what these chunks complete. Without a name, they belong to the last capture."""
        number = self._capture(capture)
        slots = np.array([-1 if known.is_over else self._slot(known) for known in chunks.connections], np.int64)
        touched = slots[slots >= 0]
        if number:
            self._table.capture[touched] = number
        has_ended = [bool(known.ended) and not known.is_over for known in chunks.connections]
        return self._output(chunks, slots, touched, slots[np.array(has_ended, np.bool_)].tolist())

    def finish(self) -> Output:
        """End all connections: return what was pending, and keep nothing."""
        slots = self._open_slots()
        nothing = Chunks(np.empty(0, np.uint8), [], *np.empty((7, 0), np.int64))
        return self._output(nothing, slots, slots, slots.tolist())

    def captures(self, connections: Iterable[Connection]) -> list[str]:
        """Return the capture in which each connection was seen last."""
        table = self._table
        slots = (table.slots.get(each.id) for each in connections)
        return [table.captures[int(table.capture[slot])] if slot is not None else "" for slot in slots]

    def accounts(self) -> pa.RecordBatch:
        """Return what became of the bytes of all connections that have not ended."""
        return account_rows(self._table, self._open_slots(), self._readers.protocols)

    def state(self) -> StreamsState:
        """Return plain values with which another ``Streams`` of the same settings goes on."""
        connections = dict(self._table.states(self._readers.names))
        return StreamsState(connections, dict(enumerate(self._table.captures))).only(connections)

    def _output(self, chunks: Chunks, slots: Ints, touched: Ints, ended: list[int]) -> Output:
        out = Output()
        parts = list(_parts(chunks))
        for part in parts:
            self._take(part, slots, ended if part is parts[-1] else [], out)
        out.accounts = account_rows(self._table, touched, self._readers.protocols)
        for slot in ended:
            self._table.remove(slot)
        return out

    def _open_slots(self) -> Ints:
        return np.array(sorted(self._table.slots.values()), np.int64)

    def _restore(self, state: StreamsState) -> None:
        captures = self._table.captures
        captures += [""] * max(state.captures, default=0)
        for number, name in state.captures.items():
            captures[number] = name
        for id_, known in state.connections.items():
            slot = self._table.restore(id_, known)
            if known.protocol:
                self._set_protocol(slot, known.protocol, [stream.unwrapper for stream in known.streams])

    # --- connections

    def _capture(self, name: str) -> int:
        captures = self._table.captures
        if name not in captures:
            captures.append(name)
        return captures.index(name)

    @cached_property
    def _candidates(self) -> Candidates:
        names, readers = self.settings.protocols, self._readers
        carried = [name for name in names if load(name).captured.websocket]
        return Candidates(
            {name: readers.get(name, False) for name in names}, {name: readers.get(name, True) for name in carried}
        )

    def _slot(self, connection: Connection) -> int:
        slot = self._table.slots.get(connection.id)
        if slot is not None:
            return slot
        slot = self._table.add(connection.id)
        identifier = self._identifier(connection)
        decision = identifier.at_once()
        if decision is None:
            self._table.identifiers[slot] = identifier
        else:
            self._settle(slot, decision, identifier)
        return slot

    def _identifier(self, connection: Connection) -> Identifier:
        port, settings = connection.server_port, self.settings
        assigned = settings.protocol
        if assigned is None and connection.protocol:
            assigned = settings.named(connection.protocol)
        if assigned is None and port in settings.ports:
            assigned = settings.named(settings.ports[port])
        is_websocket = assigned is not None and settings.is_websocket_port(port, assigned)
        return Identifier(connection.is_whole, assigned or "", is_websocket)

    def _settle(self, slot: int, decision: Decision, identifier: Identifier) -> None:
        """Remember what a connection is."""
        table = self._table
        table.kind[slot] = kind = decision.kind
        table.identifiers.pop(slot, None)
        if kind in (Kind.PLAIN, Kind.WEBSOCKET):
            state = UnwrapperState("head" if identifier.is_whole else "lost") if kind == Kind.WEBSOCKET else None
            self._set_protocol(slot, decision.protocol, [state, state])
        if kind == Kind.PLAIN and not identifier.is_whole:
            table.searches.update({stream: torn() for stream in streams_of(slot)})

    def _set_protocol(self, slot: int, protocol: str, unwrappers: list[UnwrapperState | None]) -> None:
        table = self._table
        table.reader[slot] = number = self._readers.number(protocol, bool(table.kind[slot] == Kind.WEBSOCKET))
        carries = self._readers[number].protocol.captured.websocket
        for direction, (stream, state) in enumerate(zip(streams_of(slot), unwrappers, strict=True)):
            if state is not None:
                table.unwrappers[stream] = Unwrapper(carries, direction == 0, state)

    # --- chunks

    def _take(self, chunks: Chunks, slots: Ints, ended: list[int], out: Output) -> None:
        table = self._table
        slot = slots[chunks.connection]
        streams, captures = 2 * slot + chunks.direction, table.capture[slot]
        loose: list[LooseChunk] = []
        is_plain = chunks.length > 0
        if not ((slots >= 0).all() and (table.kind[slots] == Kind.PLAIN).all()):
            is_plain &= self._route_all(chunks, slot, streams, captures, loose, out)
        for each in ended:
            self._end(each, loose, out)
        chosen = np.flatnonzero(is_plain)
        self._check_offsets(chunks, chosen, streams[chosen], loose)
        decodable = [each for each in ended if table.kind[each] in (Kind.PLAIN, Kind.WEBSOCKET)]
        also = np.array([stream for each in decodable for stream in streams_of(each)], np.int64)
        if len(chosen) or loose or len(also):
            gathered = gather(table, chunks, chosen, streams[chosen], captures[chosen], loose, also)
            MessageDecoder(table, self._readers, gathered, np.isin(gathered.streams, also), out).run()

    def _route_all(
        self, chunks: Chunks, slot: Ints, streams: Ints, captures: Ints, loose: list[LooseChunk], out: Output
    ) -> NDArray[np.bool_]:
        """Return which chunks are of plain streams; the others go their way one by one."""
        table = self._table
        kinds = table.kind[slot]
        is_plain: NDArray[np.bool_] = kinds == Kind.PLAIN
        if is_plain.all():
            return is_plain
        out.foreign_bytes += int(chunks.length[(kinds == Kind.FOREIGN) & (chunks.start >= 0)].sum())
        others = np.flatnonzero(~is_plain & (kinds != Kind.FOREIGN))
        decided: set[int] = set()
        plain: list[int] = []
        for i, each in zip(others.tolist(), slot[others].tolist(), strict=True):
            # An earlier chunk, or this one, decides it for all that follow.
            if each not in decided and (table.kind[each] == _PLAIN or self._is_plain(each, chunks, i)):
                decided.add(each)
            if each in decided:
                plain.append(i)
            else:
                self._route(each, _loose_chunk(chunks, i, int(streams[i]), int(captures[i])), loose, out)
        is_plain[plain] = True
        return is_plain

    def _is_plain(self, slot: int, chunks: Chunks, i: int) -> bool:
        """Return whether the first byte settles what a connection is: most are what their port says."""
        identifier = self._table.identifiers.get(slot)
        start = chunks.start[i]
        if identifier is None or start < 0 or not chunks.length[i] or chunks.ts[i] == STRANGE:
            return False
        if not identifier.is_plain(chunks.data[start]):
            return False
        self._settle(slot, Decision(Kind.PLAIN, identifier.assigned), identifier)
        return True

    def _check_offsets(self, chunks: Chunks, chosen: Ints, streams: Ints, loose: list[LooseChunk]) -> None:
        """Let streams begin at the offset of their first chunk; from there on nothing may be left out."""
        numbers = self._table.numbers
        starts = np.flatnonzero(is_first(streams))
        first, where = np.unique(streams[starts], return_index=True)
        where = starts[where]
        if loose:
            is_alone = ~np.isin(first, [chunk.stream for chunk in loose])
            first, where = first[is_alone], where[is_alone]
        offsets = chunks.offset[chosen][where]
        is_new = (numbers["bytes_in"][first] == 0) & (numbers["bytes_missing"][first] == 0)
        numbers["next_offset"][first[is_new]] = offsets[is_new]
        wrong = numbers["next_offset"][first] != offsets
        if wrong.any():
            stream, offset = int(first[np.argmax(wrong)]), int(offsets[np.argmax(wrong)])
            expected = int(numbers["next_offset"][stream])
            raise AccountsError(f"{self._table.name(stream)} goes on at byte {offset}, not at byte {expected}")

    def _route(self, slot: int, chunk: LooseChunk, loose: list[LooseChunk], out: Output) -> None:
        """Hand a chunk to what its connection is."""
        kind = self._table.kind[slot]
        if kind == Kind.PLAIN:
            loose.append(chunk)
        elif kind == Kind.UNDECIDED:
            self._wait(slot, chunk, loose, out)
        elif kind == Kind.WEBSOCKET:
            self._unwrap(chunk, loose, out)
        elif kind == Kind.ENCRYPTED:
            out.quarantined += add_encrypted(self._table, chunk)
        elif chunk.rule != GAP:
            out.foreign_bytes += chunk.length

    def _wait(self, slot: int, chunk: LooseChunk, loose: list[LooseChunk], out: Output) -> None:
        """Keep a chunk until the connection is identified."""
        table, numbers, stream = self._table, self._table.numbers, chunk.stream
        if not numbers["bytes_in"][stream] and not numbers["bytes_missing"][stream]:
            numbers["next_offset"][stream] = chunk.offset
        table.waiting.setdefault(slot, []).append(chunk)
        numbers["bytes_missing" if chunk.rule == GAP else "bytes_in"][stream] += chunk.length
        data = None if chunk.rule == GAP else chunk.data
        decision = table.identifiers[slot].add(stream % 2, data, self._candidates)
        if decision is not None:
            self._decided(slot, decision, loose, out)

    def _decided(self, slot: int, decision: Decision, loose: list[LooseChunk], out: Output) -> None:
        """Take the chunks that waited for the decision once more."""
        table = self._table
        self._settle(slot, decision, table.identifiers[slot])
        for stream in streams_of(slot):
            table.numbers["bytes_in"][stream] = table.numbers["bytes_missing"][stream] = 0
        for chunk in table.waiting.pop(slot, ()):
            self._route(slot, chunk, loose, out)

    def _end(self, slot: int, loose: list[LooseChunk], out: Output) -> None:
        """End a connection: what was kept back is decided."""
        table = self._table
        if table.kind[slot] == Kind.UNDECIDED:
            self._decided(slot, table.identifiers[slot].end(self._candidates), loose, out)
        for stream in streams_of(slot):
            unwrapper = table.unwrappers.get(stream)
            if unwrapper is not None:
                unwrapper.finish()
                out.envelope_bytes += unwrapper.take_envelope_bytes()
            out.quarantined += end_encrypted(table, stream)

    def _unwrap(self, chunk: LooseChunk, loose: list[LooseChunk], out: Output) -> None:
        unwrapper = self._table.unwrappers[chunk.stream]
        if chunk.rule:
            unwrapper.gap()
            loose.append(chunk)
        else:
            for piece in unwrapper.feed(chunk.data):
                data, rule = piece.data, "websocket" if piece.lost else ""
                loose.append(chunk._replace(data=data, length=len(data), ends_message=piece.ends_message, rule=rule))
        out.envelope_bytes += unwrapper.take_envelope_bytes()


def _loose_chunk(chunks: Chunks, i: int, stream: int, capture: int) -> LooseChunk:
    start, length = int(chunks.start[i]), int(chunks.length[i])
    data = chunks.data[start : start + length].tobytes() if start >= 0 else b""
    ts, position, offset = int(chunks.ts[i]), int(chunks.position[i]), int(chunks.offset[i])
    rule = GAP if start < 0 else STRANGE_TIME if ts == STRANGE else ""
    return LooseChunk(stream, data, length, ts, position, capture, offset, rule=rule)


def _parts(chunks: Chunks) -> Iterator[Chunks]:
    """Yield the chunks in steps of bounded size."""
    upto = np.cumsum(np.where(chunks.start >= 0, chunks.length, 0))
    if not len(upto) or upto[-1] <= MAX_BYTES:
        yield chunks
        return
    cuts = [0, *np.flatnonzero(np.diff(upto // MAX_BYTES)) + 1, len(chunks)]
    for low, high in pairwise(cuts):
        yield Chunks(chunks.data, chunks.connections, *(column[low:high] for column in chunks.columns()))
