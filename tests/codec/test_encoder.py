"""Records to bytes: what is computed, what may be chosen, and what is refused with path and rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.codec.declarations import made
from tests.vectors.load import PROTOCOLS, valid
from wirelake import decode, encode
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.errors import EncodeError
from wirelake.protocols import casual, ceda, dsa, load, mb
from wirelake.spec import (
    UNSET,
    Cell,
    Code,
    Frame,
    IfLeft,
    Message,
    Protocol,
    Size,
    Struct,
    Until,
    When,
    be,
    checksum,
    constant,
    declare,
    field,
    many,
    message,
    nested,
    optional,
    sized,
    text,
    u8,
)
from wirelake.spec.resolve import layout

ID = bytes(range(16))
TAIL = sized(u8, many(u8, None))


def call(**changes: Any) -> casual.ServiceCallRequest:
    fields: dict[str, Any] = {
        "correlation": ID,
        "execution": ID,
        "service": casual.Service("echo", 0),
        "parent": casual.Parent(""),
        "xid": casual.NULL_XID,
        "flags": 0,
        "buffer": casual.Buffer("X_OCTET/", b"abc"),
    }
    return casual.ServiceCallRequest(**(fields | changes))


def publish(*cells: Cell) -> ceda.Publish:
    return ceda.Publish(topic="T", record=cells)


def refusal(message: Any, **options: Any) -> EncodeError:
    with pytest.raises(EncodeError) as caught:
        encode(message, **options)
    return caught.value


# --- what is computed


def test_a_message_that_was_made_is_written_and_read_back() -> None:
    message = call()
    frame = encode(message)
    again = decode("casual", frame)
    assert again == message
    assert again.wire_length == len(frame) == 32 + 16 + 8 + 4 + 8 + 8 + 8 + 8 + 8 + 8 + 8 + 3


def test_a_null_xid_that_was_made_has_format_minus_1() -> None:
    assert casual.NULL_XID.format == -1
    assert b"\xff" * 8 in encode(call())


def test_views_make_the_body_where_there_is_none() -> None:
    message = dsa.SubscribeResponse(request_id=1, ack_id=2, headers=dsa.Headers(status=0), value=21.75)
    assert encode(message).endswith(bytes.fromhex("0000 cb4035c00000000000"))
    assert decode("dsa", encode(message)).value == 21.75


def test_a_message_is_written_in_the_reading_it_was_decoded_with() -> None:
    frame = bytes.fromhex("827e0100") + b"\x61\x01T\x1e\x00" + (249).to_bytes(2, "little") + bytes(249)
    message = decode("ceda", frame, dialect="ceda4-ws")
    assert encode(message) == frame
    assert encode(message, dialect="ceda4") == b"\x82\x7e\x00\x01" + frame[4:]


def test_a_masked_message_without_a_key_gets_a_random_one() -> None:
    message = ceda.Heartbeat(mask_key=b"")
    frames = {encode(message, dialect="ceda4-ws") for _ in range(8)}
    assert len(frames) > 1
    assert all(decode("ceda", frame, dialect="ceda4-ws").mask_key == frame[2:6] for frame in frames)


def test_tags_without_an_order_are_written_in_that_of_the_table() -> None:
    headers = dsa.Headers(target_path="a", qos=1, priority=True)
    frame = encode(dsa.SubscribeRequest(request_id=1, ack_id=0, headers=headers))
    assert decode("dsa", frame).headers.order == ("priority", "qos", "target_path")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_decoded_message_without_its_raw_body_says_the_same(protocol: str) -> None:
    compared = 0
    for vector in valid(protocol):
        message = decode(protocol, vector.data, **vector.options)
        body = message.layout.of(message).body
        if body is None or not message.layout.of(message).views or "frame_only" in vector.options:
            continue
        headers = getattr(message, "headers", None)
        if headers is not None and headers.page_id:
            continue  # a piece of a body is not looked into, so its bytes are all there is
        if body.wire.empty == "refused" and message.value is message.value_meta is UNSET:
            continue  # null by absence: without its bytes nobody could tell it from no value at all
        made = msgspec.structs.replace(message, **{body.name: None})
        again = decode(protocol, encode(made), **vector.options)
        before, after = message.to_json()["fields"], again.to_json()["fields"]
        for view in message.layout.of(message).views:
            shown = before.get(view.key)
            if "NaN" not in str(shown) and '"$bin"' not in str(shown):
                assert repr(after.get(view.key)) == repr(shown), vector.id
                compared += 1
    assert compared > 50 or protocol in ("casual", "mb")


# --- what is refused


def test_a_message_of_another_protocol_is_refused() -> None:
    with pytest.raises(EncodeError) as caught:
        encode_frame(layout(load("dsa")), call())
    assert caught.value.rule == "unknown_message"


def test_an_error_says_protocol_message_path_and_rule() -> None:
    error = refusal(call(xid=casual.Xid(42, b"g" * 65, b"q" * 64)))
    assert str(error) == "casual service_call_request xid: 129 bytes, at most 128 [xid_length]"
    assert error.offset is None


WRONG: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: call(correlation=b"short"), "bytes_fits", "correlation"),
    (lambda: call(execution="0" * 16), "bytes_fits", "execution"),
    (lambda: call(flags=1 << 63), "int_range", "flags"),
    (lambda: call(flags=True), "int_range", "flags"),
    (lambda: call(flags=1.0), "int_range", "flags"),
    (lambda: call(flags=None), "int_range", "flags"),
    (lambda: call(service=None), "field_type", "service"),
    (lambda: call(service="echo"), "field_type", "service"),
    (lambda: call(service=casual.Service(5, 0)), "field_type", "service.name"),  # type: ignore[arg-type]
    (lambda: call(service=casual.Service(b"echo", 0)), "field_type", "service.name"),  # type: ignore[arg-type]
    (lambda: call(buffer=casual.Buffer("", "abc")), "field_type", "buffer.payload"),  # type: ignore[arg-type]
    (lambda: call(buffer=casual.Buffer("", 5)), "field_type", "buffer.payload"),  # type: ignore[arg-type]
    (lambda: call(buffer=casual.Buffer("", [1, 2])), "field_type", "buffer.payload"),  # type: ignore[arg-type]
    (lambda: call(xid=casual.Xid(-1, b"g")), "field_not_allowed", "xid.gtrid"),
    (lambda: call(xid=casual.Xid(42, None)), "field_type", "xid"),  # type: ignore[arg-type]
    (lambda: publish(Cell(1, "BOOL", True)), "cell_type", "record[0]"),
    (lambda: publish(Cell(1, "INT", 1), Cell(4095, "INT", 1)), "cell_id", "record[1]"),
    (lambda: publish(Cell(1, "INT", "1")), "int_range", "record[0]"),
    (lambda: publish(Cell(1, "FLOAT", "x")), "int_range", "record[0]"),
    (lambda: publish(Cell(1, "FLOAT", 1e300)), "int_range", "record[0]"),
    (lambda: publish(Cell(1, "STRING", b"x")), "field_type", "record[0]"),
    (lambda: publish(Cell(1, "STRING", "\udc80")), "text_utf8", "record[0]"),
    (lambda: publish(None), "field_type", "record"),  # type: ignore[arg-type]
    (lambda: ceda.Publish(topic="T", record=5), "field_type", "record"),  # type: ignore[arg-type]
    (lambda: ceda.Publish(topic="T", body="x"), "field_type", "body_hex"),  # type: ignore[arg-type]
    (lambda: ceda.Heartbeat(mask_key=b"abc"), "bytes_fits", "mask_key"),
    (lambda: dsa.Ping(request_id=1), "ids_missing", "request_id"),
    (lambda: dsa.Ping(headers=None), "field_type", "headers"),  # type: ignore[arg-type]
    (lambda: mb.Request(topic="a", version="1.0.0", timeout="5"), "field_type", "timeout"),  # type: ignore[arg-type]
    (lambda: mb.Publish(topic="a", version="1.0.0", payload="x"), "field_type", "payload"),  # type: ignore[arg-type]
    (lambda: mb.Publish(topic=None, version="1.0.0"), "field_missing", "topic"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(
    ("make", "rule", "path"), WRONG, ids=[f"{rule} {path} {i}" for i, (_, rule, path) in enumerate(WRONG)]
)
def test_what_cannot_be_written_is_refused_with_path_and_rule(make: Callable[[], Any], rule: str, path: str) -> None:
    message = make()
    options = {"dialect": "ceda4-ws"} if isinstance(message, ceda.Heartbeat) else {}
    error = refusal(message, **options)
    assert (error.rule, error.path) == (rule, path)


def test_a_mask_is_refused_in_the_dialect_that_has_none() -> None:
    error = refusal(ceda.Heartbeat(mask_key=b"abcd"), dialect="ceda4")
    assert (error.rule, error.path) == ("mask_not_allowed", "mask_key")


def test_a_number_is_no_bytes_however_large() -> None:
    """``bytes(n)`` would write, or try to write, n zeros."""
    assert refusal(call(buffer=casual.Buffer("", 1 << 50))).rule == "field_type"  # type: ignore[arg-type]


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match="casual has no option 'dialect'; it has: profile"):
        encode(call(), dialect="ceda4")


def test_a_default_stands_for_what_is_absent_behind_something_absent() -> None:
    note = message("Note", code=0, why=optional(u8, when=IfLeft()), more=optional(TAIL, when=IfLeft(), default=()))
    protocol = declare(Protocol("tails", "", Frame((Size("length", u8, counts="after"),)), (note,)))
    for data in (b"\0", b"\2\7\0", b"\3\7\1\1"):
        assert encode(decode(protocol, data)) == data
    with pytest.raises(EncodeError, match="is absent, but 2 bytes follow it"):
        encode(note(more=(1,)))


def test_what_is_absent_for_want_of_bytes_is_where_bytes_end() -> None:
    """Constants behind it are no bytes that are left; whatever else follows would be read as its value."""
    why: Any = optional(u8, when=IfLeft())
    inner = made(Struct, "Inner", {"why": why, "end": constant(b"!")})
    alone = made(Message, "Alone", {"why": why, "end": constant(b"!")}, code=1)
    held = made(Message, "Held", {"inner": field(sized(u8, nested(inner))), "after": field(u8)}, code=2)
    last = made(Message, "Last", {"first": field(nested(inner)), "after": why}, code=3)
    frame = Frame((Size("length", u8, counts="after"), Code("kind", u8)))
    protocol = declare(Protocol("ends_of_ranges", "", frame, (alone, held, last)))
    for data in (b"\2\1!", b"\3\1\7!", b"\4\2\1!\5", b"\5\2\2\7!\5", b"\2\3!", b"\3\3\7!", b"\4\3\7!\5"):
        assert encode(decode(protocol, data)) == data
    with pytest.raises(EncodeError, match="is absent, but 1 bytes follow it"):
        encode(last(first=inner(), after=5))


def test_a_sum_that_holds_what_ends_the_frame_is_refused() -> None:
    summed = made(Message, "Summed", {"value": field(u8), "sum": checksum(be.u16, "sum16")}, code=1)
    declare(Protocol("sums_and_ends", "", Frame((Code("kind", u8), Until(b"\n", 99))), (summed,)))
    assert encode(summed(value=7)) == b"\1\7\0\x08\n"
    with pytest.raises(EncodeError, match="ends a frame, and is inside this one"):
        encode(summed(value=9))


def test_a_null_is_written_where_its_condition_asks_for_a_value() -> None:
    named = optional(text(be.i16, null=-1), when=When("version", least=1))
    note = message("Note", code=0, version=field(u8), who=named, also=field(text(be.i16, null=-1)))
    protocol = declare(Protocol("nulls", "", Frame((Size("length", u8, counts="after"),)), (note,)))
    for data in (b"\3\0\xff\xff", b"\5\1\xff\xff\xff\xff"):
        read = decode(protocol, data)
        assert read.who is None and read.also is None
        assert encode(read) == data
        assert encode_frame(read.layout, from_json(read.layout, read.to_json())) == data


def test_of_several_conditions_all_must_hold() -> None:
    named = optional(u8, when=(When("flags", bits=1), When("version", least=2)))
    note = message("Note", code=0, flags=field(u8), version=field(u8), who=named)
    protocol = declare(Protocol("both", "", Frame((Size("length", u8, counts="after"),)), (note,)))
    for data, who in ((b"\3\1\2\7", 7), (b"\2\0\2", None), (b"\2\1\1", None)):
        read = decode(protocol, data)
        assert read.who == who
        assert encode(read) == data
    with pytest.raises(EncodeError, match="is missing, and flags and version ask for it"):
        encode(note(flags=1, version=2))
    with pytest.raises(EncodeError, match="must be absent, as version says"):
        encode(note(flags=1, version=1, who=7))
