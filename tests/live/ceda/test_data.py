"""Records of CEDA: what is checked and written quickly agrees with the record codec, on good and on bad bytes."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirelake
from wirelake.errors import DecodeError, EncodeError
from wirelake.live.ceda.data import is_record, octets, raw_cells, without, write_record
from wirelake.live.ceda.wire import decode_payload
from wirelake.protocols import ceda as p
from wirelake.spec import Cell

FIDS = st.integers(0, 4094)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
CELLS = st.one_of(
    st.builds(Cell, FIDS, st.just("NONE")),
    st.builds(Cell, FIDS, st.just("INT"), st.integers(-(2**31), 2**31 - 1)),
    st.builds(Cell, FIDS, st.just("LONG"), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Cell, FIDS, st.just("SHORT"), st.integers(-(2**15), 2**15 - 1)),
    st.builds(Cell, FIDS, st.just("FLOAT"), st.floats(width=32, allow_nan=False)),
    st.builds(Cell, FIDS, st.just("DOUBLE"), st.floats(allow_nan=False)),
    st.builds(Cell, FIDS, st.just("STRING"), TEXTS),
    st.builds(Cell, FIDS, st.just("BYTES"), st.binary(max_size=20)),
)


def codec_writes(record: tuple[Cell, ...]) -> bytes:
    frame = wirelake.encode(p.Publish(topic="", record=record), dialect="ceda4-ws")
    return frame[6:] if frame[1] == 126 else frame[4:]


def codec_accepts(body: bytes, **options: str) -> bool:
    try:
        decode_payload(b"\x61\x00" + body, "ceda4-ws", **options)
    except DecodeError as error:
        assert error.body_only
        return False
    return True


@given(st.lists(CELLS, max_size=6))
def test_cells_are_written_as_the_codec_writes_them(cells: list[Cell]) -> None:
    assert write_record(cells) == codec_writes(tuple(cells))


@given(st.lists(CELLS, max_size=6), st.booleans())
def test_the_group_bit_and_the_bits_of_numbers_are_kept(cells: list[Cell], group_bit: bool) -> None:
    odd = [Cell(c.fid, c.type, c.value, group_bit=group_bit) for c in cells]
    odd += [Cell(1, "FLOAT", math.nan, bits=0x7FC00001), Cell(2, "DOUBLE", math.nan, bits=0x7FF8000000000002)]
    assert write_record(odd) == codec_writes(tuple(odd))


@given(st.lists(CELLS, max_size=6), st.integers(0, 200), st.integers(0, 255), st.integers(-3, 3))
def test_a_record_is_good_exactly_if_the_codec_says_so(cells: list[Cell], at: int, byte: int, more: int) -> None:
    body = bytearray(write_record(cells))
    if body:
        body[at % len(body)] = byte
    body = body[:more] if more < 0 else body + bytes(more)
    assert is_record(bytes(body), 0) == codec_accepts(bytes(body))


@given(st.binary(max_size=60))
def test_any_bytes_are_judged_as_the_codec_judges_them(body: bytes) -> None:
    assert is_record(body, 0) == codec_accepts(body)
    assert is_record(b"\x61\x01a" + body, 3) == codec_accepts(body)


@pytest.mark.parametrize(
    "body",
    [
        "f2ff 00000000",  # field id 4095
        "1c00 e9fd" + "61" * 65001,  # 65001 bytes
        "1c00 0100 ff",  # not UTF-8
        "1c00 0500 61",
        "1200 000000",
        "12",
        "1c00 01",
    ],
)
def test_what_breaks_a_rule_of_records_is_refused(body: str) -> None:
    assert not is_record(bytes.fromhex(body), 0)
    assert not codec_accepts(bytes.fromhex(body))


def test_a_text_of_65000_bytes_is_the_longest() -> None:
    assert is_record(write_record({1: "x" * 65000}), 0)
    with pytest.raises(EncodeError, match="cell_limit"):
        write_record({1: "x" * 65001})


def test_another_charset_may_be_asked_for() -> None:
    body = write_record({3: "美元"}, "gbk")
    assert not is_record(body, 0)
    assert is_record(body, 0, "gbk")
    assert is_record(body, 0, "utf-8", "replace")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (5, "INT"),
        (-(2**31), "INT"),
        (2**31, "LONG"),
        (-(2**63), "LONG"),
        (0.5, "DOUBLE"),
        ("x", "STRING"),
        (b"x", "BYTES"),
        (None, "NONE"),
        (True, "INT"),
    ],
)
def test_plain_values_get_the_type_that_fits(value: Any, kind: str) -> None:
    message = decode_payload(b"\x61\x01a" + write_record({7: value}), "ceda4-ws")
    assert message.record == (Cell(7, kind, value),)


@pytest.mark.parametrize(
    ("record", "rule"),
    [
        ({1: 2**63}, "int_range"),
        ({4095: 1}, "cell_id"),
        ({-1: 1}, "cell_id"),
        ({1: object()}, "field_type"),
        ({1: "\ud800"}, "text_utf8"),
        ([Cell(1, "TEXT", "")], "cell_type"),
        ([Cell(1, "SHORT", 40000)], "int_range"),
        ([Cell(1, "STRING", b"x")], "field_type"),
    ],
)
def test_what_cannot_be_written_names_its_rule(record: Any, rule: str) -> None:
    with pytest.raises(EncodeError) as caught:
        write_record(record)
    assert caught.value.rule == rule


@given(st.lists(CELLS, max_size=6))
def test_a_record_can_be_taken_apart(cells: list[Cell]) -> None:
    body = write_record(cells)
    parts = raw_cells(body)
    assert b"".join(raw for _, raw in parts) == body
    assert [fid for fid, _ in parts] == [cell.fid for cell in cells]
    rest = without(body, *(cell.fid for cell in cells[:1]))
    assert rest == write_record([c for c in cells if not cells or c.fid != cells[0].fid])


def test_the_last_cell_of_a_number_counts_and_must_be_bytes() -> None:
    assert octets(write_record([Cell(1, "BYTES", b"a"), Cell(1, "BYTES", b"b")]), 1) == b"b"
    assert octets(write_record([Cell(1, "BYTES", b"a"), Cell(1, "INT", 1)]), 1) is None
    assert octets(write_record({1: struct.pack("<h", 1)}), 2) is None
