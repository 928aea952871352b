"""The source of generated decoders: what it calls once, and what it leaves to the exact reader."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from wirelake.codec.compile_fields import Source, arguments
from wirelake.protocols import load
from wirelake.spec import Struct, When, be, blob, bool8, field, fixed, le, many, nested, text, within
from wirelake.spec.resolve import layout

ANY = layout(load("casual"))


class Point(Struct):
    """Two numbers."""

    x: int = field(be.u16)
    y: int = field(be.u16)


class Maybe(Struct):
    """A number that is there unless the first says that it is not."""

    kind: int = field(be.u8)
    value: int | None = field(be.u16, when=When("kind", none_of=(0,)), default=None)


def reader(*wires: Any) -> Any:
    """A decoder that returns the values as a tuple."""
    source = Source(ANY)
    values = [source.value(wire) for wire in wires]
    source.settle()
    source.emit("if p != n: return None")
    source.emit(f"return ({', '.join(values)},)")
    return source.made("test")


def read(data: bytes, *wires: Any) -> Any:
    return reader(*wires)(data, len(data))


def test_neighbours_of_fixed_size_are_read_by_one_call() -> None:
    made = reader(be.u8, nested(Point), fixed(3), bool8, be.i64)
    assert made.__doc__.count(" = s") == 1
    data = struct.pack(">BHH3sBq", 1, 2, 3, b"abc", 1, -4)
    assert made(data, len(data)) == (1, Point(2, 3), b"abc", True, -4)


def test_another_byte_order_needs_another_call() -> None:
    made = reader(be.u16, le.u16)
    assert made.__doc__.count(" = s") == 2
    assert made(b"\x00\x01\x01\x00", 4) == (1, 1)


@pytest.mark.parametrize(
    ("wire", "data", "value"),
    [
        (be.u24, "000102", 258),
        (le.u24, "020100", 258),
        (be.f32, "3f000000", 0.5),
        (text(be.u16), "0002c3a4", "ä"),
        (blob(be.u8), "020001", b"\x00\x01"),
        (many(be.u16, be.u8), "0200010002", (1, 2)),
        (many(be.u16, 2), "00010002", (1, 2)),
        (many(text(be.u8), be.u8), "0201610162", ("a", "b")),
        (many(be.u8, None), "010203", (1, 2, 3)),
        (nested(Maybe), "010005", Maybe(1, 5)),
        (nested(Maybe), "00", Maybe(0)),
    ],
)
def test_each_kind_of_value_is_read(wire: Any, data: str, value: Any) -> None:
    assert read(bytes.fromhex(data), wire) == (value,)


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        (bool8, "02"),
        (within(be.u8, 5, 9, "some_range"), "04"),
        (within(be.u8, 5, 9, "some_range"), "0a"),
        (text(be.u8, most=1), "026161"),
        (text(be.u8, least=1), "00"),
        (blob(be.u8), "0500"),
        (blob(be.i8), "ff"),
        (many(be.u64, be.u8), "ff"),
        (many(text(be.u8), be.i8), "ff"),
    ],
)
def test_what_breaks_a_rule_is_left_to_the_exact_reader(wire: Any, data: str) -> None:
    assert read(bytes.fromhex(data), wire) is None


def test_records_are_made_by_position_as_far_as_that_goes() -> None:
    assert arguments(Point, {"x": "v1", "y": "v2"}) == "v1, v2"
    assert arguments(Point, {"y": "v2"}) == "y=v2"
