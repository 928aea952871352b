"""Encrypted streams: quarantined whole, in ranges of the same size wherever the capture is cut."""

from __future__ import annotations

from collections.abc import Iterator

from ..codec.stream import MAX_QUARANTINE
from .quarantine import Quarantine, RangeFault, Row
from .state import EncryptedRange, LooseChunk
from .stream_table import StreamTable

KEPT_BYTES = 64
"""What is kept of a range of encrypted bytes."""
_DETAIL = "TLS: the bytes cannot be read without its keys"


class EncryptedStreams:
    """Collects the bytes of encrypted streams into ranges."""

    def __init__(self, table: StreamTable, quarantine: Quarantine) -> None:
        self._table = table
        self._quarantine = quarantine

    def add(self, chunk: LooseChunk) -> Iterator[Row]:
        """Take a chunk or a gap; yield the rows of the ranges that it completes."""
        stream, numbers = chunk.stream, self._table.numbers
        if chunk.rule:
            yield from self.end(stream)
            yield self._quarantine.gap(stream, chunk.length, chunk.ts, chunk.capture, None)
            return
        numbers["bytes_in"][stream] += chunk.length
        at = 0
        while at < chunk.length:
            known = self._table.encrypted.setdefault(stream, EncryptedRange())
            taken = min(chunk.length - at, MAX_QUARANTINE - known.length)
            known.head += chunk.data[at : at + min(taken, KEPT_BYTES - len(known.head))]
            known.length += taken
            known.ts, known.position, known.capture = chunk.ts, chunk.position, chunk.capture
            numbers["next_offset"][stream] += taken
            at += taken
            if known.length == MAX_QUARANTINE:
                yield from self.end(stream)

    def end(self, stream: int) -> Iterator[Row]:
        """Yield the row of what has come of a range, if anything has."""
        known = self._table.encrypted.pop(stream, None)
        if known is not None and known.length:
            offset = int(self._table.numbers["next_offset"][stream]) - known.length
            fault = RangeFault("encrypted", "", _DETAIL, known.head, None)
            yield self._quarantine.range(stream, offset, known.length, known.ts, known.capture, fault)
