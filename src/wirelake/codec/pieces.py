"""What generated decoders call: values that are loops of their own."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from msgpack import unpackb

from ..spec import nodes as n
from ..spec.declare import Cell
from ..spec.resolve import Layout
from .content import MAX_DEPTH, may_hold_timestamp, no_extension, read_msgpack
from .numbers import byte_order, unpacker
from .walk import read_signature


def unpack_msgpack(raw: bytes) -> Any:
    if len(raw) > MAX_DEPTH:
        return read_msgpack(raw)
    if 0xFF in raw and may_hold_timestamp(raw):
        raise ValueError
    return unpackb(raw, strict_map_key=False, ext_hook=no_extension)


def unpack_map(raw: bytes) -> Any:
    value = unpack_msgpack(raw)
    if type(value) is not dict:
        raise ValueError
    return value


def signature_reader(wire: n.Signature[Any], layout: Layout) -> Callable[[tuple[Cell, ...]], Any]:
    fid = wire.fid

    def read(cells: tuple[Cell, ...]) -> Any:
        for cell in cells:
            if cell.fid == fid:
                return read_signature(wire, cells, layout)
        return None

    return read


def decoding(wire: n.Run[Any]) -> str:
    """The arguments of ``decode`` that read this text; none for strict UTF-8."""
    return "" if (wire.charset, wire.errors) == ("utf-8", "strict") else f"{wire.charset!r}, {wire.errors!r}"


class UncleanError(Exception):
    """A message with cells that no sender writes, see ``is_clean``; whether it is valid was not asked."""


def clean_cells_reader(wire: n.Cells[Any]) -> Callable[[bytes, int, int], tuple[Cell, ...] | None]:
    """Read cells as ``cells_reader`` does, but give up at once where they are not clean."""
    read = cells_reader(wire)
    head, size = unpacker(wire.head), wire.head.size
    sizes = [_cell_size(kind.wire) for kind in wire.types]

    def read_clean(b: bytes, p: int, end: int) -> tuple[Cell, ...] | None:
        first, seen = p, set()
        while p < end:
            (bits,) = head(b, p)
            fid = bits >> wire.id_shift
            known = sizes[bits >> wire.type_shift & wire.type_mask]
            if fid in seen or bits & wire.flag_mask or known is None:
                raise UncleanError
            seen.add(fid)
            length, unpack = known
            p += size + length
            if unpack is not None:
                p += unpack(b, p - length)[0]
        return read(b, first, end)

    return read_clean


def _cell_size(wire: Any) -> tuple[int, Any] | None:
    """Bytes of a value, or of its length and what reads that; None where there is no value."""
    match wire:
        case None:
            return None
        case n.Run(length=n.Int() as length):
            return length.size, unpacker(length)
        case _:
            return wire.size, None


def cells_reader(wire: n.Cells[Any]) -> Callable[[bytes, int, int], tuple[Cell, ...] | None]:
    head = unpacker(wire.head)
    head_size = wire.head.size
    id_shift, type_shift, type_mask, flag_mask, id_max = (
        wire.id_shift,
        wire.type_shift,
        wire.type_mask,
        wire.flag_mask,
        wire.id_max,
    )
    readers: list[tuple[str, Any, int, bool, bool, int]] = []
    for kind in wire.types:
        match kind.wire:
            case None:
                readers.append((kind.name, None, 0, False, False, 0))
            case n.Int(size=size) as number:
                unpack = unpacker(number)
                readers.append((kind.name, unpack, size, False, False, 0))
            case n.Float(size=size) as real:
                unpack = struct.Struct(byte_order(real) + ("f" if size == 4 else "d")).unpack_from
                readers.append((kind.name, unpack, size, False, False, 0))
            case n.Run(length=n.Int() as length, content=content, most=most):
                unpack = unpacker(length)
                # A text in another character set gets a closer look.
                plain = content == "bytes" or not decoding(kind.wire)
                readers.append(
                    (kind.name, unpack, length.size, True, content != "bytes", (most or 1 << 62) if plain else -1)
                )
            case _:
                raise AssertionError(f"{kind!r} is not a cell type")

    def read(b: bytes, p: int, end: int) -> tuple[Cell, ...] | None:
        found = []
        while p < end:
            (bits,) = head(b, p)
            p += head_size
            fid = bits >> id_shift
            if bits & flag_mask or fid > id_max:
                return None
            name, unpack, size, is_run, is_text, most = readers[bits >> type_shift & type_mask]
            if unpack is None:
                found.append(Cell(fid, name))
                continue
            (value,) = unpack(b, p)
            p += size
            if is_run:
                if value > most:
                    return None
                start = p
                p += value
                value = b[start:p].decode() if is_text else b[start:p]
            elif value != value:
                return None
            found.append(Cell(fid, name, value))
        return tuple(found) if p == end else None

    return read
