"""Columns without a value. Most columns of a protocol are empty in most batches: these share their memory."""

from __future__ import annotations

import pyarrow as pa

SHORTEST, LONGEST = 1 << 12, 1 << 18
MOST_KINDS = 256

_known: dict[pa.DataType, pa.Array] = {}


def nulls(size: int, kind: pa.DataType) -> pa.Array:
    """Return ``pa.nulls(size, kind)``, as a part of the longest column of the kind that was asked for so far."""
    if size > LONGEST:
        return pa.nulls(size, kind)
    known = _known.get(kind)
    if known is None or len(known) < size:
        if len(_known) >= MOST_KINDS:
            _known.clear()
        known = _known[kind] = pa.nulls(max(SHORTEST, 1 << (size - 1).bit_length()), kind)
    return known.slice(0, size)
