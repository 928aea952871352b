"""What the formats do in planners and workers: captures -> partitions -> Arrow batches in Spark's own form."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ..capture.decode import DecodedWindow, decode_partition
from ..capture.partitions import CaptureRange, Partition
from ..capture.plan import plan
from ..capture.read import kind_of
from ..capture.read.files import local_path, open_binary
from ..capture.settings import ReadSettings
from ..errors import CaptureError, DecodeError, OptionError
from ..gold.facts import ENVELOPE, MESSAGES, facts, needed_columns
from ..ingest.listing import Found, find
from ..spec.nodes import Protocol
from . import schema as s
from .filters import Filters
from .options import ReadOptions

OPEN_COST_BYTES = 4 << 20
"""What opening one more file costs, in bytes that could be read instead (as for Spark's own files)."""
MOST_ROWS = 50_000
_HEAD_BYTES = 8
_MOST_BYTES = 2**31 - 1

Share = tuple[tuple[Partition, str], ...]
"""What one task reads: partitions, each with the kind of its captures."""


@dataclass
class Table:
    """What is read and how its rows look. Made by the planner, sent to the workers."""

    options: ReadOptions
    available: pa.Schema
    target: pa.Schema
    filters: Filters

    @classmethod
    def of(cls, options: ReadOptions, schema: StructType | None = None) -> Table:
        """The table: with all its columns, or with those of the schema that is given."""
        available = _available(options)
        if schema is not None:
            s.check(schema, available, options.what)
        target = s.in_arrow(schema if schema is not None else _default_schema(options, available))
        return cls(options, available, target, Filters(target))

    def default_schema(self) -> StructType:
        return _default_schema(self.options, self.available)

    def push(self, filters: Sequence[Any]) -> list[Any]:
        return self.filters.push(filters)

    # --- reading

    def reading(self, kind: str) -> ReadSettings:
        """How captures of a kind are read. Raw bytes are of the protocol that is asked for, whatever they look like."""
        options = self.options
        names = {declared.load().name: declared.here for declared in options.protocols}
        is_told = len(names) == 1 and kind == "raw"
        made = ReadSettings(
            protocol=next(iter(names.values())) if is_told else None,
            protocols=tuple(names.values()),
            options={names[name]: dict(chosen) for name, chosen in options.reading},
            columns={declared.here: self._columns(declared.load()) for declared in options.protocols},
        )
        told = {port: names[name] for port, name in options.ports}
        return replace(made, ports={**made.ports, **told}) if told else made

    def _columns(self, protocol: Protocol) -> tuple[str, ...]:
        """What has to be decoded."""
        if self.options.is_common:
            return tuple(dict.fromkeys((*ENVELOPE, *needed_columns(protocol))))
        return tuple(name for name in self.target.names if name != self.options.corrupt) or ("offset",)

    def batches(self, seen: DecodedWindow) -> Iterator[pa.RecordBatch]:
        """The rows of a window."""
        output = seen.output
        for protocol, records in output.messages.items():
            for batch in records:
                yield from self._rows(self._common(protocol, batch) if self.options.is_common else batch)
        if len(output.quarantine) and self.options.mode != "DROPMALFORMED":
            bad = self._bad(output.quarantine)
            if len(bad) and self.options.mode == "FAILFAST":
                raise self._refusal(bad)
            yield from self._rows(bad)

    def _common(self, name: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        declared = next(one for one in self.options.protocols if name in (one.here, one.load().name))
        protocol = declared.load()
        made = facts(protocol, batch, **dict(dict(self.options.reading).get(protocol.name, ())))
        return made.select(MESSAGES.names)

    def _bad(self, quarantine: pa.RecordBatch) -> pa.RecordBatch:
        """Bad ranges of our protocols, as rows that have only where they were found, and why."""
        if not self.options.is_common:
            ours = self.options.protocols[0].load().name
            quarantine = quarantine.filter(pc.equal(quarantine.column("protocol"), ours))
        length = pc.min_element_wise(quarantine.column("length"), _MOST_BYTES).cast(pa.int32())
        columns = {name: quarantine.column(name) for name in s.ORIGIN.names} | {"length": length}
        if self.options.is_common:
            columns["protocol"] = quarantine.column("protocol")
        return pa.RecordBatch.from_pydict(columns | {self.options.corrupt: _reason(quarantine)})

    def _refusal(self, bad: pa.RecordBatch) -> DecodeError:
        """The first bad range as an error: file, connection, offset, rule."""
        row = bad.slice(0, 1).to_pylist()[0]
        reason = row[self.options.corrupt]
        where = f"{row['capture']}, connection {row['connection']} {row['direction']}"
        error = DecodeError(
            f"{where}: {reason['detail']}", rule=reason["rule"], path=reason["path"] or "", offset=row["offset"]
        )
        error.protocol = row["protocol"] if self.options.is_common else self.options.protocols[0].load().name
        return error

    def _rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """A batch exactly in the form that Spark wants, in pieces of bounded size."""
        if not len(batch):
            return
        arrays = [self._array(batch, field) for field in self.target]
        fitted = self.filters.apply(pa.RecordBatch.from_arrays(arrays, schema=self.target))
        for start in range(0, len(fitted), MOST_ROWS):
            yield fitted.slice(start, MOST_ROWS)

    def _array(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name in batch.schema.names:
            array = s.fit(batch.column(field.name), field.type)
        else:
            array = pa.nulls(len(batch), field.type)
        if not field.nullable and array.null_count:
            raise OptionError(f"wrong schema for {self.options.what}: {field.name} is NOT NULL there, but null in rows")
        return array


def _available(options: ReadOptions) -> pa.Schema:
    """All columns that there are; the one for what is corrupt among them."""
    if options.is_common:
        fields = [field.remove_metadata() for field in MESSAGES]
    else:
        fields = list(s.format_schema(options.protocols[0].load()))
    if options.corrupt in {field.name for field in fields}:
        raise OptionError(
            f"{options.what}: columnNameOfCorruptRecord is {options.corrupt!r}, which is another column's name"
        )
    return pa.schema([*fields, pa.field(options.corrupt, s.CORRUPT)])


def _default_schema(options: ReadOptions, available: pa.Schema) -> StructType:
    if options.columns is not None:
        names = options.columns
    elif options.is_common:
        names = tuple(MESSAGES.names)
    else:
        names = s.default_format_columns(options.protocols[0].load())
    if options.shows_corrupt and options.corrupt not in names:
        names = (*names, options.corrupt)
    return s.in_spark(s.choose(available, names, options.what))


def _reason(quarantine: pa.RecordBatch) -> pa.StructArray:
    columns = [quarantine.column(name) for name in s.CORRUPT.names]
    return pa.StructArray.from_arrays(columns, fields=list(s.CORRUPT))


# --- planning


def partitions(table: Table) -> list[Share]:
    """What each task reads."""
    options = table.options
    found = [one for one in find(options) if table.filters.accepts("capture", one.path)]
    pieces = [(piece, kind) for one in found if (kind := _kind(one, options)) for piece in [_piece(one, kind)]]
    if not pieces:
        return []
    if options.rotated:
        kind = pieces[0][1]
        return _shares(_planned(table, [piece for piece, _ in pieces], kind), kind)
    return _packed(table, pieces)


def _planned(table: Table, pieces: list[CaptureRange], kind: str) -> list[Partition]:
    """Captures that are one, cut into partitions of equal size: as many as it takes for none to be too large."""
    size, most = sum(piece.size for piece in pieces), table.options.partition_bytes
    even = -(-size // -(-size // most))
    return plan(pieces, table.reading(kind), partition_bytes=even, is_last=True).partitions


def _shares(planned: list[Partition], kind: str) -> list[Share]:
    """Each partition is a share; what only ends connections goes with the last one that reads something."""
    shares: list[Share] = [((partition, kind),) for partition in planned]
    if len(shares) > 1 and not planned[-1].pieces:
        shares[-2:] = [shares[-2] + shares[-1]]
    return shares


def _packed(table: Table, pieces: list[tuple[CaptureRange, str]]) -> list[Share]:
    """Every file for itself: large ones in several shares, small ones several in one, so that all cores have work."""
    total = sum(piece.size + OPEN_COST_BYTES for piece, _ in pieces)
    enough = min(table.options.partition_bytes, max(OPEN_COST_BYTES, total // (os.cpu_count() or 1)))
    shares: list[Share] = []
    small: list[tuple[Partition, str]] = []
    filled = 0
    for piece, kind in pieces:
        planned = _planned(table, [piece], kind)
        if len(planned) > 1:
            shares += _shares(planned, kind)
            continue
        if small and filled + piece.size > enough:
            shares.append(tuple(small))
            small, filled = [], 0
        small.append((planned[0], kind))
        filled += piece.size + OPEN_COST_BYTES
    return [*shares, tuple(small)] if small else shares


def _piece(found: Found, kind: str) -> CaptureRange:
    return CaptureRange(found.path, found.path, kind, size=found.size)


def _kind(found: Found, options: ReadOptions) -> str:
    """What kind of capture it is; empty if there is nothing in it, or if it is none and that is to be ignored."""
    if found.is_file and (options.kind or not found.size):
        return options.kind if found.size and options.kind else ""
    try:
        if not found.is_file:
            raise CaptureError("it is not a file", path=found.path)
        with open_binary(found.path) as file:
            return kind_of(found.path, file.read(_HEAD_BYTES))
    except CaptureError as error:
        if options.ignore_corrupt_files or (options.ignore_missing_files and _is_gone(found.path)):
            return ""
        raise _hinted(error) from None


def _hinted(error: CaptureError) -> CaptureError:
    error.detail = f"{error.detail}; with ignoreCorruptFiles such files are passed over"
    return error


def _is_gone(path: str) -> bool:
    local = local_path(path)
    return local is not None and not local.exists()


# --- in a worker


def rows(table: Table, share: Share) -> Iterator[pa.RecordBatch]:
    for partition, kind in share:
        try:
            _, seen = decode_partition(partition, table.reading(kind))
            for one in seen:
                yield from table.batches(one)
        except CaptureError as error:
            gone = any(_is_gone(piece.path) for piece in partition.pieces)
            if not (table.options.ignore_corrupt_files or (table.options.ignore_missing_files and gone)):
                raise _hinted(error) from None


__all__ = ["Table", "partitions", "rows"]
