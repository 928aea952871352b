"""Tables that many places of a dissector share."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.spec import be, le, u8, within
from wirelake.spec import nodes as n
from wirelake.spec.luatables import Place, Shape, Tables, assignments, int_type
from wirelake.spec.luatext import Ref


def test_a_field_is_claimed_once_however_often_it_occurs() -> None:
    tables = Tables("toy")
    place = Place("reading", "").inner("spot", "where").inner("x", "metres east")
    assert tables.claim(place, Shape("int16")) == tables.claim(place, Shape("int16")) == "spot.x"
    assert tables.fields == {"spot.x": 'ProtoField.int16(NAME .. ".spot.x", "x", base.DEC, nil, 0x0, "metres east")'}


def test_a_name_of_two_types_has_a_number_and_a_filter_with_the_message() -> None:
    tables = Tables("toy")
    names = [
        tables.claim(Place(message, "level"), Shape(kind))
        for message, kind in (("reading", "uint8"), ("rename", "uint16"), ("remark", "string"), ("note", "string"))
    ]
    assert names == ["level", "level~2", "remark.level", "note.level"]
    filters = [line.split('"')[1] for line in tables.fields.values()]
    expected = [".level", ".level", ".remark.level", ".note.level"]
    assert filters == expected, "narrow integers share a filter; each message with a text has its own"


@pytest.mark.parametrize(
    ("shape", "arguments"),
    [
        (Shape("string"), "base.UNICODE"),
        (Shape("bytes"), "base.NONE"),
        (Shape("guid"), ""),
        (Shape("bool"), "base.NONE, nil, 0x0"),
        (Shape("bool", mask=4, width=8), "8, nil, 0x4"),
        (Shape("uint8", "HEX", "L.kinds"), "base.HEX, L.kinds, 0x0"),
    ],
)
def test_the_arguments_of_a_field_follow_its_type(shape: Shape, arguments: str) -> None:
    tables = Tables("toy")
    tables.claim(Place("", "a"), shape)
    expected = ", ".join(filter(None, ('NAME .. ".a", "a"', arguments)))
    assert tables.fields["a"] == f"ProtoField.{shape.type}({expected})"


def test_a_plain_integer_is_named_and_a_bounded_one_is_written_out() -> None:
    tables = Tables("toy")
    assert [tables.integer(wire) for wire in (u8, be.u16, le.i32)] == [Ref("u8"), Ref("u16_be"), Ref("i32_le")]
    bounded = tables.integer(within(u8, 1, 9, "nine"))
    assert (bounded["low"], bounded["high"], bounded["rule"]) == (1, 9, "nine")
    assert list(tables.ints) == ["u8", "u16_be", "i32_le"]


@pytest.mark.parametrize(("wire", "key"), [(be.i16, 4294967295), (be.i64, -1)])
def test_negative_values_are_written_as_wireshark_compares_them(wire: n.Int, key: int) -> None:
    tables = Tables("toy")
    assert tables.names(n.Labels("state", {-1: "off", 0: "on"}), wire) == "L.state"
    assert tables.labels["state"] == f'{{ [{key}] = "off", [0] = "on" }}'


def test_equal_structures_are_written_once_and_others_get_a_number() -> None:
    tables, place = Tables("toy"), Place("", "spot")
    given: list[Any] = [{"fields": [1]}, {"fields": [1]}, {"fields": [2]}]
    assert [tables.share(place, table).text for table in given] == ["T.spot", "T.spot", 'T["spot~2"]']


def test_the_type_of_an_integer_follows_its_width_and_sign() -> None:
    assert [int_type(wire) for wire in (u8, be.u24, le.i64)] == ["uint8", "uint24", "int64"]
    assert int_type(le.i64, unsigned=True) == "uint64"


def test_a_table_is_assigned_member_by_member() -> None:
    assert list(assignments("T", {"a": "1", "b.c": "2"})) == ["local T = {}", "T.a = 1", 'T["b.c"] = 2']
