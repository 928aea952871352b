"""Quick records agree with the codec; ``tests/live/ceda/test_records.py`` compares them on mutated records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec.quick_records import record_checker, record_cutter
from wirelake.codec.records import cells_reader, cells_writer
from wirelake.protocols import load
from wirelake.protocols.ceda import Publish
from wirelake.spec import nodes as n
from wirelake.spec.declare import Cell
from wirelake.spec.resolve import layout

_MESSAGES = layout(load("ceda"), dialect="ceda4-ws").messages
RECORD = _MESSAGES[Publish.__message__["code"]].field("record").wire

CELLS = st.one_of(
    st.builds(Cell, st.integers(0, 4094), st.just("INT"), st.integers(-(2**31), 2**31 - 1)),
    st.builds(Cell, st.integers(0, 4094), st.just("STRING"), st.text(max_size=20)),
    st.builds(Cell, st.integers(0, 4094), st.just("BYTES"), st.binary(max_size=20)),
    st.builds(Cell, st.integers(0, 4094), st.just("NONE")),
)


@given(st.lists(CELLS, max_size=8))
def test_what_is_written_is_good_and_comes_apart(cells: list[Cell]) -> None:
    body = cells_writer(RECORD)(cells, "record")
    assert record_checker(RECORD)(b"head" + body, 4)
    parts = list(record_cutter(RECORD)(body))
    assert [(part.fid, part.type) for part in parts] == [(cell.fid, cell.type) for cell in cells]
    read, _ = cells_reader(RECORD)(body, 0, len(body))
    assert read == cells
    assert [part.at for part in parts[1:]] == [part.stop for part in parts[:-1]]


@given(st.binary(max_size=40))
def test_bytes_are_good_exactly_if_the_reader_reads_all_of_them(body: bytes) -> None:
    _, stop = cells_reader(RECORD)(body, 0, len(body))
    if stop == len(body):
        assert record_checker(RECORD)(body, 0)


def test_other_heads_are_refused() -> None:
    wide = n.Cells(n.Int(4, False, True), 16, 8, 7, 1, 100, RECORD.types)
    with pytest.raises(ValueError, match="heads of two bytes"):
        record_checker(wide)
