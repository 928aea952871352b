"""Read tap files (docs/tap-format.md) in windows, each as Chunks.

A kernel walks the records; Python sees only connections that open and close.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...errors import CaptureError
from ...kernels.times import LATEST_US, STRANGE
from .. import tap_format as form
from ..chunks import Chunks, Connection, Counts, connection_id
from ..lazy_kernels import tap as kernel
from . import ResumePoint, TapHead
from .files import CaptureFile

MOST_NOTES = 20
_TS = 4
"""Of the columns of chunks."""
_UNKNOWN = -1


@dataclass(slots=True)
class TapConnection:
    """A connection by the set of its files and its number there; how far each direction is known."""

    set_id: bytes
    number: int
    connection: Connection
    ends: tuple[int, int] = (_UNKNOWN, _UNKNOWN)

    def copy(self) -> TapConnection:
        return replace(self, connection=replace(self.connection))


@dataclass(frozen=True, slots=True)
class TapState:
    """The open connections of taps at some place of a capture: plain values."""

    connections: list[TapConnection] = field(default_factory=list)

    def only(self, ids: Collection[str]) -> TapState:
        return TapState([known for known in self.connections if known.connection.id in ids])


class TapConnections:
    """All open connections of the taps that are read."""

    def __init__(self, state: TapState | None = None) -> None:
        known = state.connections if state is not None else []
        self._known = {(tap.set_id, tap.number): tap.copy() for tap in known}

    def state(self) -> TapState:
        return TapState([known.copy() for known in self._known.values()])

    def of(self, set_id: bytes, number: int) -> TapConnection:
        """Return a connection; one whose open record was not seen is made here, and little is known of it."""
        key = (set_id, number)
        if key not in self._known:
            self._known[key] = TapConnection(*key, Connection(tap_connection_id("", "", "", "", *key), "", ""))
        return self._known[key]

    def open(self, set_id: bytes, number: int, connection: Connection) -> None:
        self._known.setdefault((set_id, number), TapConnection(set_id, number, connection))

    def close(self, set_id: bytes, number: int) -> Connection | None:
        """Forget a connection: its number is not used again."""
        known = self._known.pop((set_id, number), None)
        return known.connection if known is not None else None


def believed(ts: int) -> int | None:
    """Return a time, None if it is outside the range of times."""
    return ts if 0 <= ts < LATEST_US else None


def tap_connection_id(host: str, client: str, server: str, first: str, set_id: bytes, number: int) -> str:
    return connection_id(host, f"{client}|{server}|{first}|{set_id.hex()}|{number}")


class TapReader:
    """Reads a tap file in windows, each as Chunks, up to its last whole record. If the file grows, a reader with
    ``start=resume_point()`` goes on there.
    """

    kind = "tap"

    def __init__(self, source: CaptureFile, connections: TapConnections, start: ResumePoint | None = None) -> None:
        self.connections = connections
        self.path = source.path
        self.counts = Counts()
        self.source = source
        self._damaged_from = -1
        if start is not None and start.tap is not None:
            self._head: TapHead | None = start.tap
            self.position = start.position
            source.seek(start.position)
        else:
            self._head = self._read_head()
            self.position = form.FILE_HEAD_BYTES if self._head is not None else 0

    def _read_head(self) -> TapHead | None:
        """Return the head of the file; None if it is not all there (yet)."""
        head = self.source.head(form.FILE_HEAD_BYTES)
        self.counts.bytes += len(head)
        if head[: len(form.MAGIC)] != form.MAGIC[: len(head)]:
            raise CaptureError("not a tap file", path=self.path)
        if len(head) < form.FILE_HEAD_BYTES:
            self.counts.broken = f"the head of the file is incomplete: {len(head)} of {form.FILE_HEAD_BYTES} bytes"
            return None
        _, version, _, number, set_id, _ = form.FILE_HEAD.unpack(head[: form.FILE_HEAD.size])
        seed = zlib.crc32(head[: form.FILE_HEAD.size])
        if version != form.VERSION:
            raise CaptureError(
                f"the tap file has version {version}; this program reads version {form.VERSION}", path=self.path
            )
        if seed != int.from_bytes(head[form.FILE_HEAD.size :], "little"):
            raise CaptureError("the head of the tap file is damaged (its CRC-32 is wrong)", path=self.path)
        return TapHead(set_id, number, seed)

    def resume_point(self) -> ResumePoint:
        """Return where a later reader goes on: at the beginning, if the head of the file is not all there."""
        return ResumePoint(self.position, tap=self._head) if self._head is not None else ResumePoint(0)

    def __iter__(self) -> Iterator[Chunks]:
        if self._head is None:
            return
        rest = np.empty(0, np.uint8)
        while len(buffer := self.source.more(rest)) > len(rest):
            base = self.position
            self.counts.bytes += len(buffer) - len(rest)
            chunks, used = self._take(buffer, base, self._head)
            rest = buffer[used:]
            self.position = base + used
            yield chunks
        self._note_end(len(rest))

    def _take(self, buffer: NDArray[np.uint8], base: int, head: TapHead) -> tuple[Chunks, int]:
        # Between any two records there may be one range that is no record.
        room = 2 * (len(buffer) // kernel.LEAST + 1)
        kinds, details = np.empty(room, np.uint8), np.empty(room, np.uint8)
        numbers = np.empty(room, np.uint32)
        starts, lengths = np.empty(room, np.int64), np.empty(room, np.int64)
        count, used, self._damaged_from = kernel.walk(
            buffer, base, head.seed, kernel.crc_tables(), self._damaged_from, kinds, details, numbers, starts, lengths
        )
        records = _Records(buffer, kinds[:count], details[:count], numbers[:count], starts[:count], lengths[:count])
        for i in np.flatnonzero(records.kinds == kernel.DAMAGED):
            self._note(int(records.starts[i]) + base, int(records.lengths[i]))
        records = self._without_times(records)
        self.counts.packets += int((records.kinds != kernel.DAMAGED).sum())
        return self._chunks(records, base, head.set_id), used

    def _without_times(self, records: _Records) -> _Records:
        """Count the records that only tell a time, and leave them out: they belong to no connection."""
        is_time = records.kinds == form.TIME
        if not is_time.any():
            return records
        counts = self.counts
        counts.time_records += int(is_time.sum())
        for i in np.flatnonzero(is_time).tolist():
            us = believed(form.TIME_BODY.unpack(records.body(i))[0])
            if us is None:
                counts.strange_times += 1
            else:
                counts.silent_until_us = max(us, counts.silent_until_us or us)
        return records.where(~is_time)

    def _chunks(self, records: _Records, base: int, set_id: bytes) -> Chunks:
        self._open(records, set_id)
        is_record = records.kinds != kernel.DAMAGED
        present, within = np.unique(records.numbers[is_record], return_inverse=True)
        local = np.zeros(len(records.kinds), np.int32)
        local[is_record] = within
        known = [self.connections.of(set_id, int(number)) for number in present]
        ends = np.array([tap.ends for tap in known], np.int64).reshape(-1)
        last = np.array([-1 if (at := tap.connection.last_us) is None else at for tap in known], np.int64)
        columns = np.empty((kernel.CHUNK, 2 * len(records.kinds)), np.int64)
        made, missing, repeated = kernel.order(
            records.buffer, base, records.kinds, records.details, local, records.starts, records.lengths,
            len(records.kinds), ends, last, columns,
        )  # fmt: skip
        self.counts.strange_times += int((columns[_TS, :made] == STRANGE).sum())
        self.counts.missing_bytes += int(missing)
        self.counts.repeated_bytes += int(repeated)
        for index, tap in enumerate(known):
            tap.ends = (int(ends[2 * index]), int(ends[2 * index + 1]))
            tap.connection.last_us = believed(int(last[index]))
        _date_beginnings(known, local, records, is_record)
        self._close(records, set_id)
        return Chunks(records.buffer, [tap.connection for tap in known], *columns[:, :made])

    def _open(self, records: _Records, set_id: bytes) -> None:
        for i in np.flatnonzero(records.kinds == form.OPEN):
            number = int(records.numbers[i])
            made = _connection(records.body(int(i)), int(records.details[i]), set_id, number)
            self.connections.open(set_id, number, made)

    def _close(self, records: _Records, set_id: bytes) -> None:
        for i in np.flatnonzero(records.kinds == form.CLOSE):
            connection = self.connections.close(set_id, int(records.numbers[i]))
            if connection is not None:
                detail = int(records.details[i])
                connection.ended = form.ENDED[detail] if detail < len(form.ENDED) else form.ENDED[0]
                connection.ended_us = believed(form.CLOSE_BODY.unpack(records.body(int(i)))[0])

    def _note(self, position: int, count: int) -> None:
        notes = self.counts.notes
        if len(notes) < MOST_NOTES:
            notes.append(f"{count} bytes at {position} are not a record, or a damaged one")
        elif len(notes) == MOST_NOTES:
            notes.append("there are more such places")

    def _note_end(self, rest: int) -> None:
        self.counts.broken = self.source.broken
        if self._damaged_from >= 0:
            self._note(self._damaged_from, self.position + rest - self._damaged_from)
        elif rest and not self.counts.broken:
            self.counts.broken = f"the last record is incomplete: {rest} bytes at {self.position}"


@dataclass(slots=True)
class _Records:
    """The records of a window; ``starts`` and ``lengths`` are those of their bodies."""

    buffer: NDArray[np.uint8]
    kinds: NDArray[np.uint8]
    details: NDArray[np.uint8]
    numbers: NDArray[np.uint32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> _Records:
        kinds, details, numbers = self.kinds[chosen], self.details[chosen], self.numbers[chosen]
        return _Records(self.buffer, kinds, details, numbers, self.starts[chosen], self.lengths[chosen])

    def body(self, i: int) -> bytes:
        return self.buffer[self.starts[i] : self.starts[i] + self.lengths[i]].tobytes()


def _connection(body: bytes, detail: int, set_id: bytes, number: int) -> Connection:
    """Return the connection of an open record."""
    opened_us, _, _, client_port, server_port, *sizes = form.OPEN_BODY.unpack_from(body)
    texts, at = [], form.OPEN_BODY.size
    for size in sizes:
        texts.append(body[at : at + size].decode(errors="replace"))
        at += size
    client, server, protocol = texts
    ends = f"{client}:{client_port}", f"{server}:{server_port}"
    made = Connection(
        tap_connection_id(server, *ends, str(opened_us), set_id, number), client, server, client_port, server_port
    )
    made.first_us, made.is_whole, made.protocol = believed(opened_us), detail == form.BEGINS, protocol or None
    return made


def _date_beginnings(
    known: list[TapConnection], local: NDArray[np.int32], records: _Records, is_record: NDArray[np.bool_]
) -> None:
    """Date connections without an open record by their first record."""
    for index, tap in enumerate(known):
        if tap.connection.first_us is None:
            first = int(np.flatnonzero(is_record & (local == index))[0])
            tap.connection.first_us = believed(int.from_bytes(records.body(first)[:8], "little", signed=True))
