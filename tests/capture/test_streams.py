"""Streams: each gives what a stream decoder of its own would, whatever the windows; every byte is told once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture.feeds import Feed, Result, chunks_of, connection, generated, joined, play
from tests.capture.reloading import reloaded
from wirelake import columnar
from wirelake.capture.accounts import AccountsError
from wirelake.capture.settings import ReadSettings
from wirelake.capture.streams import Streams
from wirelake.codec.stream import Decoded, Event, StreamDecoder, readings, torn
from wirelake.columnar.message_to_row import row_of
from wirelake.generate import generate
from wirelake.protocols import BUILT_IN, load


def oracle(protocol: str) -> Any:
    captured = load(protocol).captured
    return readings(protocol, captured.options, captured.fallback)


def expected_of(protocol: str, runs: list[bytes | int], *, whole: bool = True) -> Iterator[tuple[Any, ...]]:
    """What a stream decoder of its own finds in the runs of a stream, told as plain values."""
    offset, is_whole = 0, whole
    for run in runs:
        if isinstance(run, int):
            yield offset, run, "gap", None
            offset, is_whole = offset + run, False
            continue
        decoder = StreamDecoder.of(oracle(protocol), lost=None if is_whole else torn())
        for event in [*decoder.feed(run), *decoder.finish()]:
            yield _told(event, offset)
        offset += len(run)


def _told(event: Event, base: int) -> tuple[Any, ...]:
    if isinstance(event, Decoded):
        row = row_of(event.message)
        return base + event.offset, event.length, row["message"], row["notes"]
    return base + event.offset, event.length, event.error.rule, event.data


def found_in(result: Result, protocol: str, key: tuple[str, str]) -> list[tuple[Any, ...]]:
    rows = [
        (row["offset"], row["length"], row["message"], _notes(row))
        for row in result.messages.get(protocol, ())
        if (row["connection"], row["direction"]) == key
    ]
    bad = [
        (row["offset"], row["length"], row["rule"], row["bytes"])
        for row in result.quarantine
        if (row["connection"], row["direction"]) == key
    ]
    return sorted(rows + bad, key=lambda found: found[0])


def _notes(row: dict[str, Any]) -> list[str] | None:
    return [note for note in row["notes"] or () if note != "redacted"] or None


def sizes(rng: random.Random, most: int = 40) -> list[int]:
    return [rng.randint(1, most) for _ in range(3000)]


CASES: list[dict[str, Any]] = [
    {},
    {"corrupt": 0.08},
    {"lose": 0.02},
    {"corrupt": 0.05, "lose": 0.02, "most": 90},
    {"whole": False, "corrupt": 0.05},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case) or "clean")
@pytest.mark.parametrize("protocol", BUILT_IN)
def test_every_stream_gives_what_a_decoder_of_its_own_gives(protocol: str, case: dict[str, Any]) -> None:
    for seed in range(2):
        rng = random.Random(seed)
        feed = generated(protocol, rng, messages=100, connections=6, seed=seed, **case)
        result = play(feed, ReadSettings(protocol=protocol), sizes(rng), restart=rng)
        for key, runs in feed.streams().items():
            expected = list(expected_of(protocol, runs, whole=case.get("whole", True)))
            assert found_in(result, protocol, key) == expected, key


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case) or "clean")
@pytest.mark.parametrize("protocol", BUILT_IN)
def test_windows_and_restarts_change_nothing(protocol: str, case: dict[str, Any]) -> None:
    rng = random.Random(5)
    feed = generated(protocol, rng, messages=60, seed=9, **case)
    reading = ReadSettings(protocol=protocol)
    whole = play(feed, reading)
    for most in (2, 50):
        assert play(feed, reading, sizes(rng, most), restart=rng) == whole


@pytest.mark.parametrize("dialect", ["ceda4", "ceda4-ws"])
def test_the_dialect_that_was_proved_is_remembered(dialect: str) -> None:
    rng = random.Random(6)
    feed = generated("ceda", rng, messages=150, seed=2, dialect=dialect, corrupt=0.03)
    whole = play(feed, ReadSettings(protocol="ceda"))
    assert play(feed, ReadSettings(protocol="ceda"), sizes(rng, 3), restart=rng) == whole
    assert dialect in {row["dialect"] for row in whole.messages["ceda"]}


@settings(max_examples=25)
@given(data=st.data())
@pytest.mark.parametrize("protocol", BUILT_IN)
def test_any_mixture_in_any_pieces_gives_what_a_decoder_of_its_own_gives(protocol: str, data: st.DataObject) -> None:
    frames = [event.frame for event in generate(protocol, messages=40, seed=3) if len(event.frame) < 400]
    pieces = data.draw(st.lists(st.sampled_from(frames) | st.binary(max_size=12), max_size=8))
    stream = b"".join(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=10)))
    feed = Feed()
    peer = connection(is_whole=data.draw(st.booleans()))
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if data.draw(st.integers(0, 9)) == 0:
            feed.add(peer, 0, None, 5)
        if end > start:
            feed.add(peer, 0, stream[start:end])
    rng = random.Random(data.draw(st.integers(0, 99)))
    result = play(feed, ReadSettings(protocol=protocol), sizes(rng, 3), restart=rng)
    for key, runs in feed.streams().items():
        assert found_in(result, protocol, key) == list(expected_of(protocol, runs, whole=peer.is_whole))


# --- rows


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_rows_equal_those_of_each_stream_alone(protocol: str) -> None:
    rng = random.Random(1)
    feed = generated(protocol, rng, messages=200, seed=4, corrupt=0.05)
    result = play(feed, ReadSettings(protocol=protocol, redact=False), sizes(rng))
    options = {**load(protocol).captured.options, **load(protocol).captured.fallback}
    for key, (stream,) in feed.streams().items():
        alone = columnar.decode(protocol, stream, **options).records.to_pylist()
        mine = [row for row in result.messages[protocol] if (row["connection"], row["direction"]) == key]
        assert [{name: row[name] for name in alone[0]} for row in mine] == alone


def test_counting_alone_gives_the_same_accounts_and_state() -> None:
    rng = random.Random(2)
    feed = generated("mb", rng, messages=200, seed=4, corrupt=0.05)
    full = play(feed, ReadSettings(protocol="mb"), [50])
    counted = play(feed, ReadSettings(protocol="mb", counts_only=True), [50])
    assert counted.messages == {}
    assert counted.accounts == full.accounts
    assert counted.quarantine == full.quarantine


# --- gaps, ends, accounts


def test_a_connection_that_ended_leaves_the_state() -> None:
    frame = next(event.frame for event in generate("casual", messages=5, seed=1))
    feed = Feed()
    peer = connection()
    feed.add(peer, 0, frame + frame[:-1])
    feed.end(peer)
    streams = Streams(ReadSettings(protocol="casual"))
    (chunks,) = feed.windows([9])
    output = streams.feed(chunks, "one.pcap")
    assert output.accounts.to_pylist()[0]["bytes_pending"] == 0
    assert output.quarantine.to_pylist()[0]["rule"] == "frame_incomplete"
    assert streams.state().connections == {}


def test_a_state_can_be_restricted_to_some_connections() -> None:
    rng = random.Random(3)
    feed = generated("casual", rng, messages=200, seed=4, most=100)
    reading = ReadSettings(protocol="casual")
    half = len(feed.packets) // 2
    streams = Streams(reading)
    streams.feed(chunks_of(feed.packets[:half]), "one.pcap")
    ids = sorted({packet.connection.id for packet in feed.packets})[:2]
    rest = [packet for packet in feed.packets[half:] if packet.connection.id in ids]
    restricted = Streams(reading, reloaded(streams.state().only(ids)))
    some = joined([restricted.feed(chunks_of(rest), "one.pcap")])
    all_ = joined([streams.feed(chunks_of(feed.packets[half:]), "one.pcap")])
    assert some.messages["casual"] == [row for row in all_.messages["casual"] if row["connection"] in ids]
    assert some.accounts == {key: row for key, row in all_.accounts.items() if key[0] in ids}


def test_a_stream_that_leaves_something_out_is_said_loudly() -> None:
    frame = next(event.frame for event in generate("casual", messages=5, seed=1))
    feed = Feed()
    peer = connection()
    feed.add(peer, 0, frame)
    feed.add(peer, 0, frame)
    feed.packets[1].offset += 1
    streams = Streams(ReadSettings(protocol="casual"))
    first, second = feed.windows([1])
    streams.feed(first, "one.pcap")
    with pytest.raises(AccountsError, match=f"c0 to_server goes on at byte {len(frame) + 1}, not at byte {len(frame)}"):
        streams.feed(second, "one.pcap")


def test_more_than_a_step_is_taken_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = generated("casual", random.Random(1), messages=200, seed=4)
    whole = play(feed, ReadSettings(protocol="casual"))
    monkeypatch.setattr("wirelake.capture.streams.MAX_BYTES", 1000)
    assert play(feed, ReadSettings(protocol="casual")) == whole


# --- second readings and secrets


# --- protocols of users


def test_a_protocol_of_a_user_is_read_like_the_others() -> None:
    rng = random.Random(3)
    name = "examples/sensor.py:PROTOCOL"
    feed = generated(load(name), rng, messages=60, seed=4)
    reading = ReadSettings(protocols=(*BUILT_IN, name))
    result = play(feed, reading, sizes(rng), restart=rng)
    assert set(result.messages) == {load(name).name}
