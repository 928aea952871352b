"""Numbers as ``struct`` reads them, and those of three bytes, which it does not know."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from wirelake.codec.numbers import code_bytes, code_position, float_format, unpacker
from wirelake.protocols import load
from wirelake.spec import be, le
from wirelake.spec.resolve import layout


@pytest.mark.parametrize(
    ("wire", "data", "value"),
    [
        (be.u8, "ff", 255),
        (be.i16, "fffe", -2),
        (le.u32, "01000000", 1),
        (be.u24, "010203", 0x010203),
        (le.u24, "010203", 0x030201),
        (be.i64, "ffffffffffffffff", -1),
        (le.f64, "000000000000f03f", 1.0),
        (be.f32, "3f800000", 1.0),
    ],
)
def test_a_number_is_read_at_its_place(wire: Any, data: str, value: float) -> None:
    assert unpacker(wire)(b"\x99" + bytes.fromhex(data) + b"\x99", 1) == (value,)


@pytest.mark.parametrize("wire", [be.u16, be.u24, le.f32])
def test_a_number_that_is_cut_off_raises(wire: Any) -> None:
    with pytest.raises(struct.error):
        unpacker(wire)(bytes(wire.size), 1)


def test_formats_of_floats_have_width_and_byte_order() -> None:
    assert [float_format(wire) for wire in (be.f32, be.f64, le.f32, le.f64)] == [">f", ">d", "<f", "<d"]


def test_the_code_of_a_frame_is_found_by_its_bytes() -> None:
    part, start = code_position(layout(load("casual")))
    assert (start, code_bytes(part, 0x1234)) == (0, bytes(part.wire.size - 2) + b"\x12\x34")
