"""Records of cells."""

from __future__ import annotations

import pytest

import wirelake
from wirelake.codec.records import by_id, java_order
from wirelake.errors import BadValue
from wirelake.protocols.ceda import Publish
from wirelake.spec import Cell


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
