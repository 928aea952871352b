from __future__ import annotations

import hashlib
import itertools
import os
import statistics
import subprocess
import sys
import tracemalloc
from collections import defaultdict
from typing import Any

import pytest

from tests.generate.toys import SENSOR, STOMP
from wirelake.codec import codec_for
from wirelake.codec.stream import Decoded, Quarantined, StreamDecoder
from wirelake.generate import Closed, Event, Opened, Traffic, Truth, generate

KINDS: list[tuple[Any, dict[str, Any]]] = [
    ("casual", {}),
    ("casual", {"profile": "late", "connections": 9}),
    ("dsa", {}),
    ("dsa", {"mode": "compat", "connections": 1}),
    ("dsa", {"frame_only": True}),
    ("mb", {}),
    ("mb", {"profile": "upstream", "json_payload": True, "connections": 7}),
    ("ceda", {}),
    ("ceda", {"dialect": "ceda4-ws", "connections": 6}),
    ("ceda", {"charset": "gbk"}),
    (SENSOR, {}),
    (STOMP, {"connections": 2}),
]
IDS = ["-".join([getattr(kind, "name", kind), *(str(value) for value in options.values())]) for kind, options in KINDS]


def made(kind: Any, options: dict[str, Any], **dials: Any) -> Traffic:
    return generate(kind, **({"messages": 600, "seed": 5} | options | dials))


def streams(traffic: Traffic) -> dict[tuple[Any, str], list[Event]]:
    found: dict[tuple[Any, str], list[Event]] = defaultdict(list)
    for event in traffic:
        found[event.connection, event.direction].append(event)
    return found


def digest(traffic: Traffic) -> str:
    hashed = hashlib.sha256()
    for event in traffic:
        hashed.update(f"{event.ts_us} {event.connection.name} {event.direction}".encode() + event.frame)
    return hashed.hexdigest()


# --- what every traffic is like


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_every_message_decodes_to_itself(kind: Any, options: dict[str, Any]) -> None:
    for event in made(kind, options):
        decoded = codec_for(event.connection.layout).decode(event.frame)
        assert decoded == event.message
        assert decoded.to_json() == event.message.to_json()


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_each_stream_decodes_to_exactly_its_messages(kind: Any, options: dict[str, Any]) -> None:
    reading = {name: value for name, value in options.items() if name not in ("connections", "seed")}
    for (connection, _), events in streams(made(kind, options)).items():
        decoder = StreamDecoder(connection.protocol, **reading)
        found = decoder.feed(b"".join(event.frame for event in events)) + decoder.finish()
        assert all(isinstance(one, Decoded) for one in found)
        assert [one.message for one in found] == [event.message for event in events]


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_time_goes_forward_and_connections_open_first_and_close_last(kind: Any, options: dict[str, Any]) -> None:
    open_now: dict[int, bool] = {}
    now = 0
    for item in made(kind, options).timeline():
        assert item.ts_us >= now
        now = item.ts_us
        number = item.connection.number
        match item:
            case Opened():
                assert number not in open_now
                open_now[number] = True
            case Event():
                assert open_now[number]
            case Closed():
                assert open_now[number]
                open_now[number] = False
    assert sorted(open_now) == list(range(options.get("connections", 4)))
    assert not any(open_now.values())


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_the_seed_decides_everything(kind: Any, options: dict[str, Any]) -> None:
    traffic = made(kind, options, messages=300)
    assert digest(traffic) == digest(traffic) == digest(made(kind, options, messages=300))
    assert digest(traffic) != digest(made(kind, options, messages=300, seed=6))


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_there_are_as_many_messages_as_asked_for_and_a_few_more(kind: Any, options: dict[str, Any]) -> None:
    for wanted in (200, 900):
        count = sum(1 for _ in made(kind, options, messages=wanted))
        assert wanted <= count <= wanted + 30 * options.get("connections", 4)


def test_hash_randomisation_does_not_matter() -> None:
    code = (
        "from tests.generate.test_traffic import digest, generate\n"
        "print(digest(generate(['casual', 'dsa', 'mb', 'ceda'], messages=400)))"
    )
    seen = set()
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        seen.add(run.stdout)
    assert len(seen) == 1


def test_the_start_time_only_shifts_it() -> None:
    early, late = (generate("mb", messages=200, start_us=start) for start in (0, 1_000_000_000))
    shifted = [event.ts_us - 1_000_000_000 for event in late]
    assert shifted == [event.ts_us for event in early]


def test_the_first_events_come_at_once() -> None:
    """A million messages are not made before the first is handed out."""
    first = list(itertools.islice(generate("mb", messages=1_000_000), 100))
    assert len(first) == 100


def test_memory_does_not_grow_with_the_traffic() -> None:
    peaks = []
    for messages in (1_000, 8_000):
        traffic = generate("mb", messages=messages)
        tracemalloc.start()
        for _ in traffic:
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 2


# --- several protocols


def test_several_protocols_share_the_time_and_the_messages() -> None:
    traffic = generate(["casual", "dsa", SENSOR], messages=900, connections=2, profile="late")
    names = [event.connection.protocol.name for event in traffic]
    assert set(names) == {"casual", "dsa", "sensor"}
    assert all(names.count(name) >= 300 for name in set(names))
    changes = sum(a != b for a, b in itertools.pairwise(names))
    assert changes > 100
    casual = next(event for event in traffic if event.connection.protocol.name == "casual")
    assert casual.connection.layout.options["profile"] == "late"
    assert len({event.connection.client for event in traffic}) == 6


@pytest.mark.parametrize(
    ("kind", "dials", "said"),
    [
        ("nothing", {}, "unknown protocol"),
        ([], {}, "at least one"),
        ("casual", {"dialect": "ceda4"}, "no option 'dialect'"),
        ("casual", {"profile": "early"}, "profile is one of"),
        (["casual", "mb"], {"dialect": "ceda4"}, "none of casual, mb has dialect"),
        (["casual", "mb"], {"profile": "early"}, "none of casual, mb has profile"),
        ("casual", {"corrupt": 1.5}, "between 0 and 1"),
        ("casual", {"connections": 0}, "positive"),
    ],
)
def test_dials_that_make_no_sense_are_refused(kind: Any, dials: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        generate(kind, **dials)


# --- corruption


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_corruption_changes_some_frames_and_no_message(kind: Any, options: dict[str, Any]) -> None:
    clean, bad = list(made(kind, options)), list(made(kind, options, corrupt=0.1))
    assert [event.message for event in bad] == [event.message for event in clean]
    assert [event.ts_us for event in bad] == [event.ts_us for event in clean]
    for before, after in zip(clean, bad, strict=True):
        if after.corruption is None:
            assert after.frame == before.frame
        else:
            assert after.frame != before.frame
            assert after.corruption.original == before.frame
    share = sum(event.corruption is not None for event in bad) / len(bad)
    assert 0.06 < share < 0.14
    assert {event.corruption.kind for event in bad if event.corruption is not None} == {
        "flip",
        "cut",
        "insert",
        "length",
    }


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_no_byte_of_a_corrupted_stream_is_lost_or_counted_twice(kind: Any, options: dict[str, Any]) -> None:
    reading = {name: value for name, value in options.items() if name not in ("connections", "seed")}
    lost = 0
    for (connection, _), events in streams(made(kind, options, corrupt=0.02)).items():
        data = b"".join(event.frame for event in events)
        decoder = StreamDecoder(connection.protocol, **reading)
        found = decoder.feed(data) + decoder.finish()
        assert decoder.bytes_decoded + decoder.bytes_quarantined == decoder.bytes_in == len(data)
        at = 0
        for one in found:
            assert one.offset == at
            at += one.length
        assert at == len(data)
        lost += sum(isinstance(one, Quarantined) for one in found)
    assert lost > 0


# --- the truth


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_the_truth_fits_the_events(kind: Any, options: dict[str, Any]) -> None:
    traffic = made(kind, options, corrupt=0.01)
    events = list(traffic)
    truth = traffic.truth
    assert truth.exchanges
    asked = set()
    for exchange in truth.exchanges:
        request = events[exchange.request]
        asked.add(exchange.request)
        assert request.message.__message__["name"] == exchange.message
        assert (request.connection.number, request.direction) == (exchange.connection, exchange.direction)
        assert request.ts_us == exchange.request_us
        if exchange.reply is None:
            assert exchange.outcome in ("timeout", "unanswered", "no_reply_wanted") and exchange.latency_us is None
            continue
        reply = events[exchange.reply]
        assert exchange.reply > exchange.request
        assert reply.message.__message__["name"] == exchange.reply_message
        assert reply.connection.number == exchange.connection and reply.direction != exchange.direction
        assert exchange.latency_us == reply.ts_us - request.ts_us > 0
        assert exchange.outcome not in ("unanswered", "no_reply_wanted") and exchange.replies >= 1
    assert len(asked) == len(truth.exchanges)
    assert truth.corruptions == {i: event.corruption for i, event in enumerate(events) if event.corruption is not None}


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_sessions_count_what_was_sent(kind: Any, options: dict[str, Any]) -> None:
    traffic = made(kind, options, corrupt=0.01)
    by_stream = streams(traffic)
    for session in traffic.truth.sessions:
        connection = next(one for one, _ in by_stream if one.number == session.connection)
        assert (session.client, session.server) == (connection.client, connection.server)
        sent = {direction: by_stream.get((connection, direction), []) for direction in ("to_server", "to_client")}
        assert session.messages_to_server == len(sent["to_server"])
        assert session.messages_to_client == len(sent["to_client"])
        assert session.bytes_to_server == sum(len(event.frame) for event in sent["to_server"])
        assert session.bytes_to_client == sum(len(event.frame) for event in sent["to_client"])
        assert session.closed_us is not None and session.ended in ("closed", "reset")
        times = [event.ts_us for events in sent.values() for event in events]
        assert session.opened_us < min(times) and max(times) <= session.closed_us


def test_a_truth_can_be_filled_while_the_traffic_is_played() -> None:
    traffic, truth = generate("casual", messages=500), Truth()
    for _ in traffic.timeline(truth):
        pass
    assert truth == traffic.truth


# --- pace


def seconds_of(**dials: float) -> float:
    traffic = generate("casual", seed=3, messages=2000, connections=4, **dials)  # type: ignore[arg-type]
    times = [event.ts_us for event in traffic]
    return (times[1900] - traffic.start_us) / 1e6


def median_latency(pace: float) -> float:
    truth = generate("casual", seed=3, messages=2000, pace=pace).truth
    return statistics.median(one.latency_us for one in truth.exchanges if one.latency_us is not None)


def test_a_pace_of_two_needs_about_half_the_time() -> None:
    usual = seconds_of()
    assert 0.35 * usual < seconds_of(pace=2.0) < 0.65 * usual
    assert 1.6 * usual < seconds_of(pace=0.5) < 2.6 * usual


def test_replies_take_as_long_at_any_pace() -> None:
    assert 0.7 * median_latency(1.0) < median_latency(0.1) < 1.4 * median_latency(1.0)


def test_after_the_seconds_nothing_more_is_seen_and_connections_stay_open() -> None:
    whole = generate("casual", seed=3, messages=2000)
    cut = generate("casual", seed=3, messages=2000, seconds=1.0)
    truth = Truth()
    items = list(cut.timeline(truth))
    assert items == [item for item in whole.timeline() if item.ts_us <= whole.start_us + 1_000_000]
    assert sum(isinstance(item, Event) for item in items) > 100
    assert not any(isinstance(item, Closed) for item in items)
    assert {session.closed_us for session in truth.sessions} == {None}


@pytest.mark.parametrize("dials", [{"pace": 0.0}, {"pace": -1.0}, {"seconds": 0.0}])
def test_a_pace_or_time_that_makes_no_sense_is_refused(dials: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="pace and seconds are positive numbers"):
        generate("casual", **dials)  # type: ignore[arg-type]


def test_two_runs_share_no_connection_unless_told() -> None:
    def clients(**how: Any) -> set[tuple[str, int]]:
        return {event.connection.client for event in generate("casual", **how)}

    first = clients(messages=100)
    assert first == clients(messages=100)
    assert not first & clients(messages=200)
    assert not first & clients(messages=100, seed=1)
    assert clients(messages=100, run="a") == clients(messages=200, run="a")
