"""Records of CEDA: checked without being read, taken apart, written from plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from ...codec.quick_records import record_checker, record_cutter
from ...codec.records import cells_writer
from ...protocols.ceda import PROTOCOL, RECORD, Publish
from ...spec.declare import Cell
from ...spec.resolve import layout

Record = Mapping[int, Any] | Iterable[Cell]
"""Values by number (int, float, str, bytes, None), or cells where the exact types matter."""

_KINDS = {str: "STRING", float: "DOUBLE", type(None): "NONE"}
is_record, cells = record_checker(RECORD), record_cutter(RECORD)


def raw_cells(body: bytes) -> list[tuple[int, bytes]]:
    """The cells of a good record, as they are written, with their numbers."""
    return [(cell.fid, body[cell.at : cell.stop]) for cell in cells(body)]


def octets(body: bytes, wanted: int) -> bytes | None:
    """The value of cell ``wanted`` of a good record, if it is one of bytes; of several the last one counts."""
    found = None
    for cell in cells(body):
        if cell.fid == wanted:
            found = body[cell.start : cell.stop] if cell.type == "BYTES" else None
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
