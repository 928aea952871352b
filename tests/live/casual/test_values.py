"""Buffers as Python values, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.codec.content import FieldValue
from wirelake.errors import DecodeError, EncodeError
from wirelake.live.casual.values import to_buffer, to_value
from wirelake.live.casual.wire import NO_BUFFER, Buffer

FIELDS = (FieldValue(0x4000001, "long", 300), FieldValue(0xC000002, "string", "hi"))


@pytest.mark.parametrize(
    ("buffer", "value"),
    [
        (Buffer("X_OCTET/", b"\x00\xff"), b"\x00\xff"),
        (Buffer(".binary/", b"call"), b"call"),
        (Buffer("X_C_TYPE/order", b"\x01"), b"\x01"),
        (Buffer(".json/", b'{"a":[1,null]}'), {"a": [1, None]}),
        (Buffer(".yaml/", b"a: 1"), "a: 1"),
        (Buffer("CSTRING/", b"hello\0"), "hello"),
    ],
)
def test_a_buffer_and_its_value_become_each_other(buffer: Buffer, value: Any) -> None:
    assert to_value(buffer) == value
    assert to_buffer(value, buffer.type) == buffer


def test_fields_become_a_fielded_buffer_and_come_back() -> None:
    buffer = to_buffer(FIELDS)
    assert (buffer.type, to_value(buffer)) == ("CFIELD/", FIELDS)


def test_none_is_no_buffer_whatever_the_type() -> None:
    assert to_buffer(None) == to_buffer(None, ".json/") == NO_BUFFER
    assert to_value(NO_BUFFER) is None


@pytest.mark.parametrize(("value", "kind"), [(1, "CSTRING/"), ("a\0b", "CSTRING/"), ({"a": 1}, "X_OCTET/")])
def test_what_a_type_cannot_hold_is_refused(value: Any, kind: str) -> None:
    with pytest.raises(EncodeError) as caught:
        to_buffer(value, kind)
    assert (caught.value.rule, caught.value.path) == ("buffer_value", "buffer.payload")


def test_a_text_without_its_zero_byte_is_refused() -> None:
    with pytest.raises(DecodeError) as caught:
        to_value(Buffer("CSTRING/", b"hello"))
    assert caught.value.rule == "cstring_nul"
