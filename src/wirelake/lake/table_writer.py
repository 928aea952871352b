"""Rows to staged Parquet files, in directories by date.

Rows wait in memory until they fill a row group; the first full row group of a date opens a file. So a small batch, or
one with many dates, makes no small files, and both the waiting rows and the open files are bounded.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ..errors import LakeError
from .encodings import known_encodings
from .staging import Attempt, Sink, StagedFile, join
from .validation import is_table

ROW_GROUP_ROWS = 100_000
BUFFER_BYTES = 48 << 20
MAX_OPEN = 8
MAX_DATES = 256
"""Dates that may wait in memory at once; only clocks gone wild have that many."""

SENSOR = "sensor"
"""The first column of every table that holds rows of sensors."""

DAY_US = 86_400_000_000
NO_DATE = -(1 << 62)
FIRST_DAY = (np.datetime64("0001-01-01", "D") - np.datetime64("1970-01-01", "D")).astype(int)
LAST_DAY = (np.datetime64("9999-12-31", "D") - np.datetime64("1970-01-01", "D")).astype(int)
NULL_DATE = "date=__HIVE_DEFAULT_PARTITION__"


@dataclass(eq=False)
class _Part:
    """The rows of one date."""

    partition: str
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0
    sink: Sink | None = None
    name: str = ""
    rows: int = 0
    min_ts: int | None = None
    max_ts: int | None = None


@dataclass(eq=False)
class TableWriter:
    """Writes rows of one table; from ``attempt.table(…)``.

    ``dated_by`` names the column of times (``timestamp``, any unit) whose UTC date decides the directory; None for a
    table without dates. A row without a time, or with one outside the years 1 to 9999, goes to the null date.
    Batches need the columns of ``schema``, in any order; further columns are ignored. Texts may come as dictionaries,
    which are quicker to write; the file has texts.
    """

    attempt: Attempt
    table: str
    schema: pa.Schema
    dated_by: str | None = "ts"
    row_group_rows: int = ROW_GROUP_ROWS
    buffer_bytes: int = BUFFER_BYTES
    max_open: int = MAX_OPEN
    lasting: bool = False
    """The files are not soon merged with others: they are made smaller, which takes longer."""

    def __post_init__(self) -> None:
        if not is_table(self.table):
            raise LakeError(self.table, "is not a table of a lake: those are fixed, beside silver/<protocol>")
        if self.dated_by is not None and self.dated_by not in self.schema.names:
            raise ValueError(f"{self.table}: there is no column {self.dated_by!r} to take dates from")
        if self.dated_by is not None and "date" in self.schema.names:
            raise LakeError(self.table, "has a column 'date', but that is the name of the directories by date")
        self._parts: OrderedDict[int, _Part] = OrderedDict()
        self._waiting_bytes = 0
        self._file_count = 0
        self._files: list[StagedFile] = []
        self._is_closed = False
        text = f"{self.attempt.sensor and SENSOR}\n{self.schema.to_string(show_field_metadata=False)}"
        self._columns = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        self._given: pa.Schema | None = None
        """The schema with texts as they come."""

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add rows; some may stay in memory until more come."""
        if self._is_closed:
            raise ValueError(f"{self.table}: the writer is closed")
        for piece in batch.to_batches() if isinstance(batch, pa.Table) else (batch,):
            if piece.num_rows:
                self._add(self._fitted(piece))

    def close(self) -> list[StagedFile]:
        """Write the waiting rows and return the files, in the order they were finished; none without rows."""
        if not self._is_closed:
            while self._parts:
                self._finish(min(self._parts))
            self._is_closed = True
        return self._files

    def abort(self) -> None:
        """Drop everything. Aborting the attempt deletes the files."""
        for part in self._parts.values():
            if part.sink is not None:
                part.sink.abort()
        self._parts.clear()
        self._is_closed = True

    def _fitted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._given is not None and batch.schema.equals(self._given):
            return batch
        missing = set(self.schema.names) - set(batch.schema.names)
        if missing:
            raise ValueError(f"{self.table}: rows without the columns {', '.join(sorted(missing))}")
        if self._given is None:
            self._given = pa.schema([_as_given(field, batch.schema.field(field.name)) for field in self.schema])
        return batch.select(self._given.names).cast(self._given)

    def _add(self, batch: pa.RecordBatch) -> None:
        if self.dated_by is None:
            self._buffer(NO_DATE, batch, None)
            return
        times, known = _microseconds(batch.column(self.dated_by))
        for day, rows, at in _by_day(batch, times, known):
            self._buffer(day, rows, at)

    def _buffer(self, day: int, rows: pa.RecordBatch, times: NDArray[np.int64] | None) -> None:
        part = self._parts.get(day)
        if part is None:
            part = self._parts[day] = _Part("" if self.dated_by is None else partition_of(day))
        self._parts.move_to_end(day)
        size = rows.nbytes
        part.waiting.append(rows)
        part.waiting_rows += rows.num_rows
        part.waiting_bytes += size
        self._waiting_bytes += size
        if times is not None and len(times):
            low, high = int(times.min()), int(times.max())
            part.min_ts = low if part.min_ts is None else min(part.min_ts, low)
            part.max_ts = high if part.max_ts is None else max(part.max_ts, high)
        if part.waiting_rows >= self.row_group_rows:
            self._flush(part)
        while self._waiting_bytes > self.buffer_bytes:
            self._flush(max(self._parts.values(), key=lambda p: p.waiting_bytes))
        if len(self._parts) > MAX_DATES:
            self._finish(next(iter(self._parts)))

    def _flush(self, part: _Part) -> None:
        """Write the waiting rows of a date as row groups."""
        if not part.waiting:
            return
        table = pa.Table.from_batches(part.waiting, schema=self._given).unify_dictionaries()
        if self.attempt.sensor:
            zeros = pa.array(np.zeros(table.num_rows, np.int32))
            table = table.add_column(0, SENSOR, pa.DictionaryArray.from_arrays(zeros, [self.attempt.sensor]))
        if part.sink is None:
            part.sink = self._open(part, table)
        part.sink.write(table, self.row_group_rows)
        self._waiting_bytes -= part.waiting_bytes
        part.rows += part.waiting_rows
        part.waiting, part.waiting_rows, part.waiting_bytes = [], 0, 0

    def _open(self, part: _Part, table: pa.Table) -> Sink:
        opened = [day for day, other in self._parts.items() if other.sink is not None]
        if len(opened) >= self.max_open:
            self._finish(opened[0])
        attempt = self.attempt
        part.name = f"part-{attempt.staging.number:08d}-{attempt.task}-{self._file_count}.parquet"
        self._file_count += 1
        place = join(attempt.directory, self.table, part.partition, part.name)
        chosen = known_encodings((self.table, self._given), table, lasting=self.lasting)
        return Sink(attempt, place, lambda stream: pq.ParquetWriter(stream, table.schema, **chosen))

    def _finish(self, day: int) -> None:
        part = self._parts[day]
        self._flush(part)
        assert part.sink is not None
        size = part.sink.close()
        del self._parts[day]
        self._files.append(
            StagedFile(
                self.table,
                part.partition,
                part.sink.staged,
                part.name,
                part.rows,
                size,
                part.min_ts,
                part.max_ts,
                self.attempt.sensor,
                self._columns,
            )
        )


def _as_given(wanted: pa.Field, given: pa.Field) -> pa.Field:
    """Return a field as it is wanted; a dictionary of what is wanted stays one."""
    is_coded = pa.types.is_dictionary(given.type) and given.type.value_type == wanted.type
    return wanted.with_type(given.type) if is_coded else wanted


def partition_of(day: int) -> str:
    """Return the directory of a day since 1970."""
    return NULL_DATE if day == NO_DATE else f"date={np.datetime64(day, 'D')}"


def _microseconds(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return times as numbers, and which of them are not null (None: all)."""
    if not pa.types.is_timestamp(column.type):
        raise ValueError(f"dates are taken from a timestamp, not from {column.type}")
    if column.type.unit != "us":
        column = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False)
    numbers = pc.cast(column, pa.int64())
    if column.null_count == 0:
        return numbers.to_numpy(zero_copy_only=False), None
    return numbers.fill_null(0).to_numpy(zero_copy_only=False), column.is_valid().to_numpy(zero_copy_only=False)


def _by_day(
    batch: pa.RecordBatch, times: NDArray[np.int64], known: NDArray[np.bool_] | None
) -> Iterator[tuple[int, pa.RecordBatch, NDArray[np.int64]]]:
    """Yield the rows of each day, and their times. Rows of a day keep their order; a single day is not copied."""
    if known is None:
        low, high = int(times.min()) // DAY_US, int(times.max()) // DAY_US
        if low == high and FIRST_DAY <= low <= LAST_DAY:
            yield low, batch, times
            return
    days = times // DAY_US
    days[(days < FIRST_DAY) | (days > LAST_DAY)] = NO_DATE
    if known is not None:
        days[~known] = NO_DATE
    if np.any(days[1:] < days[:-1]):
        order = np.argsort(days, kind="stable")
        batch, days, times = batch.take(pa.array(order)), days[order], times[order]
        known = known[order] if known is not None else None
    edges = [0, *(np.flatnonzero(days[1:] != days[:-1]) + 1).tolist(), len(days)]
    for start, stop in pairwise(edges):
        here = slice(start, stop)
        at = times[here] if known is None else times[here][known[here]]
        yield int(days[start]), batch.slice(start, stop - start), at
