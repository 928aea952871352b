"""Columns in Arrow and in Spark: which there are, which a user may ask for, and as what."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from wirelake.errors import OptionError
from wirelake.protocols import load
from wirelake.spark import schema as s

AVAILABLE = pa.schema(
    [
        ("code", pa.int32()),
        ("text", pa.string()),
        ("service", pa.struct([("name", pa.string()), ("timeout", pa.int64())])),
        ("list", pa.list_(pa.struct([("id", pa.int16())]))),
    ]
)


def check(name: str, wanted: pa.DataType) -> None:
    s.check(s.in_spark(pa.schema([(name, wanted)])), AVAILABLE, "it")


def test_structs_may_be_partial_and_integers_wider() -> None:
    check("code", pa.int32())
    check("code", pa.int64())
    check("service", pa.struct([("timeout", pa.int64())]))
    check("list", pa.list_(pa.struct([("id", pa.int32())])))


@pytest.mark.parametrize(
    ("name", "wanted", "said"),
    [
        ("code", pa.int16(), "wrong schema for it: code is int, not smallint"),
        ("text", pa.binary(), "text is string, not binary"),
        ("service", pa.string(), "service is struct<name:string,timeout:bigint>, not string"),
        ("service", pa.struct([("nobody", pa.int32())]), "service has no member 'nobody'; it has: name, timeout"),
        ("list", pa.list_(pa.struct([("id", pa.string())])), "list[].id is smallint, not string"),
        ("nobody", pa.int32(), "it has no column 'nobody'; it has: code, text, service, list"),
    ],
)
def test_what_cannot_be_given_is_named(name: str, wanted: pa.DataType, said: str) -> None:
    with pytest.raises(OptionError, match=re.escape(said)):
        check(name, wanted)


def test_columns_are_chosen_by_name_and_a_star_is_all_of_them() -> None:
    assert s.choose(AVAILABLE, ["text", "*"], "it").names == ["text", "code", "service", "list"]


def test_a_format_says_where_a_message_was_captured_and_a_function_does_not() -> None:
    protocol = load("dsa")
    assert s.format_schema(protocol).names[:6] == s.ORIGIN.names
    assert set(s.default_format_columns(protocol)) < set(s.format_schema(protocol).names)
    members = s.function_columns(protocol, None, "from_dsa")
    assert not {"offset", "length", "capture"} & set(members)
    assert "value" in set(s.function_columns(protocol, ["*"], "from_dsa")) - set(members)
