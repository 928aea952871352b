"""Every reader agrees on protocols that need what few others do, and none of their bytes costs too much."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.codec.public_protocols import PROTOCOLS as SKETCHES
from tests.differential import SteppedStreams, assert_agreement, columnar_events, mutate, record_events, split
from wirelake import StreamDecoder, decode, encode, load
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import readings
from wirelake.columnar.message_to_row import row_of
from wirelake.columnar.row_to_message import message_of
from wirelake.generate import generate, random_frame
from wirelake.spec import Protocol
from wirelake.spec.render import as_text, tables
from wirelake.spec.resolve import MessageNode, layout
from wirelake.spec.states import states

FILES = sorted((Path(__file__).parent / "public").glob("*.py"))
PROTOCOLS = (*SKETCHES, *(load(f"{path}:PROTOCOL") for path in FILES))
NAMES = [protocol.name for protocol in PROTOCOLS]
PER_MESSAGE = 10


def frames_of(protocol: Protocol, rng: Random) -> list[tuple[MessageNode, bytes]]:
    reading = layout(protocol)
    nodes = reading.messages.values()
    return [(node, random_frame(reading, node, rng)[1]) for node in nodes for _ in range(PER_MESSAGE)]


def side_of(protocol: Protocol, node: MessageNode) -> dict[str, Any]:
    side = {"sent_by": node.sent_by} if "sent_by" in protocol.options and node.sent_by != "both" else {}
    known = [(len(places), state) for state, places in states(protocol).items() if node.frame in places]
    return side | ({"state": min(known)[1]} if known else {})


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_messages_are_written_read_and_shown(protocol: Protocol) -> None:
    for node, frame in frames_of(protocol, Random(1)):
        message = decode(protocol, frame, **side_of(protocol, node))
        assert type(message) is node.cls
        assert encode(message) == frame
        reading = message.layout
        assert encode_frame(reading, from_json(reading, json.loads(json.dumps(message.to_json())))) == frame
        assert message_of(reading, row_of(message)) == message


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_broken_frames_and_streams_are_the_same_to_every_reader_in_any_split(protocol: Protocol) -> None:
    rng = Random(2)
    good = [frame for _, frame in frames_of(protocol, rng)]
    cut = [frame[: rng.randrange(len(frame) + 1)] for frame in good]
    assert_agreement(protocol, [*good, *cut, *(mutate(frame, rng) for frame in good * 3)])  # type: ignore[arg-type]
    stepped = SteppedStreams(readings(protocol, {}))
    for _ in range(8):
        data = b"".join(mutate(frame, rng) if rng.random() < 0.3 else frame for frame in rng.choices(good, k=6))
        whole = record_events(readings(protocol, {}), [data])
        assert sum(length for _, length, *_ in whole) == len(data)
        chunks = split(data, rng, 50)
        assert record_events(readings(protocol, {}), chunks) == whole
        assert columnar_events(protocol, chunks) == whole  # type: ignore[arg-type]
        assert stepped.events(chunks, ends_alone=True) == whole


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_noise_ends_in_time_and_memory(protocol: Protocol) -> None:
    """Lengths, counts and lists come from the bytes: none of them makes a reader loop or reserve memory."""
    rng = Random(3)
    good = [frame for _, frame in frames_of(protocol, rng)]
    for _ in range(30):
        noise = rng.choice((rng.randbytes(2000), b"\xff" * 2000, b"9" * 2000, bytes(2000)))
        data = rng.choice(good)[: rng.randrange(12)] + noise
        decoder = StreamDecoder(protocol)
        tracemalloc.start()
        events: list[Any] = [*decoder.feed(data), *decoder.finish()]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sum(event.length for event in events) == len(data)
        assert peak < 1000 * len(data)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_a_protocol_is_described_and_generated(protocol: Protocol) -> None:
    shown = as_text(tables(protocol))
    assert all(node.name in shown for node in layout(protocol).messages.values())
    assert len(list(generate([protocol], messages=60, seed=5, violations=0.1))) >= 60
