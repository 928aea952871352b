"""Turn windows of captures into rows of ``bronze/chunks``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..capture.chunks import DIRECTIONS, Chunks
from ..columnar.schema import TIMESTAMP
from ..gold.by_connection import endpoint
from ..gold.tables import CHUNK_BYTES, CHUNKS


def times(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return microseconds as timestamps; negative ones are unknown."""
    return pa.array(values, mask=values < 0).cast(TIMESTAMP)


def chunk_rows(chunks: Chunks, capture: str, keep_bytes: bool) -> pa.RecordBatch:
    """Return the rows of a window. Gaps are not among them: they are in the quarantine."""
    rows = np.flatnonzero(chunks.start >= 0)
    connection = pa.array(chunks.connection[rows])
    connections = chunks.connections

    def spread(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).take(connection)

    arrays = [
        pa.array([capture], pa.string()).take(pa.array(np.zeros(len(rows), np.int8))),
        spread([one.id for one in connections]),
        pa.array(DIRECTIONS).take(pa.array(chunks.direction[rows])),
        pa.array(chunks.offset[rows]),
        times(chunks.ts[rows]),
        pa.array(chunks.length[rows]),
        pa.array(chunks.position[rows]),
        spread([endpoint(one.client, one.client_port) for one in connections]),
        spread([endpoint(one.server, one.server_port) for one in connections]),
    ]
    if not keep_bytes:
        return pa.RecordBatch.from_arrays(arrays, schema=CHUNKS)
    data = chunks.data
    spans = zip(chunks.start[rows].tolist(), chunks.length[rows].tolist(), strict=True)
    arrays.append(pa.array([data[start : start + length].tobytes() for start, length in spans], pa.binary()))
    return pa.RecordBatch.from_arrays(arrays, schema=CHUNKS.append(CHUNK_BYTES))
