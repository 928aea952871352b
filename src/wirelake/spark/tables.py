"""Windows of captures -> rows of bronze and silver: what the pipeline writes beside gold, and how its tables look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..capture.chunks import DIRECTIONS, Chunks
from ..columnar.schema import schema as columns_schema
from ..gold.connections import endpoint
from ..gold.facts import TIMESTAMP
from ..gold.marks import column
from ..spec.nodes import Protocol

CHUNKS = pa.schema(
    [
        column("capture", pa.string(), "the file or tap it came from"),
        column("connection", pa.string(), "the connection, the same in every run"),
        column("direction", pa.string(), "to_server or to_client"),
        column("offset", pa.int64(), "place of its first byte in the stream"),
        column("ts", TIMESTAMP, "when it could be read in order"),
        column("length", pa.int64(), "number of bytes"),
        column("position", pa.int64(), "place of its first byte in the (uncompressed) capture file"),
        column("client", pa.string(), "address and port of the side that connected"),
        column("server", pa.string(), "address and port of the other side"),
    ]
)
CHUNK_BYTES = column("bytes", pa.binary(), "the bytes; only with `--keep-bytes`")

ACCOUNTING = pa.schema(
    [
        column("connection", pa.string(), "the connection"),
        column("direction", pa.string(), "to_server or to_client"),
        column("bytes_in", pa.int64(), "stream bytes that came: decoded + quarantined + pending"),
        column("bytes_decoded", pa.int64(), "bytes of messages"),
        column("bytes_quarantined", pa.int64(), "bytes in `silver/quarantine`"),
        column("bytes_pending", pa.int64(), "bytes of a message that is not complete yet"),
        column("bytes_missing", pa.int64(), "bytes that were never captured"),
        column("messages", pa.int64(), "number of messages"),
        column("protocol", pa.string(), "what is spoken; null if that is not known"),
    ]
)


def silver_schema(protocol: Protocol) -> pa.Schema:
    """The table of a protocol: the envelope, then its fields."""
    given = columns_schema(protocol)
    front = {
        "capture": pa.field("capture", pa.string()),
        "connection": pa.field("connection", pa.string()),
        "direction": pa.field("direction", pa.string()),
        "ts": pa.field("ts", TIMESTAMP),
    }
    names = ("capture", "connection", "direction", "offset", "length", "ts", "message", "code", "notes", "raw_text")
    envelope = [front.get(name) or given.field(name) for name in names]
    return pa.schema([*envelope, *(field for field in given if field.name not in names)])


def times(values: np.ndarray[Any, Any]) -> pa.Array:
    """Microseconds as timestamps; negative ones are unknown."""
    return pa.array(values, mask=values < 0).cast(TIMESTAMP)


def chunk_rows(chunks: Chunks, capture: str, keep_bytes: bool) -> pa.RecordBatch:
    """The rows of bronze. Gaps are no chunks; quarantine has them."""
    there = np.flatnonzero(chunks.start >= 0)
    which = pa.array(chunks.connection[there])
    known = chunks.connections

    def spread(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).take(which)

    arrays = [
        pa.array([capture], pa.string()).take(pa.array(np.zeros(len(there), np.int8))),
        spread([one.id for one in known]),
        pa.array(DIRECTIONS).take(pa.array(chunks.direction[there])),
        pa.array(chunks.offset[there]),
        times(chunks.ts[there]),
        pa.array(chunks.length[there]),
        pa.array(chunks.position[there]),
        spread([endpoint(one.client, one.client_port) for one in known]),
        spread([endpoint(one.server, one.server_port) for one in known]),
    ]
    if not keep_bytes:
        return pa.RecordBatch.from_arrays(arrays, schema=CHUNKS)
    data = chunks.data
    spans = zip(chunks.start[there].tolist(), chunks.length[there].tolist(), strict=True)
    arrays.append(pa.array([data[start : start + length].tobytes() for start, length in spans], pa.binary()))
    return pa.RecordBatch.from_arrays(arrays, schema=CHUNKS.append(CHUNK_BYTES))
