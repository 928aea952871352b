"""Small things over whole Arrow columns that pyarrow has no function for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)


def spread(values: Sequence[Any], index: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """One of a few values per row."""
    return pa.array(values, kind).take(pa.array(index))


def only(column: pa.Array, mask: Mask) -> pa.Array:
    """The column where the mask holds, null elsewhere."""
    return column if mask.all() else pc.if_else(pa.array(mask), column, pa.scalar(None, column.type))


def flags(column: pa.Array | None, size: int) -> Mask:
    """A boolean column as a mask; null is false."""
    if column is None:
        return np.zeros(size, np.bool_)
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_)


def integers(column: pa.Array, missing: int = 0) -> NDArray[np.int64]:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), missing).to_numpy(zero_copy_only=False), np.int64)


def with_nulls(values: NDArray[Any], valid: Mask, kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=~valid).cast(kind)


def _spans(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and bytes of a string or binary column."""
    kind = np.int64 if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type) else np.int32
    _, offsets, data = column.buffers()
    if offsets is None:
        return np.zeros(len(column) + 1, np.int64), np.zeros(0, np.uint8)
    spans = np.frombuffer(offsets, kind)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return spans, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)


def hexed(column: pa.Array) -> pa.Array:
    """Binary values as hex texts."""
    spans, data = _spans(column)
    if not len(column):
        return pa.array([], pa.string())
    text = _HEX[data[spans[0] : spans[-1]]]
    offsets = ((spans - spans[0]) * 2).astype(np.int32)
    valid = None
    if column.null_count:
        bits = np.packbits(pc.is_valid(column).to_numpy(zero_copy_only=False), bitorder="little")
        valid = pa.py_buffer(bits)
    return pa.StringArray.from_buffers(len(column), pa.py_buffer(offsets), pa.py_buffer(text), valid)


_SEED, _PRIME, _TURN = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD), np.uint64(29)


def hashed(column: pa.Array) -> NDArray[np.int64]:
    """A 64-bit hash of each value of a string or binary column: eight bytes of all values at a time."""
    spans, data = _spans(column)
    lengths = np.diff(spans)
    found = (lengths.astype(np.uint64) + np.uint64(1)) * _SEED
    padded = np.concatenate([data[spans[0] : spans[-1]] if len(column) else data[:0], np.zeros(8, np.uint8)])
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    starts = spans[:-1] - spans[0]
    rows = np.flatnonzero(lengths > 0)
    done = 0
    while len(rows):
        left = lengths[rows] - done
        word = words[starts[rows] + done] & (np.uint64(0xFFFFFFFFFFFFFFFF) >> (8 * np.maximum(8 - left, 0)).astype(np.uint64))
        mixed = (found[rows] ^ word) * _PRIME
        found[rows] = mixed ^ (mixed >> _TURN)
        rows = rows[left > 8]
        done += 8
    return found.view(np.int64)
