"""Cells that are read quickly: plain ones all, up to the first that needs a closer look."""

from __future__ import annotations

import math
from typing import Any

import pytest

import wirelake
from wirelake.codec.cells import UncleanError, all_cells_reader, cells_reader, clean_cells_reader
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
