"""Reading tap files (docs/tap-format.md): in windows, each as Chunks.

A kernel walks the records; Python sees only connections that open and close. ``TapConnections`` is what is remembered
from window to window and from file to file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...errors import CaptureError
from ...kernels import tap as kernels
from ..chunks import Chunks, Connection, Counts, connection_id
from ..write.tap import (
    BEGINS,
    CLOSE,
    CLOSE_BODY,
    ENDED,
    FILE_HEAD,
    FILE_HEAD_BYTES,
    MAGIC,
    OPEN,
    OPEN_BODY,
    VERSION,
)
from .files import unreadable

WINDOW = 16 << 20
MOST_NOTES = 20

# --- what is remembered

Key = tuple[bytes, int]
"""Set and number of a connection."""


@dataclass(slots=True)
class _Known:
    connection: Connection
    ends: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True)
class TapSnapshot:
    """The open connections of taps at some place of a capture."""

    known: dict[Key, _Known]

    def only(self, ids: set[str]) -> TapSnapshot:
        return TapSnapshot({key: one for key, one in self.known.items() if one.connection.id in ids})


class TapConnections:
    """The connections of all taps that are read, from window to window and from file to file."""

    def __init__(self, snapshot: TapSnapshot | None = None) -> None:
        self.known: dict[Key, _Known] = _copied(snapshot.known) if snapshot is not None else {}

    def snapshot(self) -> TapSnapshot:
        return TapSnapshot(_copied(self.known))

    def of(self, key: Key) -> _Known:
        """The connection; one of which no open record was seen is made here, and little is known of it."""
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = _Known(Connection(_id("", "", "", key), "", ""))
        return known

    def opened(self, key: Key, connection: Connection) -> None:
        if key not in self.known:
            self.known[key] = _Known(connection)


def _copied(known: dict[Key, _Known]) -> dict[Key, _Known]:
    return {key: _Known(replace(one.connection), one.ends) for key, one in known.items()}


def _id(client: str, server: str, first: str, key: Key) -> str:
    text = f"{client}|{server}|{first}|{key[0].hex()}|{key[1]}"
    return connection_id(server, text)


# --- reading


@dataclass(frozen=True, slots=True)
class TapMark:
    """A place in a tap file: all that is needed to go on there."""

    position: int
    set_id: bytes
    number: int
    seed: int


class TapReader:
    """Reads a tap file in windows, each as Chunks. A file that still grows is read to its last whole record; a Reader
    with ``start=mark()`` goes on there.
    """

    kind = "tap"

    def __init__(
        self,
        source: BinaryIO,
        connections: TapConnections,
        *,
        path: str = "",
        size: int = 0,
        start: TapMark | None = None,
        stop: int | None = None,
        window: int = WINDOW,
    ) -> None:
        self.connections = connections
        self.path = path
        self.size = size
        self.counts = Counts()
        self._source = source
        self._stop = stop
        self._window = max(window, 1)
        self._bad_from = -1
        self._begin = start.position if start is not None else 0
        self._mark = start
        if start is None:
            self._mark = self._read_head()
            self._begin = FILE_HEAD_BYTES if self._mark is not None else 0
        else:
            source.seek(start.position)
        self.position = self._begin

    def _read_head(self) -> TapMark | None:
        """The head of the file; None if it is not all there (yet)."""
        head = bytearray(FILE_HEAD_BYTES)
        del head[read_into(self._source, memoryview(head), self.path) :]
        self.counts.bytes += len(head)
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            raise CaptureError("not a tap file", path=self.path)
        if len(head) < FILE_HEAD_BYTES:
            self.counts.broken = f"the head of the file is incomplete: {len(head)} of {FILE_HEAD_BYTES} bytes"
            return None
        _, version, _, number, set_id, _ = FILE_HEAD.unpack(head[: FILE_HEAD.size])
        seed = zlib.crc32(head[: FILE_HEAD.size])
        if version != VERSION:
            raise CaptureError(f"a tap file of version {version}; this reads version {VERSION}", path=self.path)
        if seed != int.from_bytes(head[FILE_HEAD.size :], "little"):
            raise CaptureError("the head of the tap file is damaged (its CRC-32 is wrong)", path=self.path)
        return TapMark(FILE_HEAD_BYTES, set_id, number, seed)

    def mark(self) -> TapMark | None:
        """Where a later Reader goes on. None: at the beginning, as there is not even a head yet."""
        return None if self._mark is None else replace(self._mark, position=self.position)

    def __iter__(self) -> Iterator[Chunks]:
        if self._mark is None:
            return
        rest = np.empty(0, np.uint8)
        while len(buffer := self._more(rest)) > len(rest):
            base = self.position
            chunks, used = self._take(buffer, base, self._mark)
            rest = buffer[used:]
            self.position = base + used
            yield chunks
        self._tell_end(len(rest))

    def _more(self, rest: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What is left of the window before, and the next bytes of the file as far as it may be read."""
        count = self._window
        if self._stop is not None:
            count = min(count, max(0, self._stop - self.position - len(rest)))
        buffer = np.empty(len(rest) + count, np.uint8)
        buffer[: len(rest)] = rest
        found = read_into(self._source, buffer.data[len(rest) :], self.path)
        self.counts.bytes += found
        return buffer[: len(rest) + found]

    def _take(self, buffer: NDArray[np.uint8], base: int, mark: TapMark) -> tuple[Chunks, int]:
        # Between any two records there may be one range that is no record.
        room = 2 * (len(buffer) // kernels.LEAST + 1)
        kinds, details = np.empty(room, np.uint8), np.empty(room, np.uint8)
        numbers = np.empty(room, np.uint32)
        starts, lengths = np.empty(room, np.int64), np.empty(room, np.int64)
        count, used, self._bad_from = kernels.walk(
            buffer, base, mark.seed, _crc_tables(), self._bad_from, kinds, details, numbers, starts, lengths
        )
        records = _Records(buffer, kinds[:count], details[:count], numbers[:count], starts[:count], lengths[:count])
        self._tell_bad(records, base)
        self.counts.packets += int((records.kinds != kernels.BAD).sum())
        return self._chunks(records, base, mark.set_id), used

    def _chunks(self, records: _Records, base: int, set_id: bytes) -> Chunks:
        self._open(records, set_id)
        is_record = records.kinds != kernels.BAD
        present, within = np.unique(records.numbers[is_record], return_inverse=True)
        local = np.zeros(len(records.kinds), np.int32)
        local[is_record] = within
        known = [self.connections.of((set_id, int(number))) for number in present]
        ends = np.array([one.ends for one in known], np.int64).reshape(-1)
        last = np.array([-1 if (at := one.connection.last_us) is None else at for one in known], np.int64)
        arrays = _Arrays(2 * len(records.kinds))
        made, missing, repeated = kernels.order(
            records.buffer, base, records.kinds, records.details, local, records.starts, records.lengths,
            len(records.kinds), ends, last, *arrays.all,
        )  # fmt: skip
        self.counts.missing_bytes += int(missing)
        self.counts.repeated_bytes += int(repeated)
        for index, one in enumerate(known):
            one.ends = (int(ends[2 * index]), int(ends[2 * index + 1]))
            one.connection.last_us = int(last[index])
        _date_beginnings(known, local, records, is_record)
        self._close(records, set_id)
        connection, direction, offset, length, ts, start, position = (one[:made] for one in arrays.all)
        return Chunks(
            records.buffer,
            [one.connection for one in known],
            connection,
            direction,
            offset,
            length,
            ts,
            start,
            position,
        )

    def _open(self, records: _Records, set_id: bytes) -> None:
        for i in np.flatnonzero(records.kinds == OPEN):
            key = (set_id, int(records.numbers[i]))
            made = _connection(records.body(int(i)), int(records.details[i]), key)
            self.connections.opened(key, made)

    def _close(self, records: _Records, set_id: bytes) -> None:
        """Closed connections are not needed any more: their numbers are not used again."""
        for i in np.flatnonzero(records.kinds == CLOSE):
            one = self.connections.known.pop((set_id, int(records.numbers[i])), None)
            if one is not None:
                detail = int(records.details[i])
                one.connection.ended = ENDED[detail] if detail < len(ENDED) else ENDED[0]
                one.connection.ended_us = CLOSE_BODY.unpack(records.body(int(i)))[0]

    def _tell_bad(self, records: _Records, base: int) -> None:
        for i in np.flatnonzero(records.kinds == 0):
            self._note_bad(int(records.starts[i]) + base, int(records.lengths[i]))

    def _note_bad(self, position: int, count: int) -> None:
        notes = self.counts.notes
        if len(notes) < MOST_NOTES:
            notes.append(f"{count} bytes at {position} are no record, or a damaged one")
        elif len(notes) == MOST_NOTES:
            notes.append("there are more such places")

    def _tell_end(self, rest: int) -> None:
        self.counts.broken = getattr(self._source, "broken", "")
        if self._bad_from >= 0:
            self._note_bad(self._bad_from, self.position + rest - self._bad_from)
        elif rest and self._stop is None and not self.counts.broken:
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

    def body(self, i: int) -> bytes:
        return self.buffer[self.starts[i] : self.starts[i] + self.lengths[i]].tobytes()


class _Arrays:
    """Room for chunks."""

    def __init__(self, room: int) -> None:
        self.all: tuple[NDArray[Any], ...] = (
            np.empty(room, np.int32),
            np.empty(room, np.int8),
            *(np.empty(room, np.int64) for _ in range(5)),
        )


def _connection(body: bytes, detail: int, key: Key) -> Connection:
    """The connection of an open record."""
    opened_us, _, _, client_port, server_port, *sizes = OPEN_BODY.unpack_from(body)
    texts, at = [], OPEN_BODY.size
    for size in sizes:
        texts.append(body[at : at + size].decode(errors="replace"))
        at += size
    client, server, protocol = texts
    return Connection(
        _id(f"{client}:{client_port}", f"{server}:{server_port}", str(opened_us), key),
        client,
        server,
        client_port,
        server_port,
        first_us=opened_us,
        is_whole=detail == BEGINS,
        protocol=protocol or None,
    )


def _date_beginnings(
    known: list[_Known], local: NDArray[np.int32], records: _Records, is_record: NDArray[np.bool_]
) -> None:
    """A connection without an open record is known from its first record on."""
    for index, one in enumerate(known):
        if one.connection.first_us is None:
            first = int(np.flatnonzero(is_record & (local == index))[0])
            one.connection.first_us = int.from_bytes(records.body(first)[:8], "little", signed=True)


def read_into(source: BinaryIO, target: memoryview, path: str) -> int:
    """Fills as much of the target as the file has; unbuffered files may give less at a time."""
    done = 0
    try:
        while done < len(target) and (count := source.readinto(target[done:])):  # type: ignore[attr-defined]
            done += count
    except OSError as error:
        raise unreadable(path, error) from error
    return done


@cache
def _crc_tables() -> NDArray[np.uint32]:
    return kernels.crc_tables()
