"""Encrypted streams: quarantined whole, in ranges of the same size wherever the capture is cut."""

from __future__ import annotations

from collections.abc import Iterator

from ..codec.stream import MAX_QUARANTINE
from .quarantine import RangeFault, Row, quarantine_gap, quarantine_range
from .state import EncryptedRange, LooseChunk
from .stream_table import StreamTable

KEPT_BYTES = 64
"""What is kept of a range of encrypted bytes."""
_DETAIL = "TLS: the bytes cannot be read without its keys"


def add_encrypted(table: StreamTable, chunk: LooseChunk) -> Iterator[Row]:
    """Take a chunk or a gap of an encrypted stream; yield the rows of the ranges that it completes."""
    stream, numbers = chunk.stream, table.numbers
    if chunk.rule:
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
        fault = RangeFault("encrypted", "", _DETAIL, known.head, None)
        yield quarantine_range(table, stream, offset, known.length, known.ts, known.capture, fault)
