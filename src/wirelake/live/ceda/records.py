"""Records of CEDA where speed matters: checked without being read, written from plain values, laid over each other.

The record codec decides what is right; what is done here agrees with it (tests compare them), and where something is
wrong, it is asked for the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ...codec.records import cells_writer
from ...protocols.ceda import MAX_CELL_BYTES, PROTOCOL, Publish
from ...spec.declare import Cell
from ...spec.resolve import layout

Record = Mapping[int, Any] | Iterable[Cell]
"""Values by number (int, float, str, bytes, None), or cells where the exact types matter."""

_NONE, _INT, _LONG, _SHORT, _FLOAT, _DOUBLE, _STRING, _BYTES = range(0, 16, 2)
_SIZES = {_NONE: 0, _INT: 4, _LONG: 8, _SHORT: 2, _FLOAT: 4, _DOUBLE: 8, _STRING: -1, _BYTES: -2}
STEPS = tuple(2 + _SIZES[low & 14] if _SIZES[low & 14] >= 0 else _SIZES[low & 14] for low in range(256))
"""By the first byte of a head: the bytes of the cell; -1 for a text, -2 for bytes, which have a length."""


_KINDS = {str: "STRING", float: "DOUBLE", type(None): "NONE"}


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
        record = [Cell(fid, _KINDS.get(type(value)) or _kind(value), value) for fid, value in record.items()]
    return _writer(charset)(record, "record")


def bytes_cell(fid: int, value: bytes) -> bytes:
    return write_record({fid: value})


@lru_cache(maxsize=64)
def _writer(charset: str) -> Callable[[Iterable[Cell], str], bytes]:
    messages = layout(PROTOCOL, dialect="ceda4-ws", charset=charset).messages
    return cells_writer(messages[Publish.__message__["code"]].field("record").wire)


def _kind(value: Any) -> str:
    if isinstance(value, int):
        return "INT" if -0x80000000 <= value < 0x80000000 else "LONG"
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "BYTES")
