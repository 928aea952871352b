"""Chunks -> messages: the streams of all connections, each with its protocol, its pending bytes and its accounts.

What a stream gives is a function of its bytes and of the order of the packets alone: it does not matter into how many
pieces its chunks come, nor whether the state was put away in between. Connections whose protocol is known go through
the columnar decoder all together; the others, and WebSocket, are looked at chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.stream import MAX_QUARANTINE, torn
from ..columnar.streams import Outcome, QuarantinedRange, Ranges
from ..protocols import load
from . import stream_state as s
from .accounts import ACCOUNTS, AccountsError
from .chunks import DIRECTIONS, TO_SERVER, Chunks, Connection
from .envelope import Envelope, message_batch
from .gather import GAP, Break, Gathered, gather
from .identify import Candidates, Chooser, Decision
from .output import Output, OutputBuilder
from .protocol_reader import ProtocolReader
from .redact import redacted
from .settings import ReadSettings
from .stream_state import ENCRYPTED, FOREIGN, PLAIN, UNDECIDED, WEBSOCKET, Entry, Sealed, Snapshot, Table
from .websocket import Unwrapper

Ints = NDArray[np.int64]

MAX_BYTES = 64 << 20
"""More is taken in steps, so that memory stays bounded."""
SEALED_BYTES = 64
"""What is kept of a range of encrypted bytes."""
_KINDS = {"plain": PLAIN, "websocket": WEBSOCKET, "encrypted": ENCRYPTED, "foreign": FOREIGN}


class About(NamedTuple):
    """What is wrong with a range of bytes."""

    rule: str
    path: str
    detail: str
    data: bytes | None
    protocol: str | None


class Streams:
    """All connections of a capture, or of several one after the other."""

    def __init__(self, settings: ReadSettings, snapshot: Snapshot | None = None) -> None:
        self.settings = settings
        self._table = Table()
        self._captures = [""]
        self._ways: list[ProtocolReader] = []
        self._numbers: dict[tuple[str, bool], int] = {}
        self._told: set[int] = set()
        """Connections that were accounted for before it was known what they are."""
        if snapshot is not None:
            self._restore(snapshot)

    # --- in and out

    def feed(self, chunks: Chunks, capture: str) -> Output:
        """What these chunks complete. Without a name, they belong to the capture that was last."""
        out = OutputBuilder()
        number = self._capture(capture)
        slots = np.array([-1 if one.is_over else self._slot(one) for one in chunks.connections], np.int64)
        touched = slots[slots >= 0]
        if number:
            self._table.capture[touched] = number
        over = [bool(one.ended) and not one.is_over for one in chunks.connections]
        ended = slots[np.array(over, np.bool_)].tolist()
        parts = list(_parts(chunks))
        for part in parts:
            self._take(part, slots, ended if part is parts[-1] else [], out)
        self._account(touched, out)
        for slot in ended:
            self._table.remove(slot)
        self._told.difference_update(ended)
        return out.build()

    def finish(self) -> Output:
        """Nothing more comes at all: what is pending is told, and nothing is left."""
        out = OutputBuilder()
        slots = np.array(sorted(self._table.slots.values()), np.int64)
        self._take(_no_chunks(), slots, slots.tolist(), out)
        self._account(slots, out)
        for slot in slots.tolist():
            self._table.remove(slot)
        return out.build()

    def accounts(self) -> pa.RecordBatch:
        """What became of the bytes of all connections that have not ended."""
        out = OutputBuilder()
        self._account(np.array(sorted(self._table.slots.values()), np.int64), out)
        return out.build().accounts

    def snapshot(self) -> Snapshot:
        """The state here: plain values, to be put away and gone on with by another ``Streams`` of the same reading."""
        table = self._table
        numbers = np.stack(list(table.numbers.values()), axis=1).tolist()
        ways = [(way.name, way.websocket) for way in self._ways]
        connections = {
            id_: table.state(slot, ways[table.way[slot]] if table.way[slot] >= 0 else None, numbers)
            for id_, slot in table.slots.items()
        }
        whole = Snapshot(connections, dict(enumerate(self._captures)))
        return whole.only(connections)

    def _restore(self, snapshot: Snapshot) -> None:
        names = max(snapshot.captures, default=0) + 1
        self._captures += [""] * (names - 1)
        for number, name in snapshot.captures.items():
            self._captures[number] = name
        for id_, state in snapshot.connections.items():
            slot = self._table.restore(id_, state)
            if state.kind == UNDECIDED:
                self._told.add(slot)
            if state.way is not None:
                self._table.way[slot] = self._way(*state.way)

    # --- connections

    def _capture(self, name: str) -> int:
        if name not in self._captures:
            self._captures.append(name)
        return self._captures.index(name)

    def _way(self, name: str, websocket: bool) -> int:
        key = (name, websocket)
        if key not in self._numbers:
            self._numbers[key] = len(self._ways)
            self._ways.append(ProtocolReader(self.settings, name, websocket))
        return self._numbers[key]

    @cached_property
    def _candidates(self) -> Candidates:
        names = self.settings.protocols
        plain = {name: self._ways[self._way(name, False)] for name in names}
        carried = [name for name in names if load(name).captured.websocket]
        return Candidates(plain, {name: self._ways[self._way(name, True)] for name in carried})

    def _slot(self, connection: Connection) -> int:
        slot = self._table.slots.get(connection.id)
        if slot is not None:
            return slot
        slot = self._table.add(connection.id)
        chooser = self._chooser(connection)
        decision = chooser.at_once()
        if decision is None:
            self._table.choosers[slot] = chooser
        else:
            self._settle(slot, decision, chooser)
        return slot

    def _chooser(self, connection: Connection) -> Chooser:
        port = connection.server_port
        assigned = self.settings.protocol
        if assigned is None and connection.protocol:
            assigned = self.settings.named(connection.protocol)
        if assigned is None and port in self.settings.ports:
            assigned = self.settings.named(self.settings.ports[port])
        is_websocket = assigned is not None and self.settings.is_websocket_port(port, assigned)
        return Chooser(connection.is_whole, assigned or "", is_websocket)

    def _settle(self, slot: int, decision: Decision, chooser: Chooser) -> None:
        """From here on it is known what a connection is; what waited for that goes its way."""
        table = self._table
        table.kind[slot] = kind = _KINDS[decision.kind]
        table.choosers.pop(slot, None)
        streams = (2 * slot, 2 * slot + 1)
        if kind in (PLAIN, WEBSOCKET):
            way = self._way(decision.protocol, kind == WEBSOCKET)
            table.way[slot] = way
            for direction, stream in enumerate(streams):
                if kind == WEBSOCKET:
                    carries = self._ways[way].protocol.captured.websocket
                    phase = "head" if chooser.is_whole else "lost"
                    table.unwrappers[stream] = Unwrapper(carries, direction == 0, phase)  # type: ignore[arg-type]
                elif not chooser.is_whole:
                    table.lost[stream] = torn()

    # --- chunks

    def _take(self, chunks: Chunks, slots: Ints, ended: list[int], out: OutputBuilder) -> None:
        table = self._table
        slot = slots[chunks.connection] if len(chunks) else np.empty(0, np.int64)
        streams = 2 * slot + chunks.direction
        captures = table.capture[slot]
        kinds = table.kind[slot]
        is_plain = kinds == PLAIN
        side: list[Entry] = []
        if not is_plain.all():
            self._count_foreign(kinds == FOREIGN, chunks, captures, out)
            for i in np.flatnonzero(~is_plain & (kinds != FOREIGN)).tolist():
                if table.kind[slot[i]] == PLAIN or self._is_plain(int(slot[i]), chunks, i):
                    is_plain[i] = True  # it was decided on the way here
                else:
                    self._route(int(slot[i]), _entry(chunks, i, int(streams[i]), int(captures[i])), side, out)
        for one in ended:
            self._end(one, side, out)
        is_plain &= chunks.length > 0
        chosen = np.flatnonzero(is_plain)
        self._check_offsets(chunks, chosen, streams[chosen], side)
        also = np.array(
            [2 * one + d for one in ended if table.kind[one] in (PLAIN, WEBSOCKET) for d in (0, 1)], np.int64
        )
        if len(chosen) or side or len(also):
            gathered = gather(table, chunks, chosen, streams[chosen], captures[chosen], side, also)
            self._decode(gathered, np.isin(gathered.streams, also), out)

    def _is_plain(self, slot: int, chunks: Chunks, i: int) -> bool:
        """Most connections are what their port says: then the first byte settles it."""
        chooser = self._table.choosers.get(slot)
        start = chunks.start[i]
        if chooser is None or start < 0 or not chunks.length[i] or not chooser.is_plain(chunks.data[start]):
            return False
        self._settle(slot, Decision("plain", chooser.assigned), chooser)
        return True

    def _count_foreign(self, which: NDArray[np.bool_], chunks: Chunks, captures: Ints, out: OutputBuilder) -> None:
        which = which & (chunks.start >= 0)
        for capture in np.unique(captures[which]).tolist():
            out.foreign[self._captures[capture]] += int(chunks.length[which & (captures == capture)].sum())

    def _check_offsets(self, chunks: Chunks, chosen: Ints, streams: Ints, side: list[Entry]) -> None:
        """A stream begins at the offset of its first chunk; from there on nothing may be left out."""
        numbers = self._table.numbers
        first, where = np.unique(streams, return_index=True)
        if side:
            is_alone = ~np.isin(first, [entry.stream for entry in side])
            first, where = first[is_alone], where[is_alone]
        offsets = chunks.offset[chosen][where]
        is_new = (numbers["bytes_in"][first] == 0) & (numbers["bytes_missing"][first] == 0)
        numbers["next_offset"][first[is_new]] = offsets[is_new]
        wrong = numbers["next_offset"][first] != offsets
        if wrong.any():
            stream, offset = int(first[np.argmax(wrong)]), int(offsets[np.argmax(wrong)])
            expected = int(numbers["next_offset"][stream])
            raise AccountsError(f"{self._name(stream)} goes on at byte {offset}, not at byte {expected}")

    def _route(self, slot: int, entry: Entry, side: list[Entry], out: OutputBuilder) -> None:
        """Sends a chunk the way of its connection."""
        table = self._table
        kind = table.kind[slot]
        if kind == PLAIN:
            side.append(entry)
        elif kind == UNDECIDED:
            self._wait(slot, entry, side, out)
        elif kind == WEBSOCKET:
            self._unwrap(entry, side, out)
        elif kind == ENCRYPTED:
            self._seal(entry, out)
        elif not entry.rule:
            out.foreign[self._captures[entry.capture]] += entry.length

    def _wait(self, slot: int, entry: Entry, side: list[Entry], out: OutputBuilder) -> None:
        """Keeps a chunk until it is known what the connection speaks."""
        table = self._table
        numbers = table.numbers
        if not numbers["bytes_in"][entry.stream] and not numbers["bytes_missing"][entry.stream]:
            numbers["next_offset"][entry.stream] = entry.offset
        table.waiting.setdefault(slot, []).append(entry)
        numbers["bytes_missing" if entry.rule else "bytes_in"][entry.stream] += entry.length
        chooser = table.choosers[slot]
        decision = chooser.add(entry.stream % 2, None if entry.rule else entry.data, self._candidates)
        if decision is not None:
            self._decided(slot, decision, side, out)

    def _decided(self, slot: int, decision: Decision, side: list[Entry], out: OutputBuilder) -> None:
        table = self._table
        self._settle(slot, decision, table.choosers[slot])
        for stream in (2 * slot, 2 * slot + 1):
            table.numbers["bytes_in"][stream] = table.numbers["bytes_missing"][stream] = 0
        for waited in table.waiting.pop(slot, ()):
            self._route(slot, waited, side, out)

    def _end(self, slot: int, side: list[Entry], out: OutputBuilder) -> None:
        """A connection ends: what was kept back is told."""
        table = self._table
        if table.kind[slot] == UNDECIDED:
            self._decided(slot, table.choosers[slot].end(self._candidates), side, out)
        for stream in (2 * slot, 2 * slot + 1):
            unwrapper, sealed = table.unwrappers.get(stream), table.sealed.get(stream)
            if unwrapper is not None:
                unwrapper.finish()
                self._count_envelope(unwrapper, int(table.capture[slot]), out)
            if sealed is not None and sealed.length:
                self._tell_sealed(stream, sealed, out)

    # --- WebSocket and TLS

    def _unwrap(self, entry: Entry, side: list[Entry], out: OutputBuilder) -> None:
        unwrapper = self._table.unwrappers[entry.stream]
        if entry.rule:
            unwrapper.gap()
            side.append(entry)
        else:
            for piece in unwrapper.feed(entry.data):
                rule = "websocket" if piece.lost else ""
                side.append(
                    entry._replace(data=piece.data, length=len(piece.data), ends_message=piece.ends_message, rule=rule)
                )
        self._count_envelope(unwrapper, entry.capture, out)

    def _count_envelope(self, unwrapper: Unwrapper, capture: int, out: OutputBuilder) -> None:
        if unwrapper.envelope:
            out.envelope[self._captures[capture]] += unwrapper.envelope
            unwrapper.envelope = 0

    def _seal(self, entry: Entry, out: OutputBuilder) -> None:
        """Encrypted bytes are told in ranges of the same size wherever the capture is cut."""
        stream, numbers = entry.stream, self._table.numbers
        sealed = self._table.sealed.setdefault(stream, Sealed())
        if entry.rule:
            if sealed.length:
                self._tell_sealed(stream, sealed, out)
            self._tell_gap(stream, entry.length, entry.ts, entry.capture, "", out)
            return
        numbers["bytes_in"][stream] += entry.length
        numbers["next_offset"][stream] += entry.length
        at = 0
        while at < entry.length:
            taken = min(entry.length - at, MAX_QUARANTINE - sealed.length)
            sealed.data += entry.data[at : at + min(taken, SEALED_BYTES - len(sealed.data))]
            sealed.length += taken
            sealed.ts, sealed.position, sealed.capture = entry.ts, entry.position, entry.capture
            at += taken
            if sealed.length == MAX_QUARANTINE:
                self._tell_sealed(stream, sealed, out, entry.length - at)
                sealed = self._table.sealed[stream]

    def _tell_sealed(self, stream: int, sealed: Sealed, out: OutputBuilder, behind: int = 0) -> None:
        numbers = self._table.numbers
        offset = int(numbers["next_offset"][stream]) - behind - sealed.length
        numbers["bytes_quarantined"][stream] += sealed.length
        about = About("encrypted", "", "TLS: the bytes cannot be read without its keys", sealed.data, None)
        self._quarantine(stream, offset, sealed.length, sealed.ts, sealed.capture, about, out)
        self._table.sealed[stream] = Sealed()

    def _tell_gap(self, stream: int, length: int, ts: int, capture: int, protocol: str, out: OutputBuilder) -> None:
        numbers = self._table.numbers
        about = About("gap", "", f"{length} bytes were not captured", None, protocol or None)
        self._quarantine(stream, int(numbers["next_offset"][stream]), length, ts, capture, about, out)
        numbers["bytes_missing"][stream] += length
        numbers["next_offset"][stream] += length

    def _quarantine(
        self, stream: int, offset: int, length: int, ts: int, capture: int, about: About, out: OutputBuilder
    ) -> None:
        where = (self._captures[capture], self._table.ids[stream // 2], DIRECTIONS[stream % 2])
        out.quarantined.append((*where, offset, length, ts, *about))

    # --- decoding

    def _decode(self, gathered: Gathered, is_final: NDArray[np.bool_], out: OutputBuilder) -> None:
        """Decodes what was gathered, all streams together up to the first gap of each, then up to the next."""
        table, numbers = self._table, self._table.numbers
        streams = gathered.streams
        numbers["bytes_in"][streams] += gathered.added
        at = gathered.starts.copy()
        numbers["next_offset"][streams] -= gathered.tails
        names = pa.array([table.ids[stream // 2] for stream in streams.tolist()], pa.string())
        breaks = {which: iter(found) for which, found in gathered.breaks.items()}
        following = {which: next(found) for which, found in breaks.items()}
        active = np.arange(len(streams))
        while len(active):
            ends, final = gathered.ends[active].copy(), is_final[active].copy()
            for i, which in enumerate(active.tolist()):
                if not following:
                    break
                if which in following:
                    ends[i], final[i] = following[which].place, True
            ways = table.way[streams[active] // 2]
            for way in np.unique(ways).tolist():
                group = ways == way
                self._decode_group(self._ways[way], gathered, active[group], at, ends[group], final[group], names, out)
            active = np.array([which for which in active.tolist() if which in following], np.int64)
            for which in active.tolist():
                self._pass(int(streams[which]), following.pop(which), out)
                another = next(breaks[which], None)
                if another is not None:
                    following[which] = another
        self._keep(gathered, at)

    def _decode_group(
        self,
        way: ProtocolReader,
        gathered: Gathered,
        group: Ints,
        at: Ints,
        ends: Ints,
        final: NDArray[np.bool_],
        names: pa.Array,
        out: OutputBuilder,
    ) -> None:
        table, numbers = self._table, self._table.numbers
        streams = gathered.streams[group]
        starts = at[group]
        shift = numbers["next_offset"][streams] - starts
        lost = {i: table.lost[x] for i, x in enumerate(streams.tolist()) if x in table.lost} if table.lost else {}
        ranges = Ranges(starts, ends, shift, final, numbers["proved"][streams], lost)
        if way.is_given:
            found = way.decoder.decode_given(gathered.buf, ranges, gathered.borders)
        else:
            found = way.decoder.decode(gathered.buf, ranges)
        for i in lost.keys() | found.lost.keys():
            table.lost.pop(int(streams[i]), None)
        table.lost.update({int(streams[i]): search for i, search in found.lost.items()})
        numbers["proved"][streams] = found.proved
        numbers["next_offset"][streams] = found.stops + shift
        at[group] = found.stops
        self._collect(way, gathered, group, found, shift, names, out)

    def _collect(
        self,
        way: ProtocolReader,
        gathered: Gathered,
        group: Ints,
        found: Outcome,
        shift: Ints,
        names: pa.Array,
        out: OutputBuilder,
    ) -> None:
        numbers = self._table.numbers
        streams = gathered.streams[group]
        for rows in found.rows:
            numbers["messages"][streams] += np.bincount(rows.ranges, minlength=len(streams))
            decoded = np.bincount(rows.ranges, weights=rows.lengths, minlength=len(streams))
            numbers["bytes_decoded"][streams] += decoded.astype(np.int64)
            if rows.records is None or not way.columns:
                continue
            marks = gathered.marks[gathered.mark_of(rows.starts + rows.lengths)]
            which = group[rows.ranges]
            direction = gathered.streams[which] % 2
            envelope = Envelope(names, which, direction, self._captures, marks[:, 3], marks[:, 1], marks[:, 2])
            records = redacted(way, rows.records, direction == TO_SERVER) if way.secrets else rows.records
            out.messages[way.protocol.name].append(message_batch(records, envelope, way.columns, way.schema))
        for bad in sorted(found.quarantined, key=_place):
            stream = int(streams[bad.range])
            numbers["bytes_quarantined"][stream] += bad.length
            mark = gathered.marks[gathered.mark_of(np.array([bad.start + bad.length]))][0]
            about = About(bad.error.rule, bad.error.path, bad.error.detail, bad.data, way.protocol.name)
            offset = bad.start + int(shift[bad.range])
            self._quarantine(stream, offset, bad.length, int(mark[1]), int(mark[3]), about, out)

    def _pass(self, stream: int, gap: Break, out: OutputBuilder) -> None:
        """Goes over bytes that are missing or lost; behind them a frame must be proved."""
        numbers, way = self._table.numbers, self._ways[self._table.way[stream // 2]]
        if gap.rule == GAP:
            self._tell_gap(stream, gap.length, gap.ts, gap.capture, way.protocol.name, out)
        else:
            about = About("websocket", "", "no WebSocket frame begins here", gap.data, way.protocol.name)
            offset = int(numbers["next_offset"][stream])
            self._quarantine(stream, offset, gap.length, gap.ts, gap.capture, about, out)
            numbers["bytes_quarantined"][stream] += gap.length
            numbers["next_offset"][stream] += gap.length
        if not way.is_given:
            self._table.lost[stream] = torn()

    def _keep(self, gathered: Gathered, at: Ints) -> None:
        """Puts away what is pending of each stream."""
        table, buf = self._table, gathered.buf
        streams, ends = gathered.streams, gathered.ends
        table.numbers["next_offset"][streams] += ends - at
        pending = np.flatnonzero((at < ends) | (gathered.tails > 0))
        first, behind = gathered.mark_of(at[pending] + 1), gathered.mark_of(ends[pending]) + 1
        rows = zip(
            streams[pending].tolist(), at[pending].tolist(), ends[pending].tolist(), first.tolist(), behind.tolist(),
            strict=True,
        )  # fmt: skip
        for stream, start, end, low, high in rows:
            if start == end:
                table.tails[stream], table.marks[stream] = b"", s.NO_MARKS
                continue
            marks = gathered.marks[low:high].copy()
            marks[:, 0] -= start
            table.tails[stream], table.marks[stream] = buf[start:end].tobytes(), marks

    # --- accounts

    def _account(self, slots: Ints, out: OutputBuilder) -> None:
        """What became of every byte of these connections; it must add up."""
        table = self._table
        slots = np.unique(slots)
        kinds = table.kind[slots]
        undecided, foreign = set(slots[kinds == UNDECIDED].tolist()), set(slots[kinds == FOREIGN].tolist())
        # What was told as pending and then turned out to be foreign is taken back.
        taken_back = self._told & foreign
        self._told = (self._told | undecided) - foreign
        kept = np.array([slot for slot in slots.tolist() if slot not in foreign or slot in taken_back], np.int64)
        if not len(kept):
            return
        streams = np.stack([2 * kept, 2 * kept + 1], axis=1).reshape(-1)
        counted = {name: values[streams] for name, values in table.numbers.items()}
        pending = table.pending(streams)
        wrong = counted["bytes_in"] != counted["bytes_decoded"] + counted["bytes_quarantined"] + pending
        if wrong.any():
            self._complain(
                int(streams[np.argmax(wrong)]), {name: int(v[np.argmax(wrong)]) for name, v in counted.items()}
            )
        protocols = [self._ways[way].protocol.name if way >= 0 else None for way in table.way[kept].tolist()]
        columns = {
            "connection": pa.array([table.ids[slot] for slot in kept.tolist()]).take(
                pa.array(np.arange(len(streams)) // 2)
            ),
            "direction": pa.array(DIRECTIONS).take(pa.array(streams % 2)),
            "bytes_pending": pa.array(pending),
            "protocol": pa.array(protocols, pa.string()).take(pa.array(np.arange(len(streams)) // 2)),
        }
        arrays = [columns[f.name] if f.name in columns else pa.array(counted[f.name]) for f in ACCOUNTS]
        out.accounts.append(pa.RecordBatch.from_arrays(arrays, schema=ACCOUNTS))

    def _complain(self, stream: int, counted: dict[str, int]) -> None:
        pending = int(self._table.pending(np.array([stream]))[0])
        raise AccountsError(f"the bytes of {self._name(stream)} do not add up: {counted}, {pending} pending")

    def _name(self, stream: int) -> str:
        return f"{self._table.ids[stream // 2]} {DIRECTIONS[stream % 2]}"


def _place(bad: QuarantinedRange) -> int:
    return bad.start


def _entry(chunks: Chunks, i: int, stream: int, capture: int) -> Entry:
    start, length = int(chunks.start[i]), int(chunks.length[i])
    data = chunks.data[start : start + length].tobytes() if start >= 0 else b""
    position, offset = int(chunks.position[i]), int(chunks.offset[i])
    return Entry(stream, data, length, int(chunks.ts[i]), position, capture, offset, rule="" if start >= 0 else GAP)


def _parts(chunks: Chunks) -> Iterator[Chunks]:
    """The chunks in steps of bounded size."""
    upto = np.cumsum(np.where(chunks.start >= 0, chunks.length, 0))
    if not len(upto) or upto[-1] <= MAX_BYTES:
        yield chunks
        return
    cuts = [0, *np.flatnonzero(np.diff(upto // MAX_BYTES)) + 1, len(chunks)]
    for low, high in pairwise(cuts):
        names = ("connection", "direction", "offset", "length", "ts", "start", "position")
        yield replace(chunks, **{name: getattr(chunks, name)[low:high] for name in names})


def _no_chunks() -> Chunks:
    none = np.empty(0, np.int64)
    return Chunks(np.empty(0, np.uint8), [], none.astype(np.int32), none.astype(np.int8), none, none, none, none, none)
