"""Records of CEDA where speed matters: checked without being read, written from plain values, laid over each other.

The record codec decides what is right; what is done here agrees with it (tests compare them), and where something is
wrong, it is asked for the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...errors import EncodeError
from ...protocols.ceda import MAX_CELL_BYTES
from ...spec.declare import Cell

Record = Mapping[int, Any] | Iterable[Cell]
"""Values by number (int, float, str, bytes, None), or cells where the exact types matter."""

_NONE, _INT, _LONG, _SHORT, _FLOAT, _DOUBLE, _STRING, _BYTES = range(0, 16, 2)
_SIZES = {_NONE: 0, _INT: 4, _LONG: 8, _SHORT: 2, _FLOAT: 4, _DOUBLE: 8, _STRING: -1, _BYTES: -2}
STEPS = tuple(2 + _SIZES[low & 14] if _SIZES[low & 14] >= 0 else _SIZES[low & 14] for low in range(256))
"""By the first byte of a head: the bytes of the cell; -1 for a text, -2 for bytes, which have a length."""
_TYPES = {"NONE": _NONE, "INT": _INT, "LONG": _LONG, "SHORT": _SHORT, "FLOAT": _FLOAT, "DOUBLE": _DOUBLE}
_TYPES |= {"STRING": _STRING, "BYTES": _BYTES}
_PACK = {
    _INT: struct.Struct("<Hi").pack,
    _LONG: struct.Struct("<Hq").pack,
    _SHORT: struct.Struct("<Hh").pack,
    _FLOAT: struct.Struct("<Hf").pack,
    _DOUBLE: struct.Struct("<Hd").pack,
}
_BITS = {_FLOAT: struct.Struct("<HI").pack, _DOUBLE: struct.Struct("<HQ").pack}
_HEAD = struct.Struct("<H").pack
_RUN = struct.Struct("<HH").pack
_MAX_ID = 4094


def is_record(data: bytes, at: int, charset: str = "utf-8", errors: str = "strict") -> bool:
    """Whether a good record begins at ``at`` and ends with the data."""
    end = len(data)
    try:
        while at < end:
            low = data[at]
            if data[at + 1] == 0xFF and low >= 0xF0:
                return False
            step = STEPS[low]
            if step > 0:
                at += step
                continue
            start = at + 4
            size = data[at + 2] | data[at + 3] << 8
            at = start + size
            if size > MAX_CELL_BYTES:
                return False
            if step == -1:
                text = data[start:at]
                if not text.isascii() or charset != "utf-8":
                    text.decode(charset, errors)
    except (IndexError, UnicodeDecodeError):
        return False
    return at == end


def cells(body: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Number, type, start of the cell and of its value, for each cell of a good record."""
    at, end = 0, len(body)
    while at < end:
        head = body[at] | body[at + 1] << 8
        kind = head & 14
        start = at + 2
        stop = start + _SIZES[kind]
        if kind >= _STRING:
            start += 2
            stop = start + (body[at + 2] | body[at + 3] << 8)
        yield head >> 4, kind, at, start
        at = stop


def raw_cells(body: bytes) -> list[tuple[int, bytes]]:
    """The cells of a good record, as they are written, with their numbers."""
    found = [(fid, at) for fid, _, at, _ in cells(body)]
    edges = [at for _, at in found] + [len(body)]
    return [(fid, body[at:stop]) for (fid, at), stop in zip(found, edges[1:], strict=True)]


def octets(body: bytes, wanted: int) -> bytes | None:
    """The value of cell ``wanted`` of a good record, if it is one of bytes; of several the last one counts."""
    found = None
    for fid, kind, _, start in cells(body):
        if fid == wanted:
            found = None
            if kind == _BYTES:
                found = body[start : start + (body[start - 2] | body[start - 1] << 8)]
    return found


def without(body: bytes, *fids: int) -> bytes:
    """A good record less some of its cells."""
    return b"".join(raw for fid, raw in raw_cells(body) if fid not in fids)


def write_record(record: Record, charset: str = "utf-8") -> bytes:
    """The bytes of a record. Of plain values an int becomes an INT, or a LONG where it needs one; a float a DOUBLE."""
    if isinstance(record, Mapping):
        return b"".join([_write_value(fid, value, charset) for fid, value in record.items()])
    return b"".join([_write_cell(cell, charset) for cell in record])


def bytes_cell(fid: int, value: bytes) -> bytes:
    return _write(fid, _BYTES, value, "utf-8")


def _write_value(fid: int, value: Any, charset: str) -> bytes:
    if isinstance(value, str):
        return _write(fid, _STRING, value, charset)
    if isinstance(value, int):
        return _write(fid, _INT if -0x80000000 <= value < 0x80000000 else _LONG, value, charset)
    if isinstance(value, float):
        return _write(fid, _DOUBLE, value, charset)
    if value is None:
        return _write(fid, _NONE, value, charset)
    return _write(fid, _BYTES, value, charset)


def _write_cell(cell: Cell, charset: str) -> bytes:
    kind = _TYPES.get(cell.type)
    if kind is None:
        raise EncodeError(f"{cell.type!r} is not a field type", rule="cell_type", path=f"record[{cell.fid}]")
    flag = 1 if cell.group_bit else 0
    if cell.bits is not None and kind in _BITS:
        return _BITS[kind](_head(cell.fid, kind) | flag, cell.bits)
    written = _write(cell.fid, kind, cell.value, charset)
    return written if not flag else bytes((written[0] | 1,)) + written[1:]


def _head(fid: int, kind: int) -> int:
    if not 0 <= fid <= _MAX_ID:
        raise EncodeError(f"field id {fid} is not within 0..{_MAX_ID}", rule="cell_id", path=f"record[{fid}]")
    return fid << 4 | kind


def _write(fid: int, kind: int, value: Any, charset: str) -> bytes:
    head = _head(fid, kind)
    if kind == _NONE:
        return _HEAD(head)
    if kind < _STRING:
        try:
            return _PACK[kind](head, value)
        except (struct.error, OverflowError) as error:
            raise EncodeError(f"{value!r}: {error}", rule="int_range", path=f"record[{fid}]") from None
    return _write_run(head, value, charset, f"record[{fid}]")


def _write_run(head: int, value: Any, charset: str, path: str) -> bytes:
    if head & 14 == _STRING and isinstance(value, str):
        try:
            raw = value.encode(charset)
        except UnicodeEncodeError:
            raise EncodeError(f"is not {charset.upper()}", rule="text_utf8", path=path) from None
    elif head & 14 == _BYTES and isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
    else:
        raise EncodeError(f"{type(value).__name__} is no value of a record here", rule="field_type", path=path)
    if len(raw) > MAX_CELL_BYTES:
        raise EncodeError(f"{len(raw)} bytes, at most {MAX_CELL_BYTES}", rule="cell_limit", path=path)
    return _RUN(head, len(raw)) + raw
