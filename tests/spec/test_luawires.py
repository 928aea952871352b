"""Every kind of value as a Lua table, and the fields that show it."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.errors import SpecError
from wirelake.protocols import dsa, load
from wirelake.spec import (
    Body,
    HeadReaches,
    IfLeft,
    Labels,
    Message,
    When,
    With,
    be,
    blob,
    bool8,
    derived,
    field,
    fixed,
    labelled,
    le,
    many,
    text,
    u8,
    uuid,
)
from wirelake.spec import nodes as n
from wirelake.spec.luachoices import Choices
from wirelake.spec.luatables import Place, Tables
from wirelake.spec.luatext import Ref
from wirelake.spec.luawires import Wires


@pytest.fixture
def wires() -> Wires:
    return Wires(Tables("toy"), Choices(load("dsa")))


def kept(table: dict[str, Any]) -> dict[str, Any]:
    """What is written of a table: None is left out."""
    return {key: value for key, value in table.items() if value is not None}


@pytest.mark.parametrize(
    ("wire", "table", "type_name"),
    [
        (u8, Ref("u8"), "uint8"),
        (bool8, {"kind": "bool"}, "bool"),
        (le.f32, {"kind": "float", "size": 4, "little": True}, "float"),
        (uuid, {"kind": "fixed", "size": 16}, "guid"),
        (fixed(5), {"kind": "fixed", "size": 5}, "bytes"),
        (text(u8, most=9), {"kind": "run", "content": "text", "length": Ref("u8"), "most": 9}, "string"),
        (blob(be.u16), {"kind": "run", "content": "bytes", "length": Ref("u16_be")}, "bytes"),
        (Body(exactly=4), {"kind": "body", "exactly": 4}, "bytes"),
        (
            Body(most=9, empty="absent", empty_if=n.AtLeast("status", 2)),
            {
                "kind": "body",
                "most": 9,
                "most_rule": "body_limit",
                "empty": "absent",
                "empty_if": {"field": "status", "limit": 2},
            },
            "bytes",
        ),
    ],
)
def test_a_value_has_a_table_and_a_field(wires: Wires, wire: Any, table: Any, type_name: str) -> None:
    made = wires.wire(wire, Place("", "value"))
    assert (kept(made.wire) if isinstance(made.wire, dict) else made.wire) == table
    assert made.field == "value"
    assert wires.tables.fields["value"].startswith(f"ProtoField.{type_name}(")


def test_what_is_no_wire_node_is_refused(wires: Wires) -> None:
    with pytest.raises(SpecError, match="value: 7 is not a wire node"):
        wires.wire(7, Place("", "value"))


def test_lengths_and_counts_have_fields_beside_the_value(wires: Wires) -> None:
    wires.wire(text(u8), Place("", "name"))
    made = wires.wire(many(be.i32, be.u16), Place("", "grid"))
    assert {"name_length", "grid_count"} <= set(wires.tables.fields)
    assert kept(made.wire) == {"kind": "many", "count": Ref("u16_be"), "element": Ref("i32_be")}


def test_bits_are_shown_in_the_bytes_that_hold_them(wires: Wires) -> None:
    alarms = Labels("alarms", {0x01: "LOW", 1 << 40: "HOT", 0x0100000001: "APART"}, bits=True)
    big = wires.wire(labelled(be.u64, alarms), Place("", "alarms"))
    little = wires.wire(labelled(le.u64, alarms), Place("", "alarms"))
    low, hot = ({"field": f"alarms.{name}", "size": 1} for name in ("low", "hot"))
    assert big.wire["bits"] == [low | {"at": 7}, hot | {"at": 2}], "bits further apart have no item"
    assert little.wire["bits"] == [low | {"at": 0}, hot | {"at": 5}]


@pytest.mark.parametrize(
    ("when", "table"),
    [
        (
            When("format", none_of=(-1, 0)),
            {"kind": "when", "field": "format", "none_of": [-1, 0]},
        ),
        (HeadReaches(15), {"kind": "head_reaches", "size": 15}),
        (IfLeft(), {"kind": "if_left"}),
        (With("code"), {"kind": "with", "field": "code"}),
        (None, None),
    ],
)
def test_a_row_says_when_its_field_is_there(wires: Wires, when: Any, table: Any) -> None:
    row = wires.row(n.Field("a", u8, when=when, default=None), Place("", ""))
    assert (row["when"] and {key: value for key, value in row["when"].items() if value is not None}) == table
    assert kept(row).keys() - {"when"} == {"name", "field", "wire"}


def test_computed_values_have_the_type_of_what_they_say(wires: Wires) -> None:
    class Shown(Message, code=1):
        body: bytes = field(Body(), default=b"")
        size = derived(n.LengthOf("body"))
        whole = derived(n.FrameLength())
        large = derived(n.AtLeast("size", 9))
        frame_only = derived(n.Wide(126))

    rows = wires.derived(Shown, Place("shown", ""), {"frame_only"})
    assert [row["how"] for row in rows] == [
        {"kind": "length_of", "field": "body"},
        {"kind": "frame_length"},
        {"kind": "at_least", "field": "size", "limit": 9},
    ]
    kinds = [wires.tables.fields[row["field"]].split("(")[0] for row in rows]
    assert kinds == ["ProtoField.uint32", "ProtoField.uint32", "ProtoField.bool"]


def test_a_tag_table_is_shared_and_lists_its_rows_by_code(wires: Wires) -> None:
    made = wires.wire(dsa.HEADERS, Place("ping", "headers"))
    assert made.wire == Ref("T.headers") == wires.wire(dsa.HEADERS, Place("close", "headers")).wire
    assert wires.choices.used == {"mode"}
    assert {"tags", "bool", "text"} <= wires.tables.features
