"""Integers and codes as ``struct`` reads and writes them, shared by everything that is compiled from a layout."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ..spec import nodes as n
from ..spec.resolve import Layout

FORMATS = {
    (1, False): "B", (2, False): "H", (4, False): "I", (8, False): "Q",
    (1, True): "b", (2, True): "h", (4, True): "i", (8, True): "q",
}  # fmt: skip


def code_position(layout: Layout) -> tuple[n.Code, int]:
    part = next(p for p in layout.frame.parts if isinstance(p, n.Code))
    return part, layout.size_before(part)


def code_bytes(part: n.Code, code: int) -> bytes:
    return code.to_bytes(part.wire.size, "little" if part.wire.little else "big", signed=part.wire.signed)


def byte_order(wire: n.Int | n.Float) -> str:
    return "<" if wire.little else ">"


def float_format(wire: n.Float) -> str:
    return byte_order(wire) + ("f" if wire.size == 4 else "d")


def unpacker(wire: n.Int | n.Float) -> Callable[[Any, int], tuple[Any]]:
    """Return what reads a number from a buffer at a position, as ``struct`` does, which knows none of three bytes."""
    if isinstance(wire, n.Float):
        return struct.Struct(float_format(wire)).unpack_from
    if wire.size != 3:
        return struct.Struct(byte_order(wire) + FORMATS[wire.size, wire.signed]).unpack_from

    def unpack(buffer: Any, at: int) -> tuple[int]:
        raw = buffer[at : at + 3]
        if len(raw) != 3:
            raise struct.error("three bytes are needed")
        return (int.from_bytes(raw, "little" if wire.little else "big", signed=wire.signed),)

    return unpack


def decoding(wire: n.Run[Any]) -> str:
    """Return the arguments of ``decode`` that read this text; none for strict UTF-8."""
    return "" if (wire.charset, wire.errors) == ("utf-8", "strict") else f"{wire.charset!r}, {wire.errors!r}"
