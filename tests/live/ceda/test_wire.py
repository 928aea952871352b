"""CEDA's stream of one peer: frames in both dialects, which one it is, and where the framing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirelake
from tests.live.ceda.play import CEDA_MESSAGES
from tests.vectors.load import Vector, vectors
from wirelake.codec.detect import detector_for
from wirelake.errors import DecodeError, EncodeError
from wirelake.live.ceda.data import is_record, read_data, write_record
from wirelake.live.ceda.wire import (
    AUTO,
    CEDA4,
    CEDA4_WS,
    CEDA_TCP,
    FRAMINGS,
    Reader,
    check_sendable,
    decode_payload,
    java_warning,
    layout_of,
)
from wirelake.live.core.link import Link
from wirelake.protocols import ceda as p

DIALECTS = (CEDA4, CEDA4_WS)
EXAMPLES = {
    "heartbeat": "820101",
    "login": "821c 1303 7c000400 70792d31 5c000600 733363726574 4c000400 64656d6f",
    "login result": "8219 1304 6200 12040000 4c000700 53756363657373 1200 01000000",
    "batch": "8218 110d 3c001200 46582e53504f542e2a7c52415445532e2a2a",
    "publish": "8244 61 0e 46582e53504f542e455552555344 1a00 5c8fc2f5285cf13f 2800 0000003f 3c000600 e6aca7e58583"
    " 4200 a0860100 6400 009cc70090010000 7600 feff 8e000200 0102",
    "request": "8227 62 09 51554f54452e474554 120400 024d51 026337 08 313034322e312e32 1c000600 455552555344",
    "reply": "8223 63 08 313034322e312e32 120400 024d51 026337 1a00 5c8fc2f5285cf13f 3c000200 6f6b",
}


def a_reader(dialect: str = AUTO, written: str = CEDA4_WS) -> Reader:
    return Reader(Link(1, FRAMINGS[written], []), dialect)


def read(reader: Reader, *chunks: bytes) -> list[bytes]:
    return [payload for chunk in chunks for batch in reader.read(chunk) for payload in batch]


def publish(size: int, dialect: str, topic: str = "NEWS.A") -> bytes:
    return wirelake.encode(p.Publish(topic=topic, body=write_record({3: "n" * size})), dialect=dialect)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("dialect", (AUTO, *DIALECTS))
def test_the_worked_examples_are_read_and_written(name: str, dialect: str) -> None:
    frame = bytes.fromhex(EXAMPLES[name])
    reader = a_reader(dialect)
    (payload,) = read(reader, frame)
    assert payload == frame[2:]
    assert reader.error is None and reader.pending == 0
    for framing in FRAMINGS.values():
        assert framing.wrap(payload) == frame


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("length", [1, 125, 126, 127, 255, 256, 65531, 65535])
def test_lengths_are_written_as_the_codec_reads_them(dialect: str, length: int) -> None:
    payload = (b"\x61\x01a" + write_record({1: "x" * 60000}) + bytes(70000))[:length]
    wire = FRAMINGS[dialect].wrap(payload)
    assert len(wire) == length + (2 if length < 126 else 4)
    assert read(a_reader(dialect), wire) == [payload]


def test_example_7_shows_its_dialect_by_the_length() -> None:
    for dialect, length in ((CEDA4, "d400"), (CEDA4_WS, "00d4")):
        wire = bytes.fromhex(f"827e {length} 61 06 4e4557532e41 3c00c800") + b"n" * 200
        reader = a_reader()
        assert read(reader, wire) == [wire[4:]]
        assert reader.dialect == dialect
        assert reader._link.framing is FRAMINGS[dialect]


def test_example_9_shows_its_dialect_by_the_reply_topic() -> None:
    body = "2e000200 5859 0e000f00 01 0000 0100 02000000 0200 02000000"
    deployed = f"823a 65 07 444f432e4e4557 ffffff 00 00 12 444f432e4e45572e30613162326333642e31 {body}"
    document = f"8227 65 07 444f432e4e4557 ffffff 00 00 {body}"
    for dialect, frame in ((CEDA4_WS, deployed), (CEDA4, document)):
        reader = a_reader()
        (payload,) = read(reader, bytes.fromhex(frame))
        assert reader.dialect == dialect
        assert decode_payload(payload, dialect).group.total_length == 2


def test_example_10_is_unmasked_and_proves_the_deployed_dialect() -> None:
    wire = bytes.fromhex("8298 a1b2c3d4 b0bfffd4b3b2858c8fe1939bf59ce9a8f3f39791f29ce9fe")
    reader = a_reader()
    assert read(reader, wire) == [bytes.fromhex(EXAMPLES["batch"])[2:]]
    assert reader.dialect == CEDA4_WS


def test_a_masked_frame_is_taken_wherever_it_stands() -> None:
    masked = wirelake.encode(p.Publish(topic="a", body=b"x" * 0, mask_key=b"abcd"), dialect=CEDA4_WS)
    long = wirelake.encode(p.Publish(topic="a", body=write_record({1: "y" * 300}), mask_key=b"abcd"), dialect=CEDA4_WS)
    reader = a_reader()
    found = read(reader, publish(5, CEDA4_WS) + masked + publish(5, CEDA4_WS) + long)
    assert [payload[:3] for payload in found] == [b"\x61\x06N", b"\x61\x01a", b"\x61\x06N", b"\x61\x01a"]


def test_a_logout_with_more_than_its_type_proves_the_deployed_dialect() -> None:
    reader = a_reader()
    assert read(reader, bytes.fromhex("8202 14 05")) == [b"\x14\x05"]
    assert reader.dialect == CEDA4_WS


def test_short_frames_prove_nothing() -> None:
    reader = a_reader()
    for frame in EXAMPLES.values():
        read(reader, bytes.fromhex(frame))
    assert reader.dialect is None
    assert reader.reading == CEDA4_WS


def test_a_length_that_reads_alike_both_ways_proves_nothing() -> None:
    wire = publish(0x0101 - 12, CEDA4)
    assert wire[2:4] == b"\x01\x01"
    reader = a_reader()
    assert len(read(reader, wire)) == 1
    assert reader.dialect is None


def test_a_group_pub_that_reads_both_ways_is_read_as_configured() -> None:
    frame = bytes.fromhex("820b 65 01 61 ffffff 00 00 00 00 00")
    assert read(a_reader(), frame) == [frame[2:]]
    for written in DIALECTS:
        reader = a_reader(AUTO, written)
        read(reader, frame)
        assert (reader.dialect, reader.reading) == (None, written)


def test_only_one_length_is_possible_where_the_other_is_below_126() -> None:
    for dialect in DIALECTS:
        wire = publish(256 - 12, dialect)
        reader = a_reader()
        assert read(reader, wire[:4]) == []
        assert reader.dialect == dialect
        assert read(reader, wire[4:]) == [wire[4:]]


def test_messages_before_the_proof_are_given_before_it() -> None:
    reader = a_reader(AUTO, CEDA4_WS)
    both = bytes.fromhex("820b 65 01 61 ffffff 00 00 00 00 00")
    verdicts = [(reader.reading, batch) for batch in reader.read(both + publish(300, CEDA4))]
    assert [(verdict, len(batch)) for verdict, batch in verdicts] == [(CEDA4_WS, 1), (CEDA4, 1)]


def test_a_bad_record_in_the_first_long_frame_waits_for_what_follows() -> None:
    for dialect in DIALECTS:
        bad = FRAMINGS[dialect].wrap(b"\x61\x01a" + b"\x1c\x00\xff\x00" + b"x" * 150)
        reader = a_reader()
        assert read(reader, bad) == []
        assert read(reader, bytes.fromhex("820101")) == [bad[4:], b"\x01"]
        assert reader.dialect == dialect


@pytest.mark.parametrize(
    ("hexed", "dialect", "rule"),
    [
        ("81", AUTO, "magic"),
        ("8101", AUTO, "magic"),
        ("82", AUTO, None),
        ("8200", AUTO, "frame_limit"),
        ("827f", AUTO, "length_code"),
        ("82ff", AUTO, "length_code"),
        ("827e0005", CEDA4_WS, "length_not_minimal"),
        ("827e0500", CEDA4, "length_not_minimal"),
        ("827e0000", AUTO, "length_not_minimal"),
        ("8281", CEDA4, "mask_not_allowed"),
        ("827e", AUTO, None),
        ("8280", CEDA4_WS, "frame_limit"),
        ("820101 ff", AUTO, "magic"),
        ("8901", AUTO, "magic"),
    ],
)
def test_a_wrong_header_is_told_as_soon_as_it_shows(hexed: str, dialect: str, rule: str | None) -> None:
    reader = a_reader(dialect)
    read(reader, bytes.fromhex(hexed))
    assert (reader.error.rule if reader.error else None) == rule


def test_74_is_a_length() -> None:
    frame = publish(116 - 12, CEDA4)
    assert frame[1] == 0x74
    assert read(a_reader(), frame) == [frame[2:]]


def test_what_comes_after_lost_framing_is_not_kept() -> None:
    reader = a_reader()
    assert read(reader, bytes.fromhex("820101 00") + bytes(1000)) == [b"\x01"]
    assert read(reader, bytes.fromhex("820101")) == []
    assert reader.pending == 0


def test_a_frame_may_come_byte_by_byte() -> None:
    for dialect in DIALECTS:
        wire = publish(40_000, dialect) + bytes.fromhex("820101")
        reader = a_reader()
        assert read(reader, *(wire[i : i + 1] for i in range(len(wire)))) == [wire[4:-3], b"\x01"]


@given(st.binary(max_size=400), st.lists(st.integers(1, 50), max_size=30), st.sampled_from((AUTO, *DIALECTS)))
def test_any_bytes_give_payloads_or_an_error_and_nothing_else(data: bytes, cuts: list[int], dialect: str) -> None:
    assert_cut_does_not_matter(b"\x82" + data, cuts, dialect)


FRAMES = st.one_of(
    st.sampled_from([bytes.fromhex(frame) for frame in EXAMPLES.values()]),
    st.builds(publish, st.integers(0, 700), st.sampled_from(DIALECTS)),
    st.binary(max_size=20),
    st.builds(lambda payload, dialect: FRAMINGS[dialect].wrap(payload), st.binary(min_size=1, max_size=300),
              st.sampled_from(DIALECTS)),
    st.just(bytes.fromhex("820b 65 01 61 ffffff 00 00 00 00 00")),
)  # fmt: skip


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(1, 400), max_size=30), st.sampled_from((AUTO, *DIALECTS)))
def test_how_a_stream_is_cut_does_not_matter(frames: list[bytes], cuts: list[int], dialect: str) -> None:
    assert_cut_does_not_matter(b"".join(frames), cuts, dialect)


def assert_cut_does_not_matter(data: bytes, cuts: list[int], dialect: str) -> None:
    whole = a_reader(dialect)
    expected = seen(whole, [data])
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    pieces.append(data[at:])
    parts = a_reader(dialect)
    assert seen(parts, pieces) == expected
    assert parts.dialect == whole.dialect and parts.pending == whole.pending
    assert parts.pending <= 65535 + 8
    assert (parts.error is None) == (whole.error is None)
    if parts.error is not None and whole.error is not None:
        assert parts.error.rule == whole.error.rule


def seen(reader: Reader, pieces: list[bytes]) -> list[tuple[str, bytes]]:
    """Payloads with the dialect that they are to be read in, where that matters."""
    return [
        (reader.reading if payload[0] == 0x65 else "", payload)
        for piece in pieces
        for batch in reader.read(piece)
        for payload in batch
    ]


def test_the_reader_agrees_with_the_stream_decoder_on_generated_traffic() -> None:
    for dialect in DIALECTS:
        stream = b"".join(
            FRAMINGS[dialect].wrap(b"\x61\x06NEWS.A" + write_record({1: i, 3: "n" * (i * 7 % 900)})) for i in range(300)
        )
        decoder = wirelake.StreamDecoder("ceda")
        messages: list[Any] = [event.message for event in decoder.feed(stream)]
        payloads = read(a_reader(), stream)
        assert [decode_payload(payload, dialect).record for payload in payloads] == [m.record for m in messages]


@pytest.mark.parametrize("vector", vectors("ceda"), ids=lambda vector: vector.id)
def test_the_reader_takes_every_vector_as_the_codec_does(vector: Vector) -> None:
    reader = a_reader(vector.options.get("dialect", AUTO), CEDA4)
    texts = {key: value for key, value in vector.options.items() if key != "dialect"}
    found = read(reader, vector.data)
    if vector.error is None:
        (payload,) = found
        message = decode_payload(payload, reader.reading, **texts)
        assert message.__message__["name"] == vector.message["name"]
        if payload[0] >= 0x61:
            data = read_data(payload, reader.reading, **texts)
            assert (data.topic, data.body) == (message.topic, message.body)
            assert repr(data.cells) == repr(message.record)
            assert is_record(data.body, 0, **texts)
    elif vector.error["verdict"] == "incomplete":
        assert found == [] and reader.error is None and reader.pending == len(vector.data)
    elif vector.error["rule"] == "trailing_bytes":
        assert len(found) + reader.pending + (reader.error is not None) > 1
    elif reader.error is not None:
        assert reader.error.rule == vector.error["rule"]
    else:
        for payload in found[:1]:
            with pytest.raises(DecodeError) as caught:
                decode_payload(payload, reader.reading, **texts)
            assert caught.value.rule == vector.error["rule"]


@given(st.binary(max_size=40), st.booleans())
def test_a_group_pub_proves_its_dialect_exactly_if_the_codec_finds_that_it_does(tail: bytes, is_named: bool) -> None:
    payload = b"\x65" + (b"\x01a\xff\xff\xff\0\0" if is_named else b"") + tail
    frame = FRAMINGS[CEDA4].wrap(payload)
    verdict = detector_for((layout_of(CEDA4), layout_of(CEDA4_WS))).detect(frame, 0, len(frame))
    reader = Reader(Link(1, CEDA_TCP, []))
    assert [one for batch in reader.read(frame) for one in batch] == [payload]
    assert (reader.dialect is not None) == (verdict.layout is not None)


def test_a_payload_of_65531_bytes_is_the_longest_that_goes_to_deployed_peers() -> None:
    check_sendable(bytes(65531), CEDA4_WS)
    check_sendable(bytes(65535), CEDA4)
    for size, dialect in ((65532, CEDA4_WS), (65536, CEDA4)):
        with pytest.raises(EncodeError, match="frame_limit"):
            check_sendable(bytes(size), dialect)


@pytest.mark.parametrize(
    ("payload", "names", "is_warned"),
    [
        (b"\x11\x0d" + bytes(3), (), True),
        (b"\x11\x0d" + bytes(4), (), False),
        (b"\x61\x01a" + bytes(5), (), True),
        (b"\x61\x01a" + bytes(6), (), False),
        (b"\x62" + bytes(15), (), True),
        (b"\x62" + bytes(16), (), False),
        (b"\x01", (), False),
        (b"\x14", (), False),
        (b"\x61" + bytes(50), (b"x" * 127,), False),
        (b"\x61" + bytes(50), (b"x" * 128,), True),
    ],
)
def test_what_java_peers_cannot_read_is_warned_of(payload: bytes, names: tuple[bytes, ...], is_warned: bool) -> None:
    assert bool(java_warning(payload, names)) == is_warned


def test_over_websocket_the_dialect_is_known() -> None:
    reader = Reader(Link(1, CEDA_MESSAGES, []))
    assert reader.dialect == CEDA4_WS
    assert Reader(Link(1, CEDA_TCP, [])).dialect is None
