"""Telling the dialects of a connection apart."""

from __future__ import annotations

import random

import pytest

from tests.differential import split
from wirelake import StreamDecoder, decode, encode
from wirelake.codec.detect import Verdict, detect_alone, detector_for, is_clean
from wirelake.codec.headers import undisputed
from wirelake.codec.stream import Decoded
from wirelake.generate import generate
from wirelake.protocols import ceda, load
from wirelake.spec import Cell
from wirelake.spec.resolve import candidates

DOCUMENT, DEPLOYED = CHOICES = candidates(load("ceda"))
HEARTBEAT = bytes.fromhex("820101")


def verdict(data: bytes) -> Verdict:
    return detector_for(CHOICES).detect(data, 0, len(data))


def long_publish(size: int, dialect: str) -> bytes:
    """A publish with a payload of this many bytes."""
    frame = encode(ceda.Publish(topic="T", record=(Cell(1, "BYTES", b"*" * (size - 7)),)), dialect=dialect)
    assert len(frame) == size + 4
    return frame


def test_a_mask_bit_proves_the_deployed_dialect_before_its_key_is_there() -> None:
    assert verdict(bytes.fromhex("8281")).layout is DEPLOYED
    assert verdict(bytes.fromhex("82fe00")).layout is DEPLOYED


def test_a_short_frame_proves_nothing() -> None:
    assert verdict(HEARTBEAT) == Verdict()


@pytest.mark.parametrize("data", ["", "82", "827e", "827ed4"])
def test_a_header_that_is_cut_off_must_be_waited_for(data: str) -> None:
    assert verdict(bytes.fromhex(data)) == Verdict(wait=True)


@pytest.mark.parametrize("data", ["81", "827f", "8200", "827e0000"])
def test_what_is_wrong_in_every_dialect_proves_none(data: str) -> None:
    assert verdict(bytes.fromhex(data)) == Verdict()


def test_a_length_that_only_one_dialect_may_write_proves_it() -> None:
    assert verdict(bytes.fromhex("827e0001")).layout is DOCUMENT
    assert verdict(bytes.fromhex("827e0100")).layout is DEPLOYED


def test_a_length_that_reads_the_same_both_ways_proves_nothing() -> None:
    assert verdict(long_publish(257, "ceda4")) == Verdict()


@pytest.mark.parametrize(("dialect", "right"), [("ceda4", DOCUMENT), ("ceda4-ws", DEPLOYED)])
def test_the_smaller_of_two_lengths_is_right_if_it_holds_a_clean_message(dialect: str, right: object) -> None:
    frame = long_publish(212, dialect)
    assert verdict(frame).layout is right
    assert verdict(frame + HEARTBEAT).layout is right
    assert detect_alone(CHOICES, frame) is right
    assert verdict(frame[:-1]) == Verdict(wait=True)


def test_in_a_stream_a_clean_frame_is_believed_whatever_follows() -> None:
    assert verdict(long_publish(212, "ceda4") + b"\xff").layout is DOCUMENT


def test_a_frame_alone_is_judged_by_what_follows_too() -> None:
    assert detect_alone(CHOICES, long_publish(212, "ceda4") + b"\xff") is DEPLOYED


@pytest.mark.parametrize(("dialect", "right"), [("ceda4", DOCUMENT), ("ceda4-ws", DEPLOYED)])
def test_the_larger_of_two_lengths_is_right_if_the_smaller_one_holds_no_message(dialect: str, right: object) -> None:
    frame = long_publish(33026, dialect)
    assert verdict(frame).layout is right
    assert verdict(frame[:700]).layout is right


def test_a_bad_record_is_still_a_frame_if_another_follows_it() -> None:
    payload = b"\x61\x01T" + b"\x1c\x00\xc8\x00" + b"n" * 199 + b"\xff" + b"\x12\x00\x00\x00\x00\x00"
    frame = b"\x82\x7e" + len(payload).to_bytes(2, "little") + payload
    assert verdict(frame) == Verdict(DEPLOYED, wait=True)
    assert verdict(frame + HEARTBEAT[:2]) == Verdict(DEPLOYED, wait=True)
    assert verdict(frame + HEARTBEAT).layout is DOCUMENT
    assert verdict(frame + b"\x82\x01\x02").layout is DEPLOYED


def test_a_group_pub_proves_the_dialect_in_which_alone_it_is_clean() -> None:
    record = (Cell(2, "BYTES", b"XY"),)
    without = ceda.GroupPub(topic="T", connection_id=1, server_id="", signal_id="", record=record)
    with_topic = ceda.GroupPub(topic="T", connection_id=1, server_id="", signal_id="", reply_topic="T.1", record=record)
    assert verdict(encode(without, dialect="ceda4")).layout is DOCUMENT
    assert verdict(encode(with_topic, dialect="ceda4-ws")).layout is DEPLOYED


def test_a_logout_with_more_than_its_type_proves_the_deployed_dialect() -> None:
    assert verdict(bytes.fromhex("820114")) == Verdict()
    assert verdict(bytes.fromhex("82021405")).layout is DEPLOYED
    assert verdict(bytes.fromhex("8203140501")).layout is DEPLOYED


def test_cells_that_no_sender_writes_are_not_clean() -> None:
    def publish(*cells: Cell) -> ceda.Publish:
        message: ceda.Publish = decode("ceda", encode(ceda.Publish(topic="T", record=cells), dialect="ceda4"))
        return message

    assert is_clean(publish(Cell(1, "INT", 1), Cell(2, "INT", 1)))
    assert is_clean(decode("ceda", HEARTBEAT))
    assert not is_clean(publish(Cell(1, "INT", 1), Cell(1, "INT", 2)))
    assert not is_clean(publish(Cell(1, "NONE")))
    assert not is_clean(publish(Cell(1, "INT", 1, group_bit=True)))


def test_messages_that_all_dialects_read_alike_are_known_beforehand() -> None:
    disputed = set(DOCUMENT.messages) - undisputed(CHOICES)
    assert {DOCUMENT.messages[code].name for code in disputed} == {"logout", "group_pub"}


# --- in streams


def shown_dialects(data: list[bytes]) -> list[str]:
    decoder = StreamDecoder("ceda")
    events = [event for piece in data for event in decoder.feed(piece)] + decoder.finish()
    assert all(isinstance(event, Decoded) for event in events)
    return [event.message.to_json()["fields"]["dialect"] for event in events if isinstance(event, Decoded)]


def test_a_stream_is_undecided_until_something_is_proved_and_decided_from_then_on() -> None:
    data = HEARTBEAT + long_publish(212, "ceda4-ws") + HEARTBEAT
    assert shown_dialects([data]) == ["undecided", "ceda4-ws", "ceda4-ws"]


def test_the_first_long_frame_of_an_idle_connection_is_told_at_once() -> None:
    for dialect in ("ceda4", "ceda4-ws"):
        decoder = StreamDecoder("ceda")
        events = decoder.feed(long_publish(212, dialect))
        assert [type(event) for event in events] == [Decoded]
        assert decoder.layout.options["dialect"] == dialect


@pytest.mark.parametrize("dialect", ["ceda4", "ceda4-ws"])
def test_realistic_streams_are_told_apart_however_they_are_split(dialect: str) -> None:
    rng = random.Random(1)
    told = 0
    for seed in range(12):
        streams: dict[object, bytearray] = {}
        for event in generate("ceda", messages=150, connections=2, seed=seed, dialect=dialect):
            streams.setdefault((event.connection, event.direction), bytearray()).extend(event.frame)
        for stream in streams.values():
            seen = shown_dialects([bytes(stream)])
            assert set(seen) <= {"undecided", dialect}
            assert seen == sorted(seen, key=lambda value: value != "undecided")
            assert shown_dialects(split(bytes(stream), rng, 40)) == seen
            told += dialect in seen
    assert told > 0


def test_a_broken_frame_proves_no_dialect() -> None:
    """One flipped bit looks like a mask; the long frame behind it is read as what it is."""
    masked = bytes.fromhex("828361") + b"\x01T" + HEARTBEAT
    decoder = StreamDecoder("ceda")
    events = decoder.feed(masked + HEARTBEAT + long_publish(300, "ceda4") + HEARTBEAT) + decoder.finish()
    assert decoder.layout.options["dialect"] == "ceda4"
    assert sum(isinstance(event, Decoded) for event in events) >= 3
    assert sum(event.length for event in events) == decoder.bytes_in
