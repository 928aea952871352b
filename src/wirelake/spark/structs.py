"""Turn columns of frames into columns of structs, and back, batch by batch, in workers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec import decode, encode
from ..columnar import Batch, decode_frames, schema
from ..columnar.row_to_message import message_of
from ..errors import EncodeError, OptionError
from ..spec.nodes import Protocol
from ..spec.resolve import Layout, layout
from .options import Decoding, Encoding
from .schema import CORRUPT, function_columns

Ints = NDArray[np.int64]


@lru_cache(maxsize=256)
def struct_fields(decoding: Decoding) -> tuple[pa.Field, ...]:
    """Return the members of the structs."""
    protocol = decoding.declared.load()
    what = f"from_{protocol.name}"
    fields = tuple(schema(protocol, function_columns(protocol, decoding.columns, what)))
    if decoding.corrupt is None:
        return fields
    if decoding.corrupt in {field.name for field in fields}:
        raise OptionError(f"{what}: columnNameOfCorruptRecord is {decoding.corrupt!r}, which is another column's name")
    return (*fields, pa.field(decoding.corrupt, CORRUPT))


def decode_column(decoding: Decoding, frames: pa.Array) -> pa.StructArray:
    """Return one struct per frame. A null frame gives null; for an undecodable one, the mode decides."""
    protocol = decoding.declared.load()
    if pa.types.is_null(frames.type):
        frames = frames.cast(pa.binary())
    if not (pa.types.is_binary(frames.type) or pa.types.is_large_binary(frames.type)):
        raise OptionError(f"from_{protocol.name} reads binary values, not {frames.type}; cast the column to binary")
    fields = struct_fields(decoding)
    names = tuple(field.name for field in fields if field.name != decoding.corrupt)
    given = frames.drop_null() if frames.null_count else frames
    batch = decode_frames(protocol, given, names, **dict(decoding.reading))
    if decoding.mode == "FAILFAST" and len(batch.quarantined):
        _refuse(protocol, decoding, batch)
    return _structs(fields, batch, np.flatnonzero(frames.is_valid().to_numpy(zero_copy_only=False)), len(frames))


def _refuse(protocol: Protocol, decoding: Decoding, batch: Batch) -> None:
    """Raise the record codec's error for the first undecodable frame: it names the message and the bytes around."""
    decode(protocol, batch.quarantined.column("bytes")[0].as_py(), **dict(decoding.reading))
    raise AssertionError("the two decoders do not agree")


def _structs(fields: tuple[pa.Field, ...], batch: Batch, places: Ints, count: int) -> pa.StructArray:
    """Put decoded rows and errors at the places of their frames."""
    has_reason = len(fields) > batch.records.num_columns
    arrays = list(batch.records.columns)
    if batch.records.num_rows == count:
        if has_reason:
            arrays.append(pa.nulls(count, CORRUPT))
        return pa.StructArray.from_arrays(arrays, fields=list(fields))
    assert batch.row_frames is not None and batch.quarantined_frames is not None
    rows = spread(places[batch.row_frames], count)
    arrays = [array.take(rows) for array in arrays]
    missing = rows.is_null()
    if has_reason:
        quarantined = spread(places[batch.quarantined_frames], count)
        arrays.append(_reasons(batch.quarantined).take(quarantined))
        missing = pa.compute.and_(missing, quarantined.is_null())
    return pa.StructArray.from_arrays(arrays, fields=list(fields), mask=missing)


def spread(places: Ints, count: int) -> pa.Array:
    """Return for each of ``count`` places the number of the row that belongs there, or null."""
    rows = np.full(count, -1, np.int64)
    rows[places] = np.arange(len(places))
    return pa.array(rows, mask=rows < 0)


def _reasons(quarantined: pa.RecordBatch) -> pa.StructArray:
    columns = [quarantined.column(name) for name in ("rule", "path", "error_offset", "detail", "bytes")]
    return pa.StructArray.from_arrays(columns, fields=list(CORRUPT))


# --- structs -> frames


def encode_column(encoding: Encoding, structs: pa.Array) -> pa.BinaryArray:
    """Return one frame per struct; null for null, and in PERMISSIVE mode for what cannot be encoded."""
    protocol = encoding.declared.load()
    if not pa.types.is_struct(structs.type):
        raise OptionError(f"to_{protocol.name} writes structs, not {structs.type}")
    present = structs.is_valid().to_pylist()
    columns = {
        field.name: structs.field(i).to_pylist()
        for i, field in enumerate(structs.type)
        if structs.field(i).null_count < len(structs)
    }
    frames = [
        _frame(protocol, encoding, {name: values[i] for name, values in columns.items()}) if present[i] else None
        for i in range(len(structs))
    ]
    return pa.array(frames, pa.binary())


def _frame(protocol: Protocol, encoding: Encoding, row: dict[str, Any]) -> bytes | None:
    try:
        return encode(message_of(_layout(protocol, encoding, row), row))
    except EncodeError:
        if encoding.mode == "PERMISSIVE":
            return None
        raise


def _layout(protocol: Protocol, encoding: Encoding, row: dict[str, Any]) -> Layout:
    """Return the layout by the options; where they say ``auto``, by what the row says it was read with."""
    chosen = dict(encoding.reading)
    for name, option in protocol.options.items():
        if option.auto and chosen.get(name, option.default) == "auto" and row.get(name) in option.values:
            chosen[name] = row[name]
    return layout(protocol, **chosen)
