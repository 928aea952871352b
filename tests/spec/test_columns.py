"""The columns of a protocol's table: one per distinct field, with a type that holds every value."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.errors import SpecError
from wirelake.protocols import load
from wirelake.spec import Code, Frame, Message, Protocol, Size, Struct, be, field, many, nested, text, u8
from wirelake.spec import nodes as n
from wirelake.spec.columns import ENVELOPE, columns, int_type


def protocol(*messages: Any) -> Protocol:
    return Protocol("columns", "Columns", Frame((Size("length", be.u16, counts="after"), Code("kind", u8))), messages)


@pytest.mark.parametrize(
    ("size", "signed", "type_name"),
    [
        (1, False, "int16"),
        (2, True, "int16"),
        (2, False, "int32"),
        (3, False, "int32"),
        (4, False, "int64"),
        (8, True, "int64"),
        (8, False, "decimal"),
    ],
)
def test_an_integer_has_the_narrowest_signed_type_that_holds_it(size: int, signed: bool, type_name: str) -> None:
    assert int_type(n.Int(size, signed, little=False)) == type_name


@pytest.mark.parametrize(
    ("name", "column", "shape"),
    [
        ("casual", "domain", "struct<id:binary,name:string>"),
        ("casual", "xid", "struct<format:int64,gtrid:binary,bqual:binary>"),
        ("casual", "queue_names", "list<string>"),
        ("casual", "block", "bool"),
        ("dsa", "header_order", "list<string>"),
        ("dsa", "value", "string"),
        ("dsa", "closed", "bool"),
        ("dsa", "body_length", "int32"),
        ("mb", "action", "string"),
        ("mb", "timeout", "int32"),
        ("mb", "payload", "binary"),
        ("ceda", "dialect", "string"),
        (
            "ceda",
            "record",
            "list<struct<fid:int32,type:string,long:int64,double:double,text:string,bytes:binary>>",
        ),
        (
            "ceda",
            "group",
            "struct<kind:int16,index:int16,count:int16,total_length:int32,position:int16,piece_length:int32>",
        ),
    ],
)
def test_built_in_fields_have_their_shapes(name: str, column: str, shape: str) -> None:
    assert columns(load(name))[column].shape() == shape


def test_messages_share_the_column_of_a_field_they_have_in_common() -> None:
    ceda = load("ceda")
    named = {ceda.messages[i].__message__["name"] for i in columns(ceda)["reply_topic"].messages}
    assert named == {"request", "group_pub"}


def test_columns_are_numbered_in_their_order() -> None:
    assert [column.number for column in columns(load("dsa")).values()] == list(range(len(columns(load("dsa")))))


def test_only_free_form_values_are_free() -> None:
    dsa = columns(load("dsa"))
    assert (dsa["value"].is_costly, dsa["entries"].is_costly, dsa["headers"].is_costly) == (True, True, False)


def test_structures_of_one_name_share_a_column_with_the_fields_of_both() -> None:
    class Here(Struct):
        x: int = field(be.i16)

    class There(Struct):
        y: int = field(be.i32)

    class First(Message, code=1):
        spot: Here = field(nested(Here))

    class Second(Message, code=2):
        spot: There = field(nested(There))

    assert columns(protocol(First, Second))["spot"].shape() == "struct<x:int16,y:int32>"


def test_fields_of_one_name_and_two_types_are_refused() -> None:
    class First(Message, code=1):
        level: int = field(u8)

    class Second(Message, code=2):
        level: str = field(text(u8))

    with pytest.raises(SpecError, match=r"Second\.level: another field of that name is int16, this one string"):
        columns(protocol(First, Second))


def test_lists_of_different_elements_are_refused() -> None:
    class First(Message, code=1):
        values: tuple[int, ...] = field(many(u8, u8))

    class Second(Message, code=2):
        values: tuple[str, ...] = field(many(text(u8), u8))

    with pytest.raises(SpecError, match=r"Second.values.element: another field of that name is int16"):
        columns(protocol(First, Second))


# Every message has notes of its own: a field of that name does not get this far.
@pytest.mark.parametrize("name", [name for name, _, _ in ENVELOPE if name != "notes"])
def test_a_field_with_the_name_of_a_column_of_every_table_is_refused(name: str) -> None:
    members = {name: field(u8), "__annotations__": {name: int}, "__module__": __name__}
    taken = type(Message)("Taken", (Message,), members, code=1)
    with pytest.raises(SpecError, match=f"the column '{name}' is part of every table"):
        columns(protocol(taken))
