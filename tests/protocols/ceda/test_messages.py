"""ceda: the two dialects side by side."""

from __future__ import annotations

import random

import msgspec
import pytest

from tests.differential import valid_frames
from wirelake import decode, encode
from wirelake.errors import DecodeError
from wirelake.protocols import ceda
from wirelake.spec.resolve import layout

MESSAGES = {
    0x01: "heartbeat",
    0x11: "subscribe",
    0x12: "unsubscribe",
    0x13: "login",
    0x14: "logout",
    0x61: "publish",
    0x62: "request",
    0x63: "reply",
    0x64: "p2p",
    0x65: "group_pub",
}


@pytest.mark.parametrize("dialect", ["ceda4", "ceda4-ws"])
def test_ten_messages_have_their_codes_and_names(dialect: str) -> None:
    assert {code: m.name for code, m in layout(ceda.PROTOCOL, dialect=dialect).messages.items()} == MESSAGES


def test_twelve_control_codes_have_names() -> None:
    assert {3: "LOGIN", 4: "LOGIN_RESULT", 13: "SUB_BATCH", 20: "SUBSCRIBE_WITH_IMAGE"}.items() <= (
        ceda.CONTROL_CODES.names.items()
    )
    assert len(ceda.CONTROL_CODES.names) == 12


def test_a_short_frame_is_the_same_in_both_dialects_unless_it_is_a_group_pub_or_a_logout() -> None:
    compared = 0
    for frame in valid_frames("ceda", 600, random.Random(1), dialect="ceda4"):
        message = decode("ceda", frame, dialect="ceda4")
        if len(frame) - 2 < 126 and type(message) is not ceda.GroupPub:
            other = decode("ceda", frame, dialect="ceda4-ws")
            assert repr(other) == repr(message)
            assert encode(other) == frame
            compared += 1
    assert compared > 300


def test_a_long_frame_differs_in_the_order_of_its_length_only() -> None:
    swapped = 0
    for frame in valid_frames("ceda", 600, random.Random(2), dialect="ceda4"):
        message = decode("ceda", frame, dialect="ceda4")
        if frame[1] == 126 and type(message) is not ceda.GroupPub:
            other = frame[:2] + frame[3:1:-1] + frame[4:]
            assert encode(message, dialect="ceda4-ws") == other
            assert repr(decode("ceda", other, dialect="ceda4-ws")) == repr(message)
            swapped += 1
    assert swapped > 20


def test_masking_changes_bytes_but_no_message() -> None:
    for frame in valid_frames("ceda", 200, random.Random(3), dialect="ceda4-ws"):
        plain = msgspec.structs.replace(decode("ceda", frame, dialect="ceda4-ws"), mask_key=None)
        masked = msgspec.structs.replace(plain, mask_key=b"abcd")
        written = encode(masked)
        assert len(written) == len(encode(plain)) + 4
        assert repr(decode("ceda", written, dialect="ceda4-ws")) == repr(masked)
        with pytest.raises(DecodeError) as caught:
            decode("ceda", written, dialect="ceda4")
        assert caught.value.rule == "mask_not_allowed"


def test_login_comes_first_and_heartbeats_at_any_time() -> None:
    cycle = ceda.PROTOCOL.life_cycle
    assert cycle is not None and cycle.initial == "open"
    assert "publish" not in cycle.client["open"]
    assert cycle.client["open"]["login"] == "login_sent"
    assert cycle.server["login_sent"]["login"] == "ready"
    assert all("heartbeat" in moves for state, moves in cycle.client.items() if state != "closed")
    assert cycle.client["closed"] == cycle.server["closed"] == {}
