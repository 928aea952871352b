from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from wirelake.generate import Event, Traffic, generate
from wirelake.protocols import ceda as p

DIALECTS = ("ceda4", "ceda4-ws")


@cache
def traffic(dialect: str = "ceda4") -> Traffic:
    return generate("ceda", messages=15_000, connections=6, seed=2, dialect=dialect)


@cache
def connections(dialect: str = "ceda4") -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in traffic(dialect):
        found[event.connection.number].append(event)
    return found


def value(message: Any, fid: int) -> Any:
    return next((cell.value for cell in message.record if cell.fid == fid), None)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_connections_log_in_first_and_log_out_last(dialect: str) -> None:
    failed = 0
    for number, events in connections(dialect).items():
        logins = [event.message for event in events if isinstance(event.message, p.Login)]
        assert [event.message for event in events[: len(logins)]] == logins
        assert [login.control_code for login in logins] == [3, 4] * (len(logins) // 2)
        assert value(logins[-1], 1) == 1 and value(logins[-1], 6) == 1001 + number
        failed += sum(value(login, 1) == 0 for login in logins)
        assert isinstance(events[len(logins)].message, p.Subscribe)
        assert isinstance(events[-1].message, p.Logout)
    assert failed == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_comes_on_the_reply_topic_of_an_open_request(dialect: str) -> None:
    for events in connections(dialect).values():
        open_requests: dict[str, Any] = {}
        for event in events:
            message = event.message
            if isinstance(message, p.Request):
                open_requests[message.reply_topic] = message
                assert message.reply_topic.startswith(f"{message.connection_id}.")
            elif isinstance(message, p.Reply):
                request = open_requests.pop(message.topic)
                assert (message.connection_id, message.server_id) == (request.connection_id, request.server_id)


def test_quotes_reach_those_who_subscribed_them() -> None:
    got: dict[int, Counter[str]] = defaultdict(Counter)
    for number, events in connections().items():
        for event in events:
            if isinstance(event.message, p.Publish) and event.direction == "to_client":
                got[number][event.message.topic] += 1
    facts = {session.connection: session.facts for session in traffic().truth.sessions}
    panel = next(number for number, known in facts.items() if known["patterns"] == ("FX.SPOT.*", "RATES.**"))
    assert len(got[panel]) == 12
    reader = next(number for number, known in facts.items() if known["patterns"] == ("NEWS.*",))
    assert {topic.split(".")[0] for topic in got[reader]} <= {"NEWS", "FX"}
    prices = [
        value(e.message, 1) for e in connections()[panel] if isinstance(e.message, p.Publish) and value(e.message, 2)
    ]
    assert all(0.5 < price < 3 for price in prices)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pieces_of_split_messages_follow_each_other_and_add_up(dialect: str) -> None:
    whole = 0
    for events in connections(dialect).values():
        pieces = [event for event in events if getattr(event.message, "group", None) is not None]
        while pieces:
            first = pieces.pop(0)
            about = first.message.group
            later = [pieces.pop(0) for _ in range(about.count - 1)]
            data = b"".join(value(piece.message, about.position) for piece in (first, *later))
            assert len(data) == about.total_length > 20_000
            assert [piece.message.group.index for piece in later] == list(range(1, about.count))
            assert {piece.message.topic for piece in later} <= {first.message.topic}
            assert {piece.ts_us for piece in later} <= {first.ts_us}
            assert all(len(piece.message.record) == 2 for piece in later)
            whole += 1
    assert whole > 2


def test_dialects_differ_where_they_should() -> None:
    plain, deployed = ([event for events in connections(dialect).values() for event in events] for dialect in DIALECTS)
    wide = {
        dialect: [e.frame[2:4] for e in found if e.frame[1] & 0x7F == 126]
        for dialect, found in zip(DIALECTS, (plain, deployed), strict=True)
    }
    assert wide["ceda4"] and wide["ceda4-ws"]
    assert not any(event.message.masked for event in plain)
    masked = [event for event in deployed if event.message.masked]
    assert masked and all(event.direction == "to_server" for event in masked)
    assert len({event.message.mask_key for event in masked}) > 0.9 * len(masked)
    groups = [event.message for event in deployed if isinstance(event.message, p.GroupPub)]
    assert groups and all(group.reply_topic.startswith("DOC.NEW.") for group in groups)


def test_silence_brings_heartbeats_and_only_the_server_echoes() -> None:
    beats = 0
    for events in connections().values():
        for before, event in pairwise(events):
            if isinstance(event.message, p.Heartbeat) and event.direction == "to_server":
                beats += 1
            if isinstance(before.message, p.Heartbeat) and before.direction == "to_server":
                assert isinstance(event.message, p.Heartbeat) and event.direction == "to_client"
    assert beats


def test_all_messages_occur() -> None:
    for dialect in DIALECTS:
        seen = {type(event.message) for events in connections(dialect).values() for event in events}
        assert seen == set(traffic(dialect).protocols[0].messages)


def test_some_requests_are_never_answered() -> None:
    outcomes = Counter(x.outcome for x in traffic().truth.exchanges if x.message == "request")
    assert outcomes["unanswered"] > 0 and outcomes["ok"] > 50 * outcomes["unanswered"]
