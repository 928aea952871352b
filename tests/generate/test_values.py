from __future__ import annotations

import time
from collections import Counter
from itertools import product
from random import Random
from typing import Any

import msgspec
import pytest

from tests.generate.toys import SENSOR, STOMP
from wirelake.codec import codec_for
from wirelake.codec.encoder import encode_frame
from wirelake.generate.values import random_frame, random_message
from wirelake.protocols import load
from wirelake.spec import nodes as n
from wirelake.spec.resolve import Layout, layout

BUILT_IN = ("casual", "dsa", "mb", "ceda")
CHARACTER_SETS = ("utf-8", "gbk", "latin-1")


def readings(protocol: n.Protocol) -> list[Layout]:
    """The protocol with every combination of its options."""
    settings = [
        [(name, value) for value in option.values or CHARACTER_SETS if value != "auto"]
        for name, option in protocol.options.items()
    ]
    return [layout(protocol, **dict(chosen)) for chosen in product(*settings)]


READINGS = [made for name in BUILT_IN for made in readings(load(name))] + readings(SENSOR) + readings(STOMP)
IDS = ["-".join([made.protocol.name, *map(str, made.options.values())]) for made in READINGS]


def seen(message: Any) -> str:
    """Everything in a message, views included; NaN is like NaN."""
    return f"{message!r} {message.wire_length} {message.notes}"


@pytest.mark.parametrize("reading", READINGS, ids=IDS)
def test_every_random_message_comes_back_from_its_bytes(reading: Layout) -> None:
    codec = codec_for(reading)
    rng = Random(f"{reading.protocol.name} {reading.options}")
    for node in reading.messages.values():
        for size in (0.0, 1.0, 1.0, 1.0, 20.0):
            for _ in range(9):
                message, frame = random_frame(reading, node, rng, size=size)
                decoded = codec.decode(frame)
                assert decoded == message
                assert seen(decoded) == seen(message)
                assert encode_frame(reading, message) == frame


@pytest.mark.parametrize("reading", READINGS, ids=IDS)
def test_the_same_seed_draws_the_same_messages(reading: Layout) -> None:
    for node in reading.messages.values():
        drawn = [[random_frame(reading, node, rng)[1] for _ in range(5)] for rng in (Random(7), Random(7), Random(8))]
        assert drawn[0] == drawn[1]
    assert [random_frame(reading, node, Random(9))[1] for node in reading.messages.values()] != [
        random_frame(reading, node, Random(10))[1] for node in reading.messages.values()
    ]


def drawn(protocol: str | n.Protocol, message: str, count: int = 600, size: float = 1.0, **options: Any) -> list[Any]:
    reading = layout(load(protocol), **options)
    node = reading.named(message)
    assert node is not None
    rng = Random(3)
    return [random_message(reading, node, rng, size=size) for _ in range(count)]


def test_integers_take_their_extremes_and_names() -> None:
    calls = drawn("casual", "service_call_request")
    flags = {call.flags for call in calls}
    assert {-(2**63), 2**63 - 1, -1, 0} <= flags
    assert {0x0004, 0x0008 | 0x0004} <= flags
    assert {hello.zone for hello in drawn(SENSOR, "hello")} >= set(range(-12, 15))


def test_conditions_hold_and_fail() -> None:
    xids = [call.xid for call in drawn("casual", "service_call_request")]
    assert {xid.format in (-1, 0) for xid in xids} == {True, False}
    assert all(xid.gtrid == xid.bqual == b"" for xid in xids if xid.format in (-1, 0))
    assert max(len(xid.gtrid) + len(xid.bqual) for xid in drawn_xids(size=20.0)) == 128
    pings = drawn("dsa", "ping")
    assert {(ping.request_id is None, ping.ack_id is None) for ping in pings} == {(True, True), (False, False)}
    logouts = drawn("ceda", "logout", dialect="ceda4-ws")
    assert {(logout.control_code is None, logout.body is None) for logout in logouts} == {(True, True), (False, False)}
    answers = {(a.more is None, a.note is None) for a in drawn(SENSOR, "answer")}
    assert answers == {(True, True), (False, True), (False, False)}


def drawn_xids(size: float) -> list[Any]:
    return [call.xid for call in drawn("casual", "service_call_request", size=size)]


def test_arrays_are_empty_and_full() -> None:
    lengths = {len(reply.services) for reply in drawn("casual", "domain_discover_reply")}
    assert {0, 1, 2, 3} <= lengths


def test_tags_are_those_of_the_message_and_the_required_ones_are_there() -> None:
    requests = drawn("dsa", "subscribe_request")
    names = Counter(name for request in requests for name in request.headers.order)
    assert set(names) == {
        *("alias_count", "priority", "no_stream", "qos", "queue_size", "queue_duration"),
        *("permission_token", "target_path"),
    }
    assert names["target_path"] == len(requests)
    assert len({request.headers.order for request in requests}) > 50
    anywhere = drawn("dsa", "subscribe_request", mode="compat")
    assert {name for request in anywhere for name in request.headers.order} > set(names) | {"status", "error_detail"}
    paged = [request for request in drawn("dsa", "invoke_request") if (request.headers.page_id or 0) > 0]
    assert {request.headers.target_path is None for request in paged} == {True, False}


def test_bodies_are_read_empty_absent_and_opaque() -> None:
    answers = drawn("dsa", "subscribe_response", 1500)
    kinds = Counter(
        (
            "opaque" if answer.headers.page_id else "empty" if answer.body == b"" else "read",
            answer.value_meta is msgspec.UNSET,
            answer.value is msgspec.UNSET,
        )
        for answer in answers
    )
    assert set(kinds) == {
        ("opaque", True, True),
        ("empty", True, True),
        ("read", True, True),
        ("read", False, True),
        ("read", True, False),
        ("read", False, False),
    }


def test_text_is_not_only_ascii_and_not_always_utf8() -> None:
    names = [call.service.name for call in drawn("casual", "service_call_request")]
    assert any(not name.isascii() for name in names)
    assert any("\udc80" <= c <= "\udcff" for name in names for c in name)
    topics = [publish.topic for publish in drawn("ceda", "publish")]
    assert {len(topic.encode()) for topic in topics} >= {0, 255}
    assert any(not topic.isascii() for topic in topics)


def test_cells_hold_every_type_and_split_messages_are_recognised() -> None:
    requests = drawn("ceda", "request", 1000)
    types = {cell.type for request in requests for cell in request.record}
    assert types == {"NONE", "INT", "LONG", "SHORT", "FLOAT", "DOUBLE", "STRING", "BYTES"}
    groups = Counter(type(request.group).__name__ for request in requests)
    assert set(groups) == {"NoneType", "FirstPiece", "NextPiece"}


def test_words_follow_their_patterns_and_belong_to_their_message() -> None:
    publishes = drawn("mb", "publish")
    assert all(publish.timeout is None for publish in publishes)
    assert {publish.request_id is None for publish in publishes} == {True, False}
    assert {request.timeout for request in drawn("mb", "request")} >= {None, 1, 3_600_000}
    assert any("-" in publish.version for publish in publishes)


def test_error_payloads_carry_what_they_need() -> None:
    responses = drawn("mb", "response", json_payload=True)
    errors = [response for response in responses if response.payload.startswith(b"error:")]
    assert errors
    assert all({"code", "message", "timestamp"} <= set(response.json) for response in errors)


def test_the_dial_makes_messages_larger_up_to_what_a_frame_holds() -> None:
    means = []
    for size in (0.0, 1.0, 10.0, 100.0):
        calls = drawn("casual", "service_call_request", 200, size=size)
        means.append(sum(call.wire_length for call in calls) / len(calls))
    assert means == sorted(means)
    assert means[3] > 20 * means[1]
    assert all(request.wire_length <= 16751 + 4 for request in drawn("mb", "request", 200, 5000.0, framing="tcp"))
    assert max(alarm.wire_length for alarm in drawn(SENSOR, "alarm", 200, 100.0)) <= 909


def test_ten_thousand_messages_take_a_few_seconds_at_most() -> None:
    """100 000 messages are drawn in tests elsewhere; this keeps that affordable on a slow, busy machine."""
    before = time.process_time()
    for name in BUILT_IN:
        reading = layout(load(name))
        rng = Random(0)
        for _ in range(2500 // len(reading.messages)):
            for node in reading.messages.values():
                random_frame(reading, node, rng)
    assert time.process_time() - before < 6
