"""The gallery in a real tshark: its dissectors show what the record codec decodes, fields and faults alike."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.examples.test_protocols import NAMES, data_of, frames_of, name_of, vectors
from tests.spec.test_dissector import (
    Capture,
    Tshark,
    by_flow,
    compare,
    damaged,
    flow_of,
    judge,
    side_options,
)
from wirelake import load
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.generate import generate, write_pcap

FRAMES = 200
FRAMES_BEHIND = 3
"""So many whole frames behind a false length, the dissector believes."""


@pytest.fixture(scope="module")
def tsharks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tshark]:
    folders = {stem: tmp_path_factory.mktemp(stem) for stem in NAMES}
    return {stem: Tshark(folder, load(name_of(stem)), f"our_{stem}") for stem, folder in folders.items()}


@pytest.mark.parametrize("stem", NAMES)
def test_vectors_are_shown_as_they_are_decoded(stem: str, tsharks: dict[str, Tshark]) -> None:
    protocol = load(name_of(stem))
    frames = dict.fromkeys(data_of(vector) for vector in vectors(stem))
    assert len(judge(protocol, list(frames), {}, tsharks[stem])) > 2


@pytest.mark.parametrize("stem", NAMES)
def test_random_cut_and_damaged_frames_are_shown_as_they_are_decoded(stem: str, tsharks: dict[str, Tshark]) -> None:
    rng, protocol = Random(f"{stem} tshark"), load(name_of(stem))
    good = frames_of(protocol, rng, max(FRAMES, 10 * len(protocol.messages)))
    cut = [frame[: rng.randrange(1, len(frame) + 1)] for frame in good]
    met = judge(protocol, [*good, *cut, *(damaged(frame, rng) for frame in good * 2)], {}, tsharks[stem])
    assert {cls.__message__["name"] for cls in protocol.messages} <= met.keys()
    assert "incomplete" in met and len(met) >= len(protocol.messages) + 2


@pytest.mark.parametrize("stem", NAMES)
def test_streams_are_the_same_however_segments_cut_them(stem: str, tsharks: dict[str, Tshark]) -> None:
    rng, protocol = Random(f"{stem} cuts"), load(name_of(stem))
    capture, streams = Capture(), []
    for number, step in enumerate((1, 3, 33, 1000)):
        side = side_options(protocol, number % 2 == 0)
        frames = [frame for frame in frames_of(protocol, rng, 60, **side) if len(frame) < 40 * step][:8]
        streams.append((b"".join(frames), len(frames)))
        capture.stream(number, streams[-1][0], range(step, len(streams[-1][0]), step), from_client=number % 2 == 0)
    shown = by_flow(tsharks[stem].show(capture))
    for number, (data, count) in enumerate(streams):
        decoder = StreamDecoder(protocol, **side_options(protocol, number % 2 == 0))
        events = [*decoder.feed(data), *decoder.finish()]
        frames_shown = shown[capture.flow(number, from_client=number % 2 == 0)]
        assert len(events) == len(frames_shown) == count
        for event, frame in zip(events, frames_shown, strict=True):
            assert isinstance(event, Decoded)
            compare(event.message, frame)


PAIRED = [stem for stem in NAMES if any(cls.__message__["answers"] for cls in load(name_of(stem)).messages)]


@pytest.mark.parametrize("stem", PAIRED)
def test_requests_and_replies_name_the_packets_of_each_other(
    stem: str, tmp_path: Path, tsharks: dict[str, Tshark]
) -> None:
    traffic = generate(load(name_of(stem)), messages=300, connections=2, seed=5)
    write_pcap(traffic, tmp_path / "linked.pcap")
    events, exchanges = list(traffic), traffic.truth.exchanges
    shown = tsharks[stem].show(tmp_path / "linked.pcap", "-2", port=events[0].connection.server[1])
    by_message = {}  # each event's message, by the connection, direction and order in which tshark shows it
    for flow, frames in by_flow(shown).items():
        mine = [number for number, event in enumerate(events) if flow == tuple(map(str, flow_of(event)))]
        by_message |= dict(zip(mine, frames, strict=True))
    assert len(by_message) == len(events)
    links, name = 0, tsharks[stem].name
    for exchange in exchanges:
        if exchange.reply is None or exchange.replies > 1:
            continue
        request, reply = by_message[exchange.request], by_message[exchange.reply]
        assert reply.one(f"{name}.request_in") == str(request.packet), (request.fields, reply.fields)
        assert request.one(f"{name}.reply_in") == str(reply.packet)
        links += 1
    assert links > 20


@pytest.mark.parametrize("stem", NAMES)
def test_after_damage_messages_are_found_where_the_stream_decoder_finds_them(
    stem: str, tsharks: dict[str, Tshark]
) -> None:
    """False lengths, too: a frame is given up whose rest does not come, once enough frames stand behind it."""
    rng, protocol = Random(f"{stem} damage"), load(name_of(stem))
    capture, streams = Capture(), []
    for number in range(80):
        frames = frames_of(protocol, rng, 9, **side_options(protocol, number % 2 == 0))
        frames[2] = damaged(frames[2], rng)
        data = b"".join(frames)
        if len(data) < 1 << 14:
            capture.stream(number, data, from_client=number % 2 == 0)
            streams.append((number, data, [len(frame) for frame in frames[-FRAMES_BEHIND:]]))
    shown = by_flow(tsharks[stem].show(capture))
    met: Counter[str] = Counter()
    for number, data, last in streams:
        decoder = StreamDecoder(protocol, **side_options(protocol, number % 2 == 0))
        events = [*decoder.feed(data), *decoder.finish()]
        if [event.length for event in events[-FRAMES_BEHIND:]] != last:
            met["no end in sight"] += 1  # what follows is taken for a part of the damaged frame
            continue
        frames_shown = shown[capture.flow(number, from_client=number % 2 == 0)]
        assert [event.length for event in events] == [frame.length for frame in frames_shown], data.hex()
        for event, frame in zip(events, frames_shown, strict=True):
            if isinstance(event, Decoded):
                compare(event.message, frame)
            else:
                assert frame.fault is not None and frame.fault[:2] == (event.error.rule, event.error.path)
                met[event.error.rule] += 1
    assert met.total() - met["no end in sight"] > 20
