"""Which frames may come next, and what streams make of it: in pieces, behind loss, on each side."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake import StreamDecoder, decode, load
from wirelake.codec.stream import Decoded, Quarantined, readings, torn
from wirelake.codec.stream import StreamDecoder as Decoder
from wirelake.errors import DecodeError
from wirelake.spec.derive import next_state
from wirelake.spec.states import states

SOCKS = load("tests/codec/public/socks5.py:PROTOCOL")
ZMTP = load("tests/codec/public/zmtp.py:PROTOCOL")
POSTGRES = load("tests/codec/public/postgres.py:PROTOCOL")
CLIENT = (b"\5\1\0", b"\5\1\0\1\x7f\0\0\1\0\x50", b"GET / HTTP/1.0\r\n\r\n")
GREETING = b"\xff" + bytes(8) + b"\x7f\3\1" + b"NULL".ljust(20, b"\0") + bytes(32)


def names(events: list[Any]) -> list[str]:
    return [each.message.__message__["name"] if isinstance(each, Decoded) else each.error.rule for each in events]


def test_the_states_are_those_that_messages_lead_to_and_two_more() -> None:
    assert states(SOCKS) == {"any": ("second", ""), "begin": ("",), "second": ("second",), "raw": ("raw",)}
    assert states(ZMTP)["begin"] == ("greeting", "")
    assert states(POSTGRES)["begin"] == ("opening", "answer", "refusal", "")
    assert states(load("casual")) == {}


def test_the_same_bytes_are_other_messages_in_other_states() -> None:
    data = b"".join(CLIENT)
    for size in range(1, len(data) + 1):
        decoder = StreamDecoder(SOCKS, sent_by="client")
        events = [event for at in range(0, len(data), size) for event in decoder.feed(data[at : at + size])]
        assert names([*events, *decoder.finish()]) == ["greeting", "request", "raw"]
    assert decode(SOCKS, b"\5\1\0", sent_by="client", state="begin").methods == (0,)
    with pytest.raises(DecodeError):
        decode(SOCKS, b"\5\1\0", sent_by="client", state="second")


def test_opaque_bytes_come_in_pieces_of_one_size() -> None:
    decoder = StreamDecoder(SOCKS, sent_by="client", state="raw")
    events = [*decoder.feed(b"x" * 5000), *decoder.feed(b"y" * 5000), *decoder.finish()]
    assert [len(event.message.data) for event in events] == [4096, 4096, 1808]


def test_behind_lost_bytes_any_frame_may_come_but_opaque_bytes_go_on() -> None:
    known = readings(ZMTP, {})
    middle = Decoder.of(known, known.proved, torn())
    assert names([*middle.feed(b"\0\5hello\0\1x"), *middle.finish()]) == ["part", "part"]
    behind = StreamDecoder(ZMTP)
    events = [*behind.feed(GREETING + b"\xf0\xff" * 3 + b"\4\3\2OK\0\1x" + GREETING + b"\0\0"), *behind.finish()]
    assert names(events)[0] == "greeting" and names(events)[-2:] == ["greeting", "part"]
    assert any(isinstance(event, Quarantined) for event in events)
    socks = readings(SOCKS, {"sent_by": "client"})
    raw = next(each for each in socks.known if each.options["state"] == "raw")
    tunnel = Decoder.of(socks, raw, torn())
    assert names([*tunnel.feed(b"whatever"), *tunnel.finish()]) == ["raw"]


def test_a_value_may_decide_what_comes_next() -> None:
    messages = {cls.__name__: cls for cls in POSTGRES.messages}
    assert next_state(messages["SslRequest"]()) == "opening+tls"
    assert next_state(messages["Query"](sql="")) == ""
    assert next_state(messages["Ready"](transaction=73)) == "usual"
