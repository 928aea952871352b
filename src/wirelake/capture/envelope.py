"""What streams give: message batches with their envelope, quarantined ranges, accounts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..spec.columns import columns as table_columns
from .chunks import DIRECTIONS, TO_SERVER
from .reading import AROUND, TIME, Way

Ints = NDArray[np.int64]

_QUARANTINE = (
    ("capture", pa.string(), "the file or tap it came from"),
    ("connection", pa.string(), "the connection, the same in every run"),
    ("direction", pa.string(), "to_server or to_client"),
    ("offset", pa.int64(), "first byte of the range in its stream"),
    ("length", pa.int64(), "bytes of the range; of a gap, how many were never captured"),
    ("ts", TIME, "when the last byte of the range was there"),
    ("rule", pa.string(), "the broken rule; `gap` stands for bytes that were never captured"),
    ("path", pa.string(), "the field in which it was broken, if it was one"),
    ("detail", pa.string(), "what is wrong, in a sentence"),
    ("bytes", pa.binary(), "the bytes; null for a gap, and only the first ones of a range that is encrypted"),
    ("protocol", pa.string(), "the protocol of the connection; null if that is not known"),
)
QUARANTINE = pa.schema([pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _QUARANTINE])
ACCOUNTS = pa.schema(
    [
        ("connection", pa.string()),
        ("direction", pa.string()),
        ("bytes_in", pa.int64()),
        ("bytes_decoded", pa.int64()),
        ("bytes_quarantined", pa.int64()),
        ("bytes_pending", pa.int64()),
        ("bytes_missing", pa.int64()),
        ("messages", pa.int64()),
        ("protocol", pa.string()),
    ]
)
_DIRECTIONS = pa.array(DIRECTIONS)
REDACTED = "redacted"


@dataclass(slots=True)
class Output:
    """What a piece of captures held.

    ``messages`` are batches by protocol, each stream's rows in order. ``accounts`` are cumulative, one row for each
    stream that was touched. ``foreign_bytes`` (of protocols that are not read) and ``envelope_bytes`` (of WebSocket)
    are counted by capture.
    """

    messages: dict[str, list[pa.RecordBatch]]
    quarantine: pa.RecordBatch
    accounts: pa.RecordBatch
    foreign_bytes: dict[str, int]
    envelope_bytes: dict[str, int]


@dataclass(slots=True)
class Seen:
    """Where and when rows were seen: number of stream in ``connections``, and the mark of the last byte of each."""

    connections: pa.Array
    connection: Ints
    direction: Ints
    captures: list[str]
    capture: Ints
    ts: Ints
    position: Ints

    def column(self, name: str) -> pa.Array:
        match name:
            case "capture":
                return _named(self.captures, self.capture)
            case "connection":
                return self.connections.take(pa.array(self.connection))
            case "direction":
                return _DIRECTIONS.take(pa.array(self.direction))
            case "ts":
                return times(self.ts)
            case "order":
                return pa.array(self.position)
            case _:
                raise AssertionError(name)


def _named(names: list[str], numbers: Ints) -> pa.Array:
    first = int(numbers[0])
    if (numbers == first).all():
        return pa.repeat(pa.scalar(names[first], pa.string()), len(numbers))
    return pa.array(names, pa.string()).take(pa.array(numbers))


def times(ts: Ints) -> pa.Array:
    unknown = ts < 0
    return pa.array(ts, mask=unknown if unknown.any() else None).cast(TIME)


def message_batch(way: Way, records: pa.RecordBatch, seen: Seen) -> pa.RecordBatch:
    """The columns that are wanted, in their order."""
    if way.secrets:
        records = _redacted(way, records, seen.direction == TO_SERVER)
    arrays = [seen.column(name) if name in AROUND else records.column(name) for name in way.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=way.schema)


def _redacted(way: Way, records: pa.RecordBatch, to_server: NDArray[np.bool_]) -> pa.RecordBatch:
    """The records without what only the server should read."""
    table = table_columns(way.protocol)
    for message, cells in way.secrets.items():
        is_it = pc.equal(records.column("message"), message).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_it & to_server)
        if not len(rows):
            continue
        node = way.readings.fallback.named(message)
        assert node is not None
        body = (node.body.column or node.body.key) if node.body is not None else None
        arrays = []
        for field, column in zip(records.schema, records.columns, strict=True):
            if field.name == body:
                column = _changed(column, rows, [None] * len(rows))
            elif field.name == "notes":
                told = column.take(pa.array(rows)).to_pylist()
                column = _changed(column, rows, [[*(notes or ()), REDACTED] for notes in told])
            elif field.name in table and table[field.name].kind == "cells":
                column = _changed(column, rows, _without(column.take(pa.array(rows)).to_pylist(), cells))
            arrays.append(column)
        records = pa.RecordBatch.from_arrays(arrays, schema=records.schema)
    return records


def _without(records: list[Any], cells: tuple[int, ...]) -> list[Any]:
    for record in records:
        for cell in record or ():
            if cell["fid"] in cells:
                cell.update({name: None for name in cell if name not in ("fid", "type")})
    return records


def _changed(column: pa.Array, rows: Ints, values: list[Any]) -> pa.Array:
    """The column with other values in some rows."""
    order = np.arange(len(column))
    order[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, pa.array(values, column.type)]).take(pa.array(order))


class Collected:
    """Gathers an output."""

    def __init__(self) -> None:
        self.messages: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self.quarantined: list[tuple[Any, ...]] = []
        self.accounts: list[pa.RecordBatch] = []
        self.foreign: Counter[str] = Counter()
        self.envelope: Counter[str] = Counter()

    def output(self) -> Output:
        columns = list(zip(*self.quarantined, strict=True)) or [()] * len(QUARANTINE)
        arrays = [
            times(np.array(values, np.int64)) if field.name == "ts" else pa.array(values, field.type)
            for values, field in zip(columns, QUARANTINE, strict=True)
        ]
        return Output(
            dict(self.messages),
            pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE),
            _joined(self.accounts),
            dict(self.foreign),
            dict(self.envelope),
        )


def _joined(accounts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(accounts) == 1:
        return accounts[0]
    if not accounts:
        return pa.RecordBatch.from_pylist([], ACCOUNTS)
    return pa.concat_batches(accounts)
