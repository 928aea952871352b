"""Stream bytes -> message rows with their envelope, quarantined ranges, and what is pending of each stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.stream import torn
from ..columnar.streams import UNPROVED, Outcome, Ranges
from .accounts import ACCOUNTS
from .chunks import DIRECTIONS, TO_SERVER, Ints
from .protocol_reader import ENVELOPE_TYPES, ProtocolReader, ProtocolReaders
from .quarantine import RangeFault, Row, quarantine_batch, quarantine_gap, quarantine_range, times
from .redact import redacted
from .state import CAPTURE, NO_ARRIVALS, POSITION, TS, LooseChunk
from .stream_buffer import GAP, STRANGE_TIME, Gathered
from .stream_table import StreamTable

Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Output:
    """What a part of the captures held.

    ``messages`` are batches by protocol, the rows of each stream in order. ``accounts`` are cumulative, one row for
    each stream that was touched. ``foreign_bytes`` are those of protocols that are not read, ``envelope_bytes`` those
    of WebSocket.
    """

    messages: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    quarantined: list[Row] = field(default_factory=list)
    accounts: pa.RecordBatch = field(default_factory=lambda: pa.RecordBatch.from_pylist([], ACCOUNTS))
    foreign_bytes: int = 0
    envelope_bytes: int = 0

    @property
    def quarantine(self) -> pa.RecordBatch:
        return quarantine_batch(self.quarantined)


class _Group(NamedTuple):
    """Streams of one protocol that are decoded together, by their number among the gathered ones."""

    reader: ProtocolReader
    which: Ints
    ends: Ints
    final: Bools


class MessageDecoder:
    """Decodes one buffer of gathered bytes, the streams of one protocol together."""

    def __init__(
        self, table: StreamTable, readers: ProtocolReaders, gathered: Gathered, is_final: Bools, out: Output
    ) -> None:
        self._table, self._readers, self._out = table, readers, out
        self._gathered, self._is_final = gathered, is_final
        self._at = gathered.starts.copy()
        """How far each stream was decoded."""
        connections, self._connection = np.unique(gathered.streams // 2, return_inverse=True)
        self._ids = [table.ids[connection] for connection in connections.tolist()]

    def run(self) -> None:
        """Decode all streams up to the first interruption of each, then up to the next, and keep what is pending."""
        gathered, numbers = self._gathered, self._table.numbers
        numbers["bytes_in"][gathered.streams] += gathered.added
        numbers["next_offset"][gathered.streams] -= gathered.pending
        later = {which: iter(listed) for which, listed in gathered.interruptions.items()}
        following = {which: next(listed) for which, listed in later.items()}
        active = np.arange(len(gathered.streams))
        while len(active):
            for group in self._groups(active, following):
                self._decode_group(group)
            active = np.array([which for which in active.tolist() if which in following], np.int64)
            for which in active.tolist():
                self._pass(following.pop(which)[1])
                another = next(later[which], None)
                if another is not None:
                    following[which] = another
        self._keep_pending()

    def _groups(self, active: Ints, following: dict[int, tuple[int, LooseChunk]]) -> Iterator[_Group]:
        """Yield the active streams by protocol, each up to its end or to what follows."""
        ends, final = self._gathered.ends[active].copy(), self._is_final[active].copy()
        if following:
            for i, which in enumerate(active.tolist()):
                if which in following:
                    ends[i], final[i] = following[which][0], True
        readers = self._table.reader[self._gathered.streams[active] // 2]
        for reader in np.unique(readers).tolist():
            chosen = readers == reader
            yield _Group(self._readers[reader], active[chosen], ends[chosen], final[chosen])

    def _decode_group(self, group: _Group) -> None:
        gathered, numbers, searches = self._gathered, self._table.numbers, self._table.searches
        streams, starts = gathered.streams[group.which], self._at[group.which]
        shift = numbers["next_offset"][streams] - starts
        begun = (
            {i: searches[stream] for i, stream in enumerate(streams.tolist()) if stream in searches} if searches else {}
        )
        proved = numbers["proved"][streams]
        if group.reader.readings.knows_sides:
            proved = np.where(proved == UNPROVED, streams % 2, proved)
        ranges = Ranges(starts, group.ends, shift, group.final, proved, begun)
        if group.reader.is_given:
            result = group.reader.decoder.decode_given(gathered.buf, ranges, gathered.borders)
        else:
            result = group.reader.decoder.decode(gathered.buf, ranges)
        for i in begun.keys() | result.lost.keys():
            searches.pop(int(streams[i]), None)
        searches.update({int(streams[i]): search for i, search in result.lost.items()})
        numbers["proved"][streams] = result.proved
        numbers["next_offset"][streams] = result.stops + shift
        self._at[group.which] = result.stops
        self._put_messages(group, result)
        self._put_quarantined(group, result, shift)

    def _put_messages(self, group: _Group, result: Outcome) -> None:
        gathered, numbers, reader = self._gathered, self._table.numbers, group.reader
        streams = gathered.streams[group.which]
        for rows in result.rows:
            numbers["messages"][streams] += np.bincount(rows.ranges, minlength=len(streams))
            decoded = np.bincount(rows.ranges, weights=rows.lengths, minlength=len(streams))
            numbers["bytes_decoded"][streams] += decoded.astype(np.int64)
            if rows.records is None or not reader.columns:
                continue
            which, records = group.which[rows.ranges], rows.records
            if reader.secrets:
                records = redacted(reader, records, gathered.streams[which] % 2 == TO_SERVER)
            arrivals = gathered.arrivals.take(gathered.arrival_of(rows.starts + rows.lengths), axis=0)
            arrays = [
                self._envelope(name, which, arrivals) if name in ENVELOPE_TYPES else records.column(name)
                for name in reader.columns
            ]
            batch = pa.RecordBatch.from_arrays(arrays, schema=reader.schema)
            self._out.messages.setdefault(reader.protocol.name, []).append(batch)

    def _envelope(self, column: str, which: Ints, arrivals: Ints) -> pa.Array:
        """Return where or when messages were seen, by their streams and the arrivals of their last bytes."""
        match column:
            case "capture":
                return _coded(arrivals[:, CAPTURE], self._table.captures)
            case "connection":
                return _coded(self._connection[which], self._ids)
            case "direction":
                return _coded(self._gathered.streams[which] % 2, DIRECTIONS)
            case "ts":
                return times(arrivals[:, TS])
            case _:
                return pa.array(arrivals[:, POSITION])

    def _put_quarantined(self, group: _Group, result: Outcome, shift: Ints) -> None:
        gathered, protocol = self._gathered, group.reader.protocol.name
        for range_ in sorted(result.quarantined, key=attrgetter("start")):
            stream = int(gathered.streams[group.which[range_.range]])
            arrival = gathered.arrivals[gathered.arrival_of(np.array([range_.start + range_.length]))][0]
            fault = RangeFault(range_.error.rule, range_.error.path, range_.error.detail, range_.data, protocol)
            offset, ts, capture = range_.start + int(shift[range_.range]), int(arrival[TS]), int(arrival[CAPTURE])
            row = quarantine_range(self._table, stream, offset, range_.length, ts, capture, fault)
            self._out.quarantined.append(row)

    def _pass(self, chunk: LooseChunk) -> None:
        """Go over bytes that are missing or do not belong to the stream; behind them a frame must be proved."""
        table, stream, length, ts, capture = self._table, chunk.stream, chunk.length, chunk.ts, chunk.capture
        reader = self._readers[int(table.reader[stream // 2])]
        protocol = reader.protocol.name
        if chunk.rule == GAP:
            row = quarantine_gap(table, stream, length, ts, capture, protocol)
        else:
            if chunk.rule == STRANGE_TIME:
                detail = "the time stamp of the packet lies before 1970 or behind 2099"
                fault = RangeFault("time_range", "", detail, chunk.data, protocol)
            else:
                fault = RangeFault("websocket", "", "no WebSocket frame begins here", chunk.data, protocol)
            offset = int(table.numbers["next_offset"][stream])
            row = quarantine_range(table, stream, offset, length, ts, capture, fault)
            table.numbers["next_offset"][stream] += length
        self._out.quarantined.append(row)
        if not reader.is_given:
            table.searches[stream] = torn()

    def _keep_pending(self) -> None:
        """Put away the pending bytes of each stream and their arrivals."""
        table, gathered, at, ends = self._table, self._gathered, self._at, self._gathered.ends
        table.numbers["next_offset"][gathered.streams] += ends - at
        changed = np.flatnonzero((at < ends) | (gathered.pending > 0))
        first, behind = gathered.arrival_of(at[changed] + 1), gathered.arrival_of(ends[changed]) + 1
        columns = (gathered.streams[changed], at[changed], ends[changed], first, behind)
        for stream, start, end, low, high in zip(*(column.tolist() for column in columns), strict=True):
            if start == end:
                table.pending[stream], table.arrivals[stream] = b"", NO_ARRIVALS
                continue
            arrivals = gathered.arrivals[low:high].copy()
            arrivals[:, 0] -= start
            table.pending[stream], table.arrivals[stream] = gathered.buf[start:end].tobytes(), arrivals


def _coded(numbers: Ints, texts: Sequence[str]) -> pa.Array:
    """Return the text of each number."""
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32)), pa.array(texts, pa.string()))
