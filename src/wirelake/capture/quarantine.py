"""Quarantine: rows for ranges of bytes that could not be decoded, and for gaps.

Encrypted streams are quarantined whole, in ranges of the same size wherever the capture is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..codec.stream import MAX_QUARANTINE
from ..columnar.schema import TIMESTAMP, documented
from .chunks import DIRECTIONS, Ints
from .state import EncryptedRange, LooseChunk
from .stream_table import StreamTable

QUARANTINE = documented(
    ("capture", pa.string(), "the file or tap it came from"),
    ("connection", pa.string(), "the connection, the same in every run"),
    ("direction", pa.string(), "to_server or to_client"),
    ("offset", pa.int64(), "first byte of the range in its stream"),
    ("length", pa.int64(), "bytes of the range; of a gap, how many were never captured"),
    ("ts", TIMESTAMP, "when the last byte of the range arrived"),
    ("rule", pa.string(), "the broken rule; `gap` stands for bytes that were never captured"),
    ("path", pa.string(), "the field in which it was broken, if it was one"),
    ("detail", pa.string(), "what is wrong, in a sentence"),
    ("bytes", pa.binary(), "the bytes; null for a gap, and only the first ones of a range that is encrypted"),
    ("protocol", pa.string(), "the protocol of the connection; null if that is not known"),
)

KEPT_BYTES = 64
"""What is kept of a range of encrypted bytes."""

Row = tuple[str, str, str, int, int, int, str, str, str, bytes | None, str | None]
"""A row of the quarantine; its time is in microseconds, -1 if there is none."""


class RangeFault(NamedTuple):
    """What is wrong with a range of bytes."""

    rule: str
    path: str
    detail: str
    data: bytes | None
    protocol: str | None


def quarantine_range(
    table: StreamTable, stream: int, offset: int, length: int, ts: int, capture: int, fault: RangeFault
) -> Row:
    """Return the row of a range, and count its bytes as quarantined."""
    table.numbers["bytes_quarantined"][stream] += length
    return _row(table, stream, offset, length, ts, capture, fault)


def quarantine_gap(table: StreamTable, stream: int, length: int, ts: int, capture: int, protocol: str | None) -> Row:
    """Return the row of bytes that were never captured, and pass over them: they come next in their stream."""
    numbers = table.numbers
    offset = int(numbers["next_offset"][stream])
    numbers["bytes_missing"][stream] += length
    numbers["next_offset"][stream] += length
    fault = RangeFault("gap", "", f"{length} bytes were not captured", None, protocol)
    return _row(table, stream, offset, length, ts, capture, fault)


def _row(table: StreamTable, stream: int, offset: int, length: int, ts: int, capture: int, fault: RangeFault) -> Row:
    return (table.captures[capture], table.ids[stream // 2], DIRECTIONS[stream % 2], offset, length, ts, *fault)


def add_encrypted(table: StreamTable, chunk: LooseChunk) -> Iterator[Row]:
    """Take a chunk or a gap of an encrypted stream; yield the rows of the ranges that it completes."""
    stream, numbers = chunk.stream, table.numbers
    if chunk.rule == "gap":
        yield from end_encrypted(table, stream)
        yield quarantine_gap(table, stream, chunk.length, chunk.ts, chunk.capture, None)
        return
    numbers["bytes_in"][stream] += chunk.length
    at = 0
    while at < chunk.length:
        known = table.encrypted.setdefault(stream, EncryptedRange())
        taken = min(chunk.length - at, MAX_QUARANTINE - known.length)
        known.head += chunk.data[at : at + min(taken, KEPT_BYTES - len(known.head))]
        known.length += taken
        known.ts, known.position, known.capture = chunk.ts, chunk.position, chunk.capture
        numbers["next_offset"][stream] += taken
        at += taken
        if known.length == MAX_QUARANTINE:
            yield from end_encrypted(table, stream)


def end_encrypted(table: StreamTable, stream: int) -> Iterator[Row]:
    """Yield the row of the range that an encrypted stream has begun, if it has."""
    known = table.encrypted.pop(stream, None)
    if known is not None and known.length:
        offset = int(table.numbers["next_offset"][stream]) - known.length
        fault = RangeFault("encrypted", "", "TLS: the bytes cannot be read without its keys", known.head, None)
        yield quarantine_range(table, stream, offset, known.length, known.ts, known.capture, fault)


def quarantine_batch(rows: list[Row]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(QUARANTINE)
    arrays = [
        times(np.array(values, np.int64)) if field.name == "ts" else pa.array(values, field.type)
        for values, field in zip(columns, QUARANTINE, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE)


def times(ts: Ints) -> pa.Array:
    """Return a column of times; -1 stands for none."""
    unknown = ts < 0
    return pa.array(ts, mask=unknown if unknown.any() else None).cast(TIMESTAMP)
