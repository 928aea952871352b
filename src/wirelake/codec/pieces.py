"""What generated decoders call: values that are loops of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgpack import unpackb

from ..spec import nodes as n
from ..spec.declare import Cell
from ..spec.resolve import Layout
from .content import MAX_DEPTH, may_hold_timestamp, no_extension, read_msgpack
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
