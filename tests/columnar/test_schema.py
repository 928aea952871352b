"""Arrow types of columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from wirelake.columnar import decode_frames
from wirelake.columnar.schema import FRONT_NAMES, TIMESTAMP, default_columns, documented, schema, table_schema
from wirelake.protocols import BUILT_IN, load
from wirelake.spec import Code, Frame, Protocol, Size, be, choice, declare, field, many, message, text, u8
from wirelake.spec.columns import columns

PLACE = ["capture", "connection", "direction", "offset", "length", "ts", "order"]
ENVELOPE = [*PLACE, "message", "code", "notes", "raw_text"]


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_a_table_begins_with_the_envelope_and_has_every_field_once(protocol: str) -> None:
    made = table_schema(load(protocol))
    assert made.names[: len(ENVELOPE)] == ENVELOPE
    assert len(set(made.names)) == len(made.names)
    assert made.field("ts").type == TIMESTAMP
    assert set(default_columns(load(protocol))) - set(FRONT_NAMES) == set(made.names) - set(ENVELOPE)


def test_free_form_values_come_only_if_they_are_asked_for() -> None:
    dsa = load("dsa")
    free = [name for name, column in columns(dsa).items() if column.is_costly]
    assert free and not set(free) & set(schema(dsa).names)
    assert schema(dsa, (free[0],)).field(free[0]).type == pa.string()


def test_choices_are_always_there_as_json_text() -> None:
    either = message("Either", code=1, items=field(many(choice(u8, {1: be.u16, 2: text(u8), 3: None}), u8)))
    frame = Frame((Size("length", be.u16, counts="after"), Code("kind", u8)))
    protocol = declare(Protocol("either", "Either", frame, (either,)))
    assert table_schema(protocol).field("items").type == pa.list_(pa.string())
    (row,) = decode_frames(protocol, [bytes.fromhex("000a 01 03 010007 02026869 03")]).records.to_pylist()
    assert [json.loads(item) for item in row["items"]] == [
        {"tag": 1, "value": 7},
        {"tag": 2, "value": "hi"},
        {"tag": 3},
    ]


def test_nested_fields_are_structs_and_lists() -> None:
    made = schema(load("casual"))
    assert pa.types.is_struct(made.field("service").type)
    assert pa.types.is_list(schema(load("ceda"), ("record",)).field("record").type)


def test_a_column_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"^mb has no column 'colour'; it has: offset, length, message, "):
        schema(load("mb"), ("colour",))


def test_a_documented_column_carries_its_sentence() -> None:
    made = documented(("a", pa.int64(), "how many"))
    assert made.field("a").metadata == {b"doc": b"how many"}
