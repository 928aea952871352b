"""What stands before the body is read and written as the codec of records does it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec import encode
from wirelake.codec.quick_heads import QuickHead
from wirelake.errors import EncodeError
from wirelake.protocols import ceda
from wirelake.spec.resolve import layout

LAYOUTS = {name: layout(ceda.PROTOCOL, dialect=name) for name in ("ceda4", "ceda4-ws")}
NAMES = st.text(max_size=20)


@given(
    st.sampled_from([ceda.Request, ceda.Reply, ceda.P2p, ceda.GroupPub]),
    st.sampled_from(list(LAYOUTS)),
    st.tuples(NAMES, st.integers(0, 0xFFFFFF), NAMES, NAMES, NAMES),
)
def test_fields_are_written_and_read_as_the_codec_does(kind: Any, dialect: str, values: tuple[Any, ...]) -> None:
    code = kind.__message__["code"]
    head = QuickHead(LAYOUTS[dialect], code)
    names = ("topic", "connection_id", "server_id", "signal_id", "reply_topic")
    known = {field.name for field in LAYOUTS[dialect].messages[code].fields}
    message = kind(**{name: value for name, value in zip(names, values, strict=True) if name in known})
    payload = head.write(message)
    assert encode(message, dialect=dialect).endswith(payload)
    at, *found = head.read(payload + b"\x10\0")
    assert at == len(payload)
    assert tuple(found) == values[: len(found)] and len(found) == len(known & set(names))


@given(st.binary(max_size=60))
def test_what_is_cut_off_or_not_utf8_is_an_error_of_two_kinds(data: bytes) -> None:
    head = QuickHead(LAYOUTS["ceda4-ws"], ceda.Request.__message__["code"])
    try:
        at, *_ = head.read(b"\x62" + data)
    except (IndexError, UnicodeDecodeError):
        return
    assert at <= len(data) + 1


@pytest.mark.parametrize(("topic", "rule"), [("x" * 256, "int_range"), ("\ud800", "text_utf8")])
def test_a_text_that_cannot_be_written_names_its_rule_and_field(topic: str, rule: str) -> None:
    head = QuickHead(LAYOUTS["ceda4-ws"], ceda.Publish.__message__["code"])
    with pytest.raises(EncodeError) as caught:
        head.write(ceda.Publish(topic=topic))
    assert (caught.value.rule, caught.value.path) == (rule, "topic")


def test_only_messages_of_numbers_and_short_texts_have_such_a_head() -> None:
    with pytest.raises(ValueError, match="no body"):
        QuickHead(LAYOUTS["ceda4"], ceda.Heartbeat.__message__["code"])
