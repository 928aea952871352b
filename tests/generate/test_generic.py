from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.generate import toys
from tests.ingest.lakes import table
from wirelake.capture.settings import ReadSettings
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.generate import Event, Traffic, generate, generic, write_pcap
from wirelake.generate.traffic import Dials, Scene
from wirelake.generate.truth import Truth
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.protocols import load
from wirelake.spec.conduct import Conduct, Selection, When
from wirelake.spec.resolve import layout


def by_connection(traffic: Traffic) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = defaultdict(list)
    for event in traffic:
        found[event.connection.number].append(event)
    return found


def test_the_life_cycle_is_obeyed() -> None:
    cycle = toys.SENSOR.life_cycle
    assert cycle is not None
    for events in by_connection(generate(toys.SENSOR, messages=800)).values():
        state = cycle.initial
        for event in events:
            side = cycle.client if event.direction == "to_server" else cycle.server
            state = side[state][event.message.__message__["name"]]


def test_answers_carry_the_correlation_of_an_open_request() -> None:
    for events in by_connection(generate(toys.SENSOR, messages=800)).values():
        open_requests: set[bytes] = set()
        for event in events:
            if isinstance(event.message, toys.Hello | toys.Ask):
                assert event.message.ticket not in open_requests
                open_requests.add(event.message.ticket)
            elif isinstance(event.message, toys.Welcome | toys.Answer):
                open_requests.remove(event.message.ticket)


def test_requests_are_answered_now_and_then_not_at_all() -> None:
    truth = generate(toys.SENSOR, messages=3000).truth
    outcomes = Counter(x.outcome for x in truth.exchanges if x.message == "ask")
    assert outcomes["ok"] > 20 * outcomes["unanswered"] > 0


def test_requests_that_want_no_reply_get_none() -> None:
    conduct = Conduct(no_reply=(Selection(messages=("ask",), when=When("from_place.kind", least=128)),))
    traffic = generate(replace(toys.SENSOR, conduct=conduct), messages=800)
    asked = {
        event.message.ticket: event.message.from_place.kind for event in traffic if type(event.message) is toys.Ask
    }
    replied = {event.message.ticket for event in traffic if type(event.message) is toys.Answer}
    assert any(asked[ticket] for ticket in replied) and all(asked[ticket] < 128 for ticket in replied)
    unwanted = sum(kind >= 128 for kind in asked.values())
    assert [each.outcome for each in traffic.truth.exchanges].count("no_reply_wanted") == unwanted > 0


def test_without_a_life_cycle_each_side_sends_what_it_may() -> None:
    seen = {(event.direction, type(event.message).__name__) for event in generate(toys.STOMP, messages=500)}
    assert seen == {("to_server", "Get"), ("to_client", "Get"), ("to_server", "Put"), ("to_client", "Put")}


@pytest.mark.parametrize(
    ("name", "options"),
    [("casual", {}), ("dsa", {}), ("mb", {"framing": "tcp"}), ("ceda", {"dialect": "ceda4"})],
)
def test_any_declaration_can_be_played(name: str, options: dict[str, Any]) -> None:
    """The built-in ones have scripts, but their declarations alone are enough for traffic that decodes."""
    scene = Scene(layout(load(name), **options), generic.begin, 600, 2)
    traffic = Traffic((scene,), seed=1, start_us=0, dials=Dials())
    streams: dict[tuple[Any, str], list[Event]] = defaultdict(list)
    for event in traffic:
        streams[event.connection.number, event.direction].append(event)
    assert sum(map(len, streams.values())) >= 600
    for events in streams.values():
        decoder = StreamDecoder(name, **options)
        found = decoder.feed(b"".join(event.frame for event in events)) + decoder.finish()
        assert [one.message for one in found if isinstance(one, Decoded)] == [event.message for event in events]


def test_addresses_look_like_addresses() -> None:
    protocol = load("tests/spec/mistakes/declaration.py:PROTOCOL")
    stations = [e.message.station for e in generate(protocol, messages=200) if e.message.__message__["name"] == "hello"]
    assert stations and all(re.fullmatch(r"[a-z]+(\.[a-z0-9]+)?", station) for station in stations)


def test_peers_of_any_declaration_can_break_its_rules() -> None:
    protocol = load("tests/spec/mistakes/declaration.py:PROTOCOL")
    traffic = generate(protocol, messages=400, violations=0.2)
    rules = Counter(violation.rule for violation in traffic.truth.violations)
    assert set(rules) == {"state", "unexpected_reply", "duplicate_reply"}
    assert generate(protocol, messages=400).truth.violations == []
    events = list(traffic)
    for violation in traffic.truth.violations:
        assert events[violation.event].message.__message__["name"] == violation.message


def test_the_tables_see_the_rules_that_peers_break(tmp_path: Path) -> None:
    name = "tests/spec/mistakes/declaration.py:PROTOCOL"
    traffic = generate(load(name), messages=400, violations=0.2, seed=3)
    truth = Truth()
    write_pcap(traffic, tmp_path / "a.pcap", truth=truth)
    lake = str(tmp_path / "lake")
    reading = ReadSettings(protocols=(name,))
    ingest(InlineRunner(), [str(tmp_path / "a.pcap")], lake, reading=reading, final=True)
    rows = table(Path(lake), "gold/violations")
    wanted = Counter((violation.rule, violation.message) for violation in truth.violations)
    assert Counter((row["rule"], row["message"]) for row in rows) == wanted
