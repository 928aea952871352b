"""The quick reading and writing of live connections: the same rules as the codec's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirelake
from tests.live.dsa.play import frames
from wirelake.codec import codec_for
from wirelake.errors import DecodeError
from wirelake.live.dsa import wire
from wirelake.live.dsa.wire import Outgoing, Received
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

EXAMPLES = [
    "20000000 2000 02 05000000 09000000 800e00706c616e742f626f696c65722031",
    "41000000 1800 82 05000000 1f000000 0000 20 2103007075620300246973 0500a4756e6974 040074656d70"
    "0e0081a52474797065a66e756d626572 03006f6c640000",
    "31000000 3100 01 06000000 0a000000 801300706c616e742f626f696c657220312f74656d70 1202 1400100000 1558020000",
    "11000000 1100 81 06000000 21000000 000e",
    "31000000 2d00 04 08000000 0d000000 801300706c616e742f626f696c657220312f74656d70 41050040756e6974 0000 a14b",
    "22000000 2200 84 08000000 22000000 0045 050e00756e6974206e6f74206b6e6f776e",
    "0f000000 0f00 0f 06000000 0e000000",
    "0b000000 0700 f8 22000000",
    "07000000 0700 f9",
    "0f000000 0f00 f9 00000000 22000000",
    "07000000 0700 0f",
]
STREAM = b"".join(map(bytes.fromhex, EXAMPLES))


def shown(message: Received) -> tuple[Any, ...]:
    return message.method, message.request_id, message.ack_id, message.headers, message.body


def read_by_codec(frame: bytes) -> tuple[Any, ...]:
    message = codec_for(wire.COMPAT).decode(frame)
    code = type(message).__message__["code"]
    return code, message.request_id or 0, message.ack_id or 0, message.headers, message.body or b""


def test_the_examples_of_the_specification_are_read_as_the_codec_reads_them() -> None:
    for _ in range(2):  # the second time the headers are known
        found = frames(STREAM)
        assert [shown(message) for message in found] == [read_by_codec(bytes.fromhex(text)) for text in EXAMPLES]


@given(st.lists(st.integers(1, 60), max_size=30))
def test_any_pieces_give_the_same_messages(sizes: list[int]) -> None:
    reader, found, at = wire.Reader(), [], 0
    for size in [*sizes, len(STREAM)]:
        reader.read(STREAM[at : at + size], found.append)  # type: ignore[arg-type]
        at += size
    assert list(map(shown, found)) == list(map(shown, frames(STREAM)))


@settings(max_examples=300)
@given(st.sampled_from(EXAMPLES), st.lists(st.tuples(st.integers(0, 70), st.integers(0, 255)), min_size=1, max_size=3))
def test_changed_bytes_are_judged_as_the_codec_judges_them(text: str, changes: list[tuple[int, int]]) -> None:
    frame = bytearray.fromhex(text)
    frames(bytes(frame))
    for at, byte in changes:
        if 4 <= at < len(frame):
            frame[at] = byte
    data = bytes(frame)
    try:
        expected: Any = read_by_codec(data)
    except DecodeError as error:
        expected = error.rule
    try:
        found: Any = shown(wire.read_frame(data, 4, len(data)))
    except DecodeError as error:
        found = error.rule
    assert found == expected


def test_a_message_is_written_as_the_codec_writes_it() -> None:
    head = wire.write_headers(Headers(status=0x45, error_detail="unit not known"))
    written = Outgoing(p.SET_R, 8, head).stamped(0x22)
    assert written == bytes.fromhex(EXAMPLES[5])
    message = p.SetResponse(request_id=8, ack_id=0x22, headers=Headers(status=0x45, error_detail="unit not known"))
    assert written == wirelake.encode(message)
    assert wire.ack(0x22) == bytes.fromhex(EXAMPLES[7])
    assert bytes.fromhex(EXAMPLES[8]) == wire.PING


def test_an_empty_set_is_left_to_who_reads_the_body() -> None:
    frame = Outgoing(p.SET, 1, wire.write_headers(Headers(target_path="a"))).stamped(1)
    for _ in range(2):
        try:
            expected: Any = read_by_codec(frame)
        except DecodeError as error:
            expected = error.rule
        try:
            found: Any = shown(wire.read_frame(frame, 4, len(frame)))
        except DecodeError as error:
            found = error.rule
        assert found == expected


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES, st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_values_go_through(value: Any, meta: dict[str, Any]) -> None:
    assert wire.read_value(wire.write_value(value, meta)) == (value, meta)


def test_a_value_body_without_a_value_is_null() -> None:
    assert wire.read_value(b"\0\0") == (None, {})
    assert wire.write_value(None) == b"\0\0\xc0"


@pytest.mark.parametrize("body", ["00", "0100", "0100c0", "0200c0", "0000c0c0", "0000a2", "0000c1"])
def test_a_value_body_that_is_none_is_an_error(body: str) -> None:
    with pytest.raises(DecodeError):
        wire.read_value(bytes.fromhex(body))


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.binary(max_size=20)), max_size=10))
def test_pairs_go_through(pairs: list[tuple[bytes, bytes]]) -> None:
    body = b"".join(wire.write_pair(key, value) for key, value in pairs)
    assert list(wire.split_pairs(body)) == pairs


@given(st.binary(max_size=40))
def test_any_bytes_are_pairs_or_an_error(body: bytes) -> None:
    try:
        pairs = list(wire.split_pairs(body))
    except DecodeError:
        return
    assert b"".join(wire.write_pair(key, value) for key, value in pairs) == body


def test_an_error_shows_no_more_than_the_fixed_part_of_its_frame() -> None:
    token = b"s3cret-token-that-nobody-may-see-in-any-log-file"
    head = b"\x60" + len(token).to_bytes(2, "little") + token + b"\x99"
    frame = Outgoing(p.LIST, 1, head).stamped(1)
    with pytest.raises(DecodeError) as caught:
        frames(frame)
    assert caught.value.excerpt == frame[:15].hex(" ")
    assert "s3cret" not in str(caught.value)
