from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

from wirelake.generate import Event, Traffic, generate
from wirelake.protocols import mb as p


@cache
def traffic() -> Traffic:
    return generate("mb", messages=12_000, connections=6, seed=3)


@cache
def events() -> list[Event]:
    return list(traffic())


def payload(message: Any) -> Any:
    return json.loads(message.payload.removeprefix(b"error:") or b"null")


def test_the_broker_greets_and_every_service_registers_first() -> None:
    for number in range(6):
        mine = [event for event in events() if event.connection.number == number]
        assert (mine[0].direction, mine[0].message.topic) == ("to_client", "system.initialize")
        assert (mine[1].direction, mine[1].message.topic) == ("to_server", "system.service.register")
        assert mine[2].message.topic == "system.topic.subscribe"


def test_within_a_leg_the_id_pairs_request_and_response() -> None:
    for x in traffic().truth.exchanges:
        if x.reply is not None:
            request, reply = events()[x.request].message, events()[x.reply].message
            assert isinstance(reply, p.Response)
            assert reply.topic == request.topic == x.address
            if request.request_id is not None:
                assert reply.request_id == request.request_id == x.correlation


def test_the_two_legs_have_different_ids_and_the_same_payload() -> None:
    legs = [x for x in traffic().truth.exchanges if x.other_leg is not None and x.direction == "to_server"]
    assert len(legs) > 500
    by_request = {x.request: x for x in traffic().truth.exchanges}
    for x in legs:
        assert x.other_leg is not None
        asked, forwarded = events()[x.request], events()[x.other_leg]
        assert (asked.direction, forwarded.direction) == ("to_server", "to_client")
        assert asked.message.payload == forwarded.message.payload
        assert asked.message.request_id != forwarded.message.request_id
        assert forwarded.message.timeout is None and forwarded.message.parent_request_id is None
        other = by_request[x.other_leg]
        if x.outcome == "ok":
            assert x.reply is not None and other.reply is not None and other.reply < x.reply
            assert events()[x.reply].message.payload == events()[other.reply].message.payload


def test_a_publish_reaches_every_subscriber_with_one_new_id() -> None:
    subscribers = Counter(topic for session in traffic().truth.sessions for topic in session.facts["publish_topics"])
    copies = Counter(
        (event.message.topic, event.message.request_id)
        for event in events()
        if event.direction == "to_client" and isinstance(event.message, p.Publish) and event.message.request_id
    )
    full = sum(count == subscribers[topic] for (topic, _), count in copies.items())
    assert full > 0.98 * len(copies)  # the first ones come before everyone has subscribed
    assert all(count <= subscribers[topic] for (topic, _), count in copies.items())


def test_time_outs_are_told_when_they_are_due() -> None:
    told = [x for x in traffic().truth.exchanges if x.status == "TIMEOUT"]
    assert told
    for x in told:
        assert x.reply is not None and x.latency_us is not None
        assert x.limit_us <= x.latency_us < x.limit_us + 2_000
        assert payload(events()[x.reply].message)["error"]["code"] == "TIMEOUT"
        request = events()[x.request].message
        assert x.limit_us == (request.timeout or 5000) * 1000


def test_late_answers_are_refused() -> None:
    refused = [
        event for event in events() if b"INVALID_REQUEST_ID" in event.message.payload and event.direction == "to_client"
    ]
    truth = {x.request: x for x in traffic().truth.exchanges}
    late = {
        x.correlation
        for x in truth.values()
        if x.direction == "to_client" and x.reply and x.other_leg and truth[x.other_leg].outcome == "timeout"
    }
    assert refused and {event.message.request_id for event in refused} == late


def test_error_answers_say_what_the_truth_says() -> None:
    codes = Counter(x.status for x in traffic().truth.exchanges if x.outcome == "error")
    assert set(codes) >= {"NO_ROUTE_FOUND", "TOPIC_NOT_SUPPORTED", "INVALID_REQUEST", "NOT_FOUND", "OUT_OF_STOCK"}
    assert any(event.message.payload.startswith(b"error:") for event in events())


def test_silent_services_are_asked_for_a_heartbeat() -> None:
    beats = [event for event in events() if event.message.topic == "system.heartbeat"]
    asked = [event for event in beats if event.direction == "to_client" and isinstance(event.message, p.Request)]
    answered = [event for event in beats if event.direction == "to_server" and isinstance(event.message, p.Response)]
    assert len(asked) == len(answered) > 0
    assert all(event.message.request_id is None for event in asked + answered)
    last: dict[int, int] = {}
    for event in events():
        if event in asked:
            assert event.ts_us - last[event.connection.number] >= 30_000_000
        if event.direction == "to_server":
            last[event.connection.number] = event.ts_us


def test_some_requests_want_no_answer_and_get_none() -> None:
    silent = [x for x in traffic().truth.exchanges if x.correlation == "" and x.reply is None]
    assert silent and all(x.outcome == "no_reply_wanted" for x in silent)


def test_upstream_peers_write_versions_that_strict_ones_refuse() -> None:
    versions = {event.message.version for event in generate("mb", messages=3000, profile="upstream")}
    assert "v1.0.0" in versions
    assert not any(event.message.version.startswith("v") for event in events())
