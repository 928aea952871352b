"""What is undecided between two steps, as typed, versioned bytes in the lake. Reading it runs no code from it.

A carry is a dataclass. Its bytes are a header (magic, version, the wirelake that wrote it, the name of the dataclass,
size, checksum) and a compressed msgpack body that is decoded strictly into the annotated types: plain values,
dataclasses and containers by msgspec, tables as Arrow streams, arrays by their plain dtype. Raise ``VERSION`` when a
type changes.
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from typing import Any, NoReturn, TypeVar, get_args, get_origin

import msgspec
import numpy as np
import pyarrow as pa

from .. import __version__, errors
from ..errors import DecodeError, LakeError
from ..lake.store import Store

T = TypeVar("T")

MAGIC = b"wlcarry\n"
VERSION = 4
LARGEST = 1 << 30
"""Bytes of a body, packed or not. A lake may come from a stranger: it must not claim all memory."""
SMALL, RATIO = 64 << 20, 1000
"""A body may unpack to ``SMALL`` bytes, and to more if the file has a thousandth of them."""
_START = struct.Struct("<8sHB")
_BODY = struct.Struct("<BQI")
_CODEC = pa.Codec("zstd", compression_level=1)
_PLAIN_DTYPE = re.compile(r"[<|][iufb][1248]")
_ARROW = {pa.Table: pa.RecordBatchReader.read_all, pa.RecordBatch: pa.RecordBatchReader.read_next_batch}
_ERRORS = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, DecodeError)
}
_DAMAGE = (msgspec.MsgspecError, struct.error, ValueError, TypeError, RecursionError, OSError, pa.ArrowException)


def pack(value: Any) -> bytes:
    """Return the bytes of a carry, a dataclass."""
    body = msgspec.msgpack.encode(value, enc_hook=_plain)
    packed = bytes(_CODEC.compress(body))
    _check_size(len(body), len(packed))
    writer, kind = __version__.encode(), type(value).__name__.encode()
    start = _START.pack(MAGIC, VERSION, len(writer)) + writer
    return start + _BODY.pack(len(kind), len(body), zlib.crc32(body)) + kind + packed


def unpack(data: bytes, kind: type[T], place: str = "the carry") -> T:
    """Return the carry of this type in these bytes; raise LakeError about ``place`` if they are anything else."""
    try:
        body = _body(data, kind.__name__, place)
        return msgspec.msgpack.decode(body, type=kind, dec_hook=_typed)
    except _DAMAGE as error:
        _refuse(place, f"is damaged: {error}")


def read(store: Store, path: str, kind: type[T]) -> T:
    """Return the carry at this path of the lake."""
    return unpack(store.read(path, LARGEST), kind, store.show(path))


def _body(data: bytes, kind: str, place: str) -> bytes:
    if not data.startswith(MAGIC):
        _refuse(place, "is not a carry of this version of wirelake: an older one wrote it, or it is damaged")
    _, version, length = _START.unpack_from(data)
    at = _START.size + length
    writer = data[_START.size : at].decode()
    if version != VERSION:
        raise LakeError(
            place,
            f"has carry version {version}, written by wirelake {writer}; this is {__version__}, which reads version "
            f"{VERSION}: go on with that wirelake, or ingest the captures into a new lake",
        )
    length, size, checksum = _BODY.unpack_from(data, at)
    at += _BODY.size
    if (found := data[at : at + length].decode()) != kind:
        raise ValueError(f"it holds {found}, not {kind}")
    packed = data[at + length :]
    _check_size(size, len(packed))
    body = bytes(_CODEC.decompress(packed, decompressed_size=size))
    if zlib.crc32(body) != checksum:
        raise ValueError("the checksum does not fit")
    return body


def _check_size(size: int, packed: int) -> None:
    most = min(LARGEST, SMALL + packed * RATIO)
    if size > most:
        raise ValueError(f"a carry of {size} bytes, packed into {packed}; {most} is the most")


def _refuse(place: str, reason: str) -> NoReturn:
    raise LakeError(place, f"{reason}; ingest the captures into a new lake") from None


# --- what msgspec does not know


def _plain(value: Any) -> Any:
    match value:
        case np.ndarray():
            return [_dtype_name(value.dtype), value.shape, value.tobytes()]
        case np.generic():
            return value.item()
        case pa.Table() | pa.RecordBatch():
            return _stream(value)
        case DecodeError():
            return [type(value).__name__, vars(value)]
        case _:
            raise NotImplementedError(f"a carry cannot hold a {type(value).__name__}")


def _typed(kind: Any, value: Any) -> Any:
    kind, arguments = get_origin(kind) or kind, get_args(kind)
    if kind is np.ndarray:
        return _array(value, *get_args(arguments[1]) if arguments else ())
    if kind in _ARROW:
        return _rows(kind, value)
    if kind is DecodeError:
        return _error(value)
    raise NotImplementedError(f"a carry cannot hold a {kind}")


def _stream(rows: pa.Table | pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write(rows)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _rows(kind: type, value: bytes) -> Any:
    """Checked in full: a wrong offset within a column would lead anywhere."""
    rows = _ARROW[kind](pa.ipc.open_stream(value))
    rows.validate(full=True)
    return rows


def _dtype_name(dtype: np.dtype[Any]) -> Any:
    return dtype.str if dtype.names is None else [[name, dtype[name].str] for name in dtype.names]


def _dtype(name: Any) -> np.dtype[Any]:
    if isinstance(name, str) and _PLAIN_DTYPE.fullmatch(name):
        return np.dtype(name)
    if isinstance(name, list) and all(_PLAIN_DTYPE.fullmatch(str(field)) for _, field in name):
        return np.dtype([(str(field), kind) for field, kind in name])
    raise ValueError(f"{name!r} is no type of numbers")


def _array(value: Any, expected: Any = Any) -> np.ndarray[Any, Any]:
    name, shape, data = value
    dtype = _dtype(name)
    if expected is not Any and dtype != np.dtype(expected):
        raise ValueError(f"an array of {dtype} where {np.dtype(expected)} is expected")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array of {shape} {dtype} has {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape).copy()


def _error(value: Any) -> Any:
    name, state = value
    if name not in _ERRORS or not isinstance(state, dict) or not isinstance(state.get("detail"), str):
        raise ValueError(f"{name!r} is no error of a decoder")
    return errors.rebuild(_ERRORS[name], state)
