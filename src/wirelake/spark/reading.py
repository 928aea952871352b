"""Read captures for the formats: the planner cuts them into partitions, workers turn these into Arrow batches."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ..capture.decode import CaptureRange, DecodedWindow
from ..capture.partitions import Partition, decode_partition, plan
from ..capture.read import kind_of
from ..capture.read.files import compression_of, local_path
from ..capture.read.listing import NO_FILE, ListedFile, find
from ..capture.settings import ReadSettings
from ..errors import CaptureError, DecodeError, OptionError
from ..gold.facts import ENVELOPE, MESSAGES, facts, needed_columns
from ..spec.nodes import Protocol
from . import index_cache, session_settings
from . import schema as s
from .filters import Filters
from .options import ReadOptions
from .partition_columns import discover, refuse_collisions, value_of

OPEN_COST_BYTES = 4 << 20
"""What opening one more file costs, in bytes that could be read instead (as for Spark's own files)."""
SMALLEST_SPLIT = 16 << 20
"""Smaller files are not cut, and others not into smaller parts: to find out where costs a pass over the file."""
EVENNESS = 32
"""Partitions of a file are of one size but for a part in so many: a task takes as long as its bytes."""
MOST_ROWS = 10_000
"""Of a batch. With 2 000 a read takes clearly longer; 50 000 are about as quick and need more memory."""
KEPT_BYTES = 256 << 20
"""Freed memory that planner and workers keep for the next window: the system clears every page that it hands out, which
takes a tenth to a fifth of the processor time of decoding.
"""
_MOST_BYTES = 2**31 - 1
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h

Share = tuple[tuple[Partition | CaptureError, str], ...]
"""What one task reads: partitions, each with the kind of its captures, or why a file is none. Only the task knows
whether the session skips such files.
"""


@dataclass
class Table:
    """What to read and how its rows look. The planner makes it and sends it to the workers."""

    options: ReadOptions
    target: pa.Schema
    filters: Filters
    directories: tuple[pa.Field, ...] = ()
    """The columns that are not in messages but in the names of directories."""

    @classmethod
    def of(cls, options: ReadOptions, schema: StructType | None = None) -> Table:
        """Return the table with all its columns, or with those of the given schema."""
        available = _available(options)
        if schema is not None and not set(schema.names) <= set(available.names):
            available = _with_directories(options, available, schema)
        if schema is not None:
            s.check(schema, available, options.what)
        target = s.in_arrow(schema if schema is not None else default_schema(options))
        own = set(_available(options).names)
        return cls(options, target, Filters(target), tuple(field for field in target if field.name not in own))

    def reading(self, kind: str) -> ReadSettings:
        """Return how to read captures of a kind. Raw bytes are of the requested protocol, whatever they look like."""
        options = self.options
        names = {declared.load().name: declared.here for declared in options.protocols}
        is_given = len(names) == 1 and kind == "raw"
        made = ReadSettings(
            protocol=next(iter(names.values())) if is_given else None,
            protocols=tuple(names.values()),
            options={names[name]: dict(chosen) for name, chosen in options.reading},
            columns={declared.here: self._columns(declared.load()) for declared in options.protocols},
        )
        ports = {port: names[name] for port, name in options.ports}
        return replace(made, ports={**made.ports, **ports}) if ports else made

    def _columns(self, protocol: Protocol) -> tuple[str, ...]:
        """Return the columns to decode."""
        if self.options.is_common:
            return tuple(dict.fromkeys((*ENVELOPE, *needed_columns(protocol))))
        others = {self.options.corrupt, *(field.name for field in self.directories)}
        names = tuple(name for name in self.target.names if name not in others) or ("offset",)
        return tuple(dict.fromkeys((*names, "capture"))) if self.directories else names

    def batches(self, seen: DecodedWindow) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a window."""
        output = seen.output
        for protocol, records in output.messages.items():
            for batch in records:
                yield from self._rows(self._common(protocol, batch) if self.options.is_common else batch)
        if len(output.quarantine) and self.options.mode != "DROPMALFORMED":
            quarantined = self._quarantined(output.quarantine)
            if len(quarantined) and self.options.mode == "FAILFAST":
                raise self._refusal(quarantined)
            yield from self._rows(quarantined)

    def _common(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        declared = next(known for known in self.options.protocols if name in (known.here, known.load().name))
        protocol = declared.load()
        made = facts(protocol, batch, **dict(dict(self.options.reading).get(protocol.name, ())))
        return made.select(MESSAGES.names)

    def _quarantined(self, quarantine: pa.RecordBatch) -> pa.RecordBatch:
        """Return quarantined ranges of the requested protocols as rows: where each was captured, and why."""
        if not self.options.is_common:
            ours = self.options.protocols[0].load().name
            quarantine = quarantine.filter(pc.equal(quarantine.column("protocol"), ours))
        length = pc.min_element_wise(quarantine.column("length"), _MOST_BYTES).cast(pa.int32())
        columns = {name: quarantine.column(name) for name in s.ORIGIN.names} | {"length": length}
        if self.options.is_common:  # in the table of a protocol, its fields may have this name
            columns["protocol"] = quarantine.column("protocol")
        reasons = [quarantine.column(name) for name in s.CORRUPT.names]
        columns[self.options.corrupt] = pa.StructArray.from_arrays(reasons, fields=list(s.CORRUPT))
        return pa.RecordBatch.from_pydict(columns)

    def _refusal(self, quarantined: pa.RecordBatch) -> DecodeError:
        """Return the first quarantined range as an error: file, connection, offset, rule."""
        row = quarantined.slice(0, 1).to_pylist()[0]
        reason = row[self.options.corrupt]
        where = f"{row['capture']}, connection {row['connection']} {row['direction']}"
        error = DecodeError(
            f"{where}: {reason['detail']}", rule=reason["rule"], path=reason["path"] or "", offset=row["offset"]
        )
        error.protocol = row["protocol"] if self.options.is_common else self.options.protocols[0].load().name
        return error

    def _rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield a batch in exactly the form that Spark expects, in slices of bounded size."""
        if not len(batch):
            return
        arrays = [self._array(batch, field) for field in self.target]
        fitted = self.filters.apply(pa.RecordBatch.from_arrays(arrays, schema=self.target))
        for start in range(0, len(fitted), MOST_ROWS):
            yield fitted.slice(start, MOST_ROWS)

    def _array(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field in self.directories:
            array = self._directory_column(batch.column("capture"), field)
        elif field.name in batch.schema.names:
            array = s.fit(batch.column(field.name), field.type)
        else:
            array = pa.nulls(len(batch), field.type)
        if not field.nullable and array.null_count:
            raise OptionError(f"wrong schema for {self.options.what}: {field.name} is NOT NULL there, but null in rows")
        return array

    def _directory_column(self, captures: pa.Array, field: pa.Field) -> pa.Array:
        """Return what the directories of the captures say."""
        captures = s.fit(captures, pa.string())
        paths = pc.unique(captures)
        values = [value_of(path, self.options.places.keys(path), field) for path in paths.to_pylist()]
        return pa.array(values, field.type).take(pc.index_in(captures, paths))

    def reads(self, path: str) -> bool:
        """Return whether rows of this file can pass the filters."""
        keys = self.options.places.keys(path) if self.directories else ()
        values = {field.name: value_of(path, keys, field) for field in self.directories}
        if "capture" in self.target.names:
            values["capture"] = pa.scalar(path, self.target.field("capture").type)
        return self.filters.accept(values)


def _with_directories(options: ReadOptions, available: pa.Schema, wanted: StructType | None = None) -> pa.Schema:
    """Return all columns and those that directories make, with the types that are wanted."""
    fields = discover(options, options.places, infer=options.infers_partitions)
    refuse_collisions(fields, available.names, options.what)
    if wanted is not None:
        types = {field.name: field.type for field in s.in_arrow(wanted)}
        fields = [field.with_type(types.get(field.name, field.type)) for field in fields]
    return pa.schema([*available, *fields])


def _available(options: ReadOptions) -> pa.Schema:
    """Return all columns, including the one for corrupt records."""
    if options.is_common:
        fields = [field.remove_metadata() for field in MESSAGES]
    else:
        fields = list(s.format_schema(options.protocols[0].load()))
    if options.corrupt in {field.name for field in fields}:
        raise OptionError(
            f"{options.what}: columnNameOfCorruptRecord is {options.corrupt!r}, which is another column's name"
        )
    return pa.schema([*fields, pa.field(options.corrupt, s.CORRUPT)])


def default_schema(options: ReadOptions) -> StructType:
    """Return the columns that are read if the user gives no schema."""
    if options.columns is not None:
        names = options.columns
    elif options.is_common:
        names = tuple(MESSAGES.names)
    else:
        names = s.default_format_columns(options.protocols[0].load())
    if options.shows_corrupt and options.corrupt not in names:
        names = (*names, options.corrupt)
    own = _available(options)
    available = _with_directories(options, own)
    if options.columns is None:
        names = (*names, *available.names[len(own) :])
    return s.in_spark(s.choose(available, names, options.what))


@lru_cache(maxsize=1)
def keep_memory() -> None:
    """Let the allocator keep freed memory, where it is that of GNU. Only the first call in a process does anything."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if tune is not None:
        for setting in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            tune(setting, KEPT_BYTES)


# --- planning


def partitions(table: Table) -> list[Share]:
    """Return what each task reads."""
    keep_memory()
    options = table.options
    files = [file for file in find(options) if table.reads(file.path)]
    pieces: list[tuple[CaptureRange, str]] = []
    unreadable: list[CaptureError] = []
    for file in files:
        kind = _kind(file, options)
        if isinstance(kind, CaptureError):
            unreadable.append(kind)
        elif kind:
            pieces.append((CaptureRange(file.path, file.path, kind, size=file.size), kind))
    if unreadable and (options.skip_corrupt is not None or options.rotated):
        raise _hinted(unreadable[0])
    left: list[Share] = [tuple((error, "") for error in unreadable)] if unreadable else []
    if not pieces:
        return left
    if options.rotated:
        kind = pieces[0][1]
        total = sum(piece.size for piece, _ in pieces)
        return _shares(_planned(table, [piece for piece, _ in pieces], kind, total), kind)
    return [*_packed(table, pieces), *left]


def _most_bytes(total: int, limit: int) -> int:
    """Return the size of partitions of so many bytes with which all cores are busy to the end, none above the limit."""
    cores = os.cpu_count() or 1
    rounds = -(-total // (cores * limit))
    return min(limit, max(SMALLEST_SPLIT, -(-total // (cores * max(rounds, 1)))))


def _planned(table: Table, pieces: list[CaptureRange], kind: str, total: int) -> list[Partition]:
    """Cut captures that belong together into partitions of equal size. ``total``: the bytes of all that is read."""
    size, limit = sum(piece.size for piece in pieces), table.options.partition_bytes
    most = _most_bytes(total, limit)
    if size > most and any(compression_of(piece.path) for piece in pieces):
        most = limit  # every further task unpacks again what comes before
    even = -(-size // -(-size // most))
    reading = table.reading(kind)
    key = index_cache.key_of(pieces, reading, even) if table.options.index_cache and size > even else None
    if key is not None and (kept := index_cache.get(key, pieces)) is not None:
        return kept
    planned = plan(pieces, reading, partition_bytes=even, is_last=True, evenness=EVENNESS).partitions
    if key is not None:
        index_cache.put(key, planned)
    return planned


def _shares(planned: list[Partition], kind: str) -> list[Share]:
    """Make each partition a share. One that only ends connections joins the last that reads something."""
    shares: list[Share] = [((partition, kind),) for partition in planned]
    if len(shares) > 1 and not planned[-1].ranges:
        shares[-2:] = [shares[-2] + shares[-1]]
    return shares


def _packed(table: Table, pieces: list[tuple[CaptureRange, str]]) -> list[Share]:
    """Plan every file by itself: large ones make several shares, small ones join, so that all cores are busy."""
    total = sum(piece.size + OPEN_COST_BYTES for piece, _ in pieces)
    enough = min(table.options.partition_bytes, max(OPEN_COST_BYTES, total // (os.cpu_count() or 1)))
    shares: list[Share] = []
    small: list[tuple[Partition, str]] = []
    filled = 0
    for piece, kind in pieces:
        planned = _planned(table, [piece], kind, total)
        if len(planned) > 1:
            shares += _shares(planned, kind)
            continue
        if small and filled + piece.size > enough:
            shares.append(tuple(small))
            small, filled = [], 0
        small.append((planned[0], kind))
        filled += piece.size + OPEN_COST_BYTES
    return [*shares, tuple(small)] if small else shares


def _kind(file: ListedFile, options: ReadOptions) -> str | CaptureError:
    """Return the kind of a capture: empty for an empty file, or for one that is to be skipped, or why it has none."""
    if file.is_file and (options.kind or not file.size):
        return options.kind if file.size and options.kind else ""
    try:
        if not file.is_file:
            raise CaptureError(NO_FILE, path=file.path)
        return kind_of(file.path)
    except CaptureError as error:
        if options.skip_corrupt or (options.skip_missing and is_gone(file.path)):
            return ""
        return error


def _hinted(error: CaptureError) -> CaptureError:
    error.detail = f"{error.detail}; the option ignoreCorruptFiles skips such files"
    return error


def is_gone(path: str) -> bool:
    local = local_path(path)
    return local is not None and not local.exists()


# --- in a worker


def rows(table: Table, share: Share) -> Iterator[pa.RecordBatch]:
    keep_memory()
    session_settings.check(table.options.assumed)
    for partition, kind in share:
        try:
            if isinstance(partition, CaptureError):
                raise partition
            _, windows = decode_partition(partition, table.reading(kind))
            for window in windows:
                yield from table.batches(window)
        except CaptureError as error:
            paths = [error.path] if isinstance(partition, CaptureError) else [piece.path for piece in partition.ranges]
            if not _is_skipped(table.options, paths):
                raise _hinted(error) from None


def _is_skipped(options: ReadOptions, paths: Iterable[str]) -> bool:
    """Return whether the options, or the session, skip files that cannot be read."""
    if session_settings.is_on(session_settings.IGNORE_CORRUPT, options.skip_corrupt):
        return True
    is_lenient = session_settings.is_on(session_settings.IGNORE_MISSING, options.skip_missing)
    return is_lenient and any(map(is_gone, paths))
