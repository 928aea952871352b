"""Turn columns of frames into columns of structs, and back, batch by batch, in workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..capture.redact import REDACTED, filled
from ..codec import decode
from ..codec.encoder import encode_frame
from ..codec.quick_encoder import Encode, encoder_for
from ..columnar import Batch, decode_frames, schema
from ..columnar.row_to_message import kind_columns, message_of, node_of
from ..columnar.rows_to_messages import NotPlain, Read, message_reader, needed_columns
from ..errors import EncodeError, OptionError
from ..spec.nodes import Protocol
from ..spec.resolve import Layout, layout
from .options import Decoding, Encoding
from .schema import CORRUPT, function_columns

Ints = NDArray[np.int64]
_Kind = tuple[tuple[str, Any], ...]
"""What rows say of themselves: columns with their values."""


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
    """Return one frame per struct; null for null, and in PERMISSIVE mode for what cannot be encoded.

    Plain rows of one message are encoded together: only its columns are looked at, and how is found out once.
    """
    protocol = encoding.declared.load()
    if not pa.types.is_struct(structs.type):
        raise OptionError(f"to_{protocol.name} writes structs, not {structs.type}")
    columns = {
        field.name: structs.field(i)
        for i, field in enumerate(structs.type)
        if structs.field(i).null_count < len(structs)
    }
    frames: list[bytes | EncodeError | None] = [None] * len(structs)
    noted = _noted(columns) if encoding.captured else set()
    left = sorted(noted)
    for kind, all_places in _kinds(protocol, columns, structs).items():
        places = [place for place in all_places if place not in noted] if noted else all_places
        found = _plain_frames(_layout(protocol, encoding, dict(kind)), dict(kind), columns, places)
        left += [place for place, frame in zip(places, found, strict=True) if frame is None]
        for place, plain in zip(places, found, strict=True):
            frames[place] = plain
    for place, frame in _exact_frames(protocol, encoding, columns, left):
        frames[place] = frame
    errors = (frame for frame in frames if isinstance(frame, EncodeError))
    if encoding.mode != "PERMISSIVE" and (first := next(errors, None)) is not None:
        raise first
    return pa.array([frame if isinstance(frame, bytes) else None for frame in frames], pa.binary())


def _kinds(protocol: Protocol, columns: dict[str, pa.Array], structs: pa.Array) -> dict[_Kind, list[int]]:
    """Return the places of rows by what they say of themselves: which message they are, and in which reading."""
    names = [name for name in (*kind_columns(layout(protocol)), *protocol.options) if name in columns]
    values = [_hashable(columns[name]) for name in names]
    kinds: dict[_Kind, list[int]] = {}
    for place in np.flatnonzero(structs.is_valid().to_numpy(zero_copy_only=False)).tolist():
        kinds.setdefault(tuple(column[place] for column in values), []).append(place)
    return {tuple(zip(names, kind, strict=True)): places for kind, places in kinds.items()}


def _noted(columns: dict[str, pa.Array]) -> set[int]:
    """Return the places of rows with notes."""
    notes = columns["notes"].to_pylist() if "notes" in columns else []
    return {place for place, noted in enumerate(notes) if noted}


def _hashable(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return list(map(str, values)) if pa.types.is_nested(column.type) else values


def _plain_frames(
    chosen: Layout, kind: dict[str, Any], columns: dict[str, pa.Array], places: list[int]
) -> list[bytes | None]:
    """Return the frames of rows of one kind, None for those that are not plain."""
    try:
        node = node_of(chosen, kind)
    except EncodeError:
        return [None] * len(places)
    read, write = message_reader(chosen, node), _encoder(chosen)
    if read is None:
        return [None] * len(places)
    return [_plain_frame(read, write, row) for row in _rows(columns, needed_columns(node, columns), places)]


def _plain_frame(read: Read, write: Encode, row: dict[str, Any]) -> bytes | None:
    try:
        return write(read(row))
    except (NotPlain, EncodeError):
        return None


@lru_cache(maxsize=64)
def _encoder(layout: Layout) -> Encode:
    return encoder_for(layout)


def _rows(columns: dict[str, pa.Array], names: Iterable[str], places: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the rows at some places, with some of their columns."""
    if not places:
        return
    indices = pa.array(places, pa.int64())
    values = {name: columns[name].take(indices).to_pylist() for name in names}
    for row in range(len(places)):
        yield {name: column[row] for name, column in values.items()}


def _exact_frames(
    protocol: Protocol, encoding: Encoding, columns: dict[str, pa.Array], places: list[int]
) -> Iterator[tuple[int, bytes | EncodeError]]:
    """Yield for each place the frame of its row, or what is wrong with it."""
    for place, row in zip(places, _rows(columns, columns, places), strict=True):
        try:
            yield place, _exact_frame(protocol, encoding, row)
        except EncodeError as error:
            yield place, error


def _exact_frame(protocol: Protocol, encoding: Encoding, row: dict[str, Any]) -> bytes:
    chosen, notes = _layout(protocol, encoding, row), row.get("notes") if encoding.captured else None
    if not notes:
        return encode_frame(chosen, message_of(chosen, row))
    node = node_of(chosen, row)
    padded = node.padding is not None and node.padding.note in notes
    if REDACTED not in notes:
        return encode_frame(chosen, message_of(chosen, row), padded=padded)
    shortest = encode_frame(chosen, message_of(chosen, filled(protocol, node, row, "")), padded=padded)
    missing = max(0, (row.get("length") or 0) - len(shortest))
    return encode_frame(chosen, message_of(chosen, filled(protocol, node, row, "*" * missing)), padded=padded)


def _layout(protocol: Protocol, encoding: Encoding, row: dict[str, Any]) -> Layout:
    """Return the layout by the options; where they say ``auto``, by what the row says it was read with."""
    chosen = dict(encoding.reading)
    for name, option in protocol.options.items():
        if option.auto and chosen.get(name, option.default) == "auto" and row.get(name) in option.values:
            chosen[name] = row[name]
    return layout(protocol, **chosen)
