"""Protocols that nobody thought of: every reader understands whatever can be declared, and all say the same."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.codec.declarations import random_protocol
from tests.differential import assert_agreement, mutate
from wirelake import StreamDecoder, decode, encode
from wirelake.codec import codec_for
from wirelake.codec.compile import DOUBTS
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import Decoded
from wirelake.codec.walk import walk
from wirelake.errors import DecodeError
from wirelake.generate import random_frame
from wirelake.spec import Protocol
from wirelake.spec.resolve import Layout, layout

SEEDS = range(150)
PER_MESSAGE = 5


def frames_of(protocol: Protocol, rng: Random) -> list[bytes]:
    reading = layout(protocol)
    return [random_frame(reading, node, rng)[1] for node in reading.messages.values() for _ in range(PER_MESSAGE)]


def quickly(reading: Layout, frame: bytes) -> Any:
    try:
        return codec_for(reading).quick(frame, len(frame))
    except DOUBTS:
        return None


@pytest.mark.parametrize("seed", SEEDS)
def test_messages_of_any_protocol_are_written_and_read_back(seed: int) -> None:
    protocol = random_protocol(seed)
    reading = layout(protocol)
    for frame in frames_of(protocol, Random(seed)):
        message = walk(reading, frame)
        quick = quickly(reading, frame)
        assert quick is None or repr(quick) == repr(message)
        assert encode(message) == frame
        shown = json.loads(json.dumps(message.to_json()))
        if "NaN" not in str(shown):
            assert encode_frame(reading, from_json(reading, shown)) == frame


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_of_any_protocol_are_taken_apart(seed: int) -> None:
    protocol = random_protocol(seed)
    frames = frames_of(protocol, Random(seed))
    decoder = StreamDecoder(protocol)
    stream = b"".join(frames)
    events = [event for at in range(0, len(stream), 7) for event in decoder.feed(stream[at : at + 7])]
    assert all(isinstance(event, Decoded) for event in events)
    assert [event.length for event in events] == [len(frame) for frame in frames]
    assert decoder.finish() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_beginnings_of_frames_of_any_protocol_are_incomplete(seed: int) -> None:
    protocol = random_protocol(seed)
    for frame in frames_of(protocol, Random(seed)):
        for cut in {0, 1, 2, len(frame) // 2, len(frame) - 1}:
            with pytest.raises(DecodeError) as caught:
                decode(protocol, frame[:cut])
            assert caught.value.incomplete


@pytest.mark.parametrize("seed", SEEDS)
def test_broken_frames_of_any_protocol_are_the_same_to_every_reader(seed: int) -> None:
    rng = Random(seed)
    protocol = random_protocol(seed)
    reading = layout(protocol)
    good = frames_of(protocol, rng)
    frames = good + [mutate(frame, rng) for frame in good for _ in range(3)]
    for frame in frames:
        quick = quickly(reading, frame)
        if quick is not None:
            assert repr(walk(reading, frame)) == repr(quick)
    assert_agreement(protocol, frames)  # type: ignore[arg-type]
