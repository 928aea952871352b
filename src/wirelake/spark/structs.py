"""What the functions do in a worker: columns of frames to columns of structs, and back, batch by batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec import decode, encode
from ..columnar import Batch, decode_frames, schema
from ..columnar.messages import message_of
from ..errors import EncodeError, OptionError
from ..spec.nodes import Protocol
from ..spec.resolve import Layout, layout
from .options import Decoding, Encoding
from .schema import CORRUPT, function_columns

Ints = NDArray[np.int64]


@lru_cache(maxsize=256)
def struct_fields(how: Decoding) -> tuple[pa.Field, ...]:
    """The members of the structs that come out."""
    protocol = how.declared.load()
    what = f"from_{protocol.name}"
    fields = tuple(schema(protocol, function_columns(protocol, how.columns, what)))
    if how.corrupt is None:
        return fields
    if how.corrupt in {field.name for field in fields}:
        raise OptionError(f"{what}: columnNameOfCorruptRecord is {how.corrupt!r}, which is another column's name")
    return (*fields, pa.field(how.corrupt, CORRUPT))


def decode_column(how: Decoding, frames: pa.Array) -> pa.StructArray:
    """One struct per frame. A frame that is null gives null, one that cannot be decoded what the mode says."""
    protocol = how.declared.load()
    if not (pa.types.is_binary(frames.type) or pa.types.is_large_binary(frames.type)):
        raise OptionError(f"from_{protocol.name} reads binary values, not {frames.type}; cast the column to binary")
    fields = struct_fields(how)
    names = tuple(field.name for field in fields if field.name != how.corrupt)
    given = frames.drop_null() if frames.null_count else frames
    batch = decode_frames(protocol, given, names, **dict(how.reading))
    if how.mode == "FAILFAST" and len(batch.quarantined):
        _refuse(protocol, how, batch)
    places = frames.is_valid().to_numpy(zero_copy_only=False).nonzero()[0] if frames.null_count else None
    return _structs(fields, batch, len(frames), places)


def _refuse(protocol: Protocol, how: Decoding, batch: Batch) -> None:
    """Raises what the record codec has to say about the first bad frame: it knows the message and the bytes around."""
    decode(protocol, batch.quarantined.column("bytes")[0].as_py(), **dict(how.reading))
    raise AssertionError("the two decoders do not agree")


def _structs(fields: tuple[pa.Field, ...], batch: Batch, count: int, places: Ints | None) -> pa.StructArray:
    """Rows and rejects, each at the place of its frame."""
    has_reason = len(fields) > batch.records.num_columns
    arrays = list(batch.records.columns)
    if batch.records.num_rows == count:
        if has_reason:
            arrays.append(pa.nulls(count, CORRUPT))
        return pa.StructArray.from_arrays(arrays, fields=list(fields))
    assert batch.row_frames is not None and batch.quarantined_frames is not None
    rows = _spread(batch.row_frames, places, count)
    arrays = [array.take(rows) for array in arrays]
    missing = rows.is_null()
    if has_reason:
        rejects = _spread(batch.quarantined_frames, places, count)
        arrays.append(_reasons(batch.quarantined).take(rejects))
        missing = pa.compute.and_(missing, rejects.is_null())
    return pa.StructArray.from_arrays(arrays, fields=list(fields), mask=missing)


def _spread(which: Ints, places: Ints | None, count: int) -> pa.Array:
    """For each of ``count`` places the row that belongs there, or null."""
    rows = np.full(count, -1, np.int64)
    rows[which if places is None else places[which]] = np.arange(len(which))
    return pa.array(rows, mask=rows < 0)


def _reasons(rejects: pa.RecordBatch) -> pa.StructArray:
    columns = [rejects.column(name) for name in ("rule", "path", "error_offset", "detail", "bytes")]
    return pa.StructArray.from_arrays(columns, fields=list(CORRUPT))


# --- and back


def encode_column(how: Encoding, structs: pa.Array) -> pa.BinaryArray:
    """One frame per struct; null for null, and for what cannot be encoded if the mode says so."""
    protocol = how.declared.load()
    if not pa.types.is_struct(structs.type):
        raise OptionError(f"to_{protocol.name} writes structs, not {structs.type}")
    present = structs.is_valid().to_pylist()
    columns = {
        field.name: structs.field(i).to_pylist()
        for i, field in enumerate(structs.type)
        if structs.field(i).null_count < len(structs)
    }
    frames = [
        _frame(protocol, how, {name: values[i] for name, values in columns.items()}) if present[i] else None
        for i in range(len(structs))
    ]
    return pa.array(frames, pa.binary())


def _frame(protocol: Protocol, how: Encoding, row: dict[str, Any]) -> bytes | None:
    try:
        return encode(message_of(_layout(protocol, how, row), row))
    except EncodeError:
        if how.mode == "PERMISSIVE":
            return None
        raise


def _layout(protocol: Protocol, how: Encoding, row: dict[str, Any]) -> Layout:
    """What the options say; where they leave something open, what the row says it was read with."""
    chosen = dict(how.reading)
    for name, option in protocol.options.items():
        if option.auto and chosen.get(name, option.default) == "auto" and row.get(name) in option.values:
            chosen[name] = row[name]
    return layout(protocol, **chosen)
