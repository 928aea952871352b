"""Windows of captures -> rows of bronze: what the pipeline writes beside silver and gold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..capture.chunks import DIRECTIONS, Chunks
from ..columnar.schema import TIMESTAMP
from ..gold.connections import endpoint
from ..gold.tables import CHUNK_BYTES, CHUNKS


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
