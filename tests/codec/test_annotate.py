"""What lies where in a frame, up to the byte that breaks a rule."""

from __future__ import annotations

import wirelake
from wirelake.codec.annotate import annotate, describe_value
from wirelake.codec.encoder import encode_frame
from wirelake.protocols import load
from wirelake.protocols.casual import NULL_XID, Buffer, Parent, Service, ServiceCallRequest
from wirelake.spec.nodes import Labels
from wirelake.spec.resolve import layout

CEDA = layout(load("ceda"), dialect="ceda4")
PUBLISH = bytes.fromhex("821261 06 70782e657572 3a00 666666666666f13f".replace(" ", ""))


def test_every_byte_of_a_good_frame_belongs_to_a_field() -> None:
    looked = annotate(CEDA, PUBLISH)
    assert looked.error is None and looked.message.topic == "px.eur"
    covered = [at for seen in looked.seen for at in range(seen.offset, seen.offset + seen.length)]
    assert covered == list(range(len(PUBLISH)))


def test_of_a_bad_frame_there_is_what_was_read_before_the_fault() -> None:
    spoilt = PUBLISH[:6] + b"\xff" + PUBLISH[7:]
    looked = annotate(CEDA, spoilt)
    assert looked.message is None and looked.error is not None
    assert (looked.error.rule, looked.error.path, looked.error.offset) == ("text_utf8", "topic", 6)
    assert all(seen.offset + seen.length <= 6 or seen.path == "topic" for seen in looked.seen)


def test_values_are_shown_as_people_read_them() -> None:
    flags = Labels("flags", {1: "A", 2: "B"}, bits=True)
    assert describe_value(3, flags) == "3 A | B"
    assert describe_value(7, Labels("codes", {7: "seven"})) == "7 seven"
    assert describe_value(b"cat", None) == "636174 'cat'"
    assert describe_value(bytes(30), None) == f"{'00' * 24}... (30 bytes)"
    assert describe_value('a "b"', None) == '"a \\"b\\""'


def test_a_message_can_be_written_with_the_padding_it_came_with() -> None:
    call = ServiceCallRequest(
        correlation=bytes(16),
        execution=bytes(16),
        service=Service("echo", timeout=0),
        parent=Parent(""),
        xid=NULL_XID,
        flags=0,
        buffer=Buffer(".json/", b"[1]"),
    )
    casual = layout(load("casual"))
    plain, padded = encode_frame(casual, call), encode_frame(casual, call, padded=True)
    assert len(padded) == len(plain) + 8 and padded.endswith(bytes(8))
    assert wirelake.decode("casual", padded).notes == ("java_padding",)
    assert wirelake.decode("casual", plain).notes == ()
