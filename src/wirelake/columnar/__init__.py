"""Many messages at a time: a buffer of frames -> Arrow columns, at memory speed.

    batch = wirelake.columnar.decode("casual", buffer)
    batch.records       # pyarrow.RecordBatch: offset, length, message, code, notes, raw_text, the protocol's fields
    batch.quarantined   # pyarrow.RecordBatch: undecodable bytes, with rule, path and offset

It never raises for what the bytes hold. Values and faults are those of the record codec, which is asked about every
frame that is not plain.
Without numba everything goes through the record codec: the same result, slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..spec.nodes import Protocol
from .decoder import MAX_BATCH_BYTES, Batch, ColumnarDecoder, decode_frames
from .schema import default_columns, schema

__all__ = ["Batch", "ColumnarDecoder", "decode", "decode_frames", "decode_stream", "default_columns", "schema"]


def decode(
    protocol: str | Protocol,
    buffer: bytes | bytearray | memoryview,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Batch:
    """Return the whole stream in ``buffer`` as one batch; a cut-off tail is quarantined as ``incomplete``."""
    more = len(buffer) + 1
    decoder = ColumnarDecoder(protocol, columns, batch_bytes=more, batch_rows=more, **options)
    batches = [*decoder.feed(buffer), *decoder.finish()]
    return batches[0] if batches else decoder.take_batch()


def decode_stream(
    protocol: str | Protocol,
    chunks: Iterable[bytes],
    columns: Sequence[str] | None = None,
    *,
    batch_bytes: int = MAX_BATCH_BYTES,
    **options: Any,
) -> Iterator[Batch]:
    """Yield a stream that comes in any pieces as batches of about ``batch_bytes``, which bounds the memory it takes."""
    decoder = ColumnarDecoder(protocol, columns, batch_bytes=batch_bytes, **options)
    for chunk in chunks:
        yield from decoder.feed(chunk)
    yield from decoder.finish()
