"""Records of cells: plain ones are read quickly, up to the first that needs a closer look; their order."""

from __future__ import annotations

import math
from typing import Any

import pytest

import wirelake
from wirelake.codec.records import UncleanError, all_cells_reader, by_id, cells_reader, clean_cells_reader, java_order
from wirelake.errors import BadValue
from wirelake.protocols import load
from wirelake.protocols.ceda import Publish
from wirelake.spec import Cell
from wirelake.spec import nodes as n
from wirelake.spec.resolve import layout

READING = layout(load("ceda"), dialect="ceda4-ws")
RECORD: n.Cells[Any] = READING.messages[Publish.__message__["code"]].field("record").wire
PLAIN = (
    Cell(1, "INT", -5),
    Cell(2, "LONG", 1 << 40),
    Cell(3, "SHORT", 7),
    Cell(4, "FLOAT", 0.5),
    Cell(5, "DOUBLE", 1.25),
    Cell(6, "STRING", "text"),
    Cell(7, "BYTES", b"\x00\xff"),
)
ODD = [
    Cell(9, "INT", 1, group_bit=True),
    Cell(9, "DOUBLE", math.nan, bits=0x7FF8_0000_0000_0001),
    Cell(9, "STRING", "\udcff"),
]


def written(*cells: Cell) -> bytes:
    frame = wirelake.encode(Publish("T", record=cells), dialect="ceda4-ws")
    return frame[frame.index(b"T") + 1 :]


def bytes_of(cell: Cell) -> bytes:
    """The bytes of one cell, also of one with a text that no codec would write."""
    if cell.value == "\udcff":
        return written(Cell(cell.fid, "STRING", "x"))[:-1] + b"\xff"
    return written(cell)


def test_plain_cells_are_read_as_they_were_written() -> None:
    data = written(*PLAIN)
    assert cells_reader(RECORD)(data, 0, len(data)) == (list(PLAIN), len(data))
    assert all_cells_reader(RECORD)(data, 0, len(data)) == PLAIN
    assert clean_cells_reader(RECORD)(data, 0, len(data)) == PLAIN


@pytest.mark.parametrize("odd", ODD, ids=lambda cell: cell.type)
def test_reading_stops_where_the_first_odd_cell_begins(odd: Cell) -> None:
    before = written(*PLAIN)
    data = before + bytes_of(odd) + written(Cell(10, "INT", 3))
    assert cells_reader(RECORD)(data, 0, len(data)) == (list(PLAIN), len(before))
    assert all_cells_reader(RECORD)(data, 0, len(data)) is None


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_cell_that_is_cut_off_needs_a_closer_look(cut: int) -> None:
    before, last = written(*PLAIN), written(Cell(8, "INT", 1))
    data = before + last[:-cut] + b"behind the end"
    assert cells_reader(RECORD)(data, 0, len(before + last) - cut) == (list(PLAIN), len(before))


def test_a_field_number_above_the_limit_needs_a_closer_look() -> None:
    data = (4095 << 4 | 1 << 1).to_bytes(2, "little") + bytes(4)
    assert cells_reader(RECORD)(data, 0, len(data)) == ([], 0)


@pytest.mark.parametrize("more", [0, 30], ids=["few", "many"])
@pytest.mark.parametrize("unclean", [Cell(1, "INT", 2), Cell(8, "NONE")], ids=["twice", "empty"])
def test_cells_that_no_sender_writes_are_unclean(unclean: Cell, more: int) -> None:
    filler: tuple[Any, ...] = tuple(Cell(100 + i, "LONG", i) for i in range(more))
    data = written(*PLAIN, unclean, *filler)
    with pytest.raises(UncleanError):
        clean_cells_reader(RECORD)(data, 0, len(data))


@pytest.mark.parametrize(
    ("added", "written"), [([5, 7, 9, 11, 3], [9, 7, 5, 3, 11]), ([4, 5, 7], [7, 5, 4]), ([1, 6, 4], [6, 4, 1])]
)
def test_the_java_order_is_that_of_its_hash_table(added: list[int], written: list[int]) -> None:
    assert [cell.fid for cell in java_order(Cell(fid, "NONE") for fid in added)] == written


def test_the_java_order_survives_growth() -> None:
    order = [cell.fid for cell in java_order(Cell(fid, "INT", fid) for fid in range(1, 30))]
    assert sorted(order) == list(range(1, 30))
    assert order != sorted(order)


def test_of_equal_numbers_the_last_value_counts() -> None:
    assert by_id((Cell(1, "INT", 5), Cell(2, "INT", 6), Cell(1, "STRING", "x"))) == {1: "x", 2: 6}


def test_old_traffic_is_read_in_its_own_character_set() -> None:
    frame = wirelake.encode(Publish("T", record=(Cell(3, "STRING", "人民币"),)), charset="gbk")
    with pytest.raises(BadValue, match=r"is not UTF-8 \[cell_utf8\]"):
        wirelake.decode("ceda", frame)
    message = wirelake.decode("ceda", frame, charset="gbk")
    assert by_id(message.record) == {3: "人民币"}
    assert wirelake.encode(message) == frame
    assert "\ufffd" in wirelake.decode("ceda", frame, errors="replace").record[0].value
    with pytest.raises(ValueError, match="charset is a character set, and 'klingon' is not a known one"):
        wirelake.decode("ceda", frame, charset="klingon")
