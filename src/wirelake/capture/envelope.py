"""The envelope of a message: in which capture, on which connection, in which direction and when it was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..columnar.schema import TIMESTAMP
from .chunks import DIRECTIONS, Ints

ENVELOPE_TYPES = {
    "capture": pa.string(),
    "connection": pa.string(),
    "direction": pa.string(),
    "ts": TIMESTAMP,
    "order": pa.int64(),
}
"""Columns that a message has because of where and when it was seen."""
_DIRECTIONS = pa.array(DIRECTIONS)


@dataclass(slots=True)
class Envelope:
    """Where and when rows were seen, one entry each; ``connection`` and ``capture`` count within the names."""

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
    return pa.array(ts, mask=unknown if unknown.any() else None).cast(TIMESTAMP)


def message_batch(
    records: pa.RecordBatch, envelope: Envelope, columns: Sequence[str], schema: pa.Schema
) -> pa.RecordBatch:
    """Return the records with their envelope: these columns, in this order."""
    arrays = [envelope.column(name) if name in ENVELOPE_TYPES else records.column(name) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
