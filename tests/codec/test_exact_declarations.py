"""What the generated decoder does not know: it is written, read, cut, damaged and shown as everything else is."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.codec.exact_declarations import exact_protocol, lines_protocol
from tests.differential import SteppedStreams, assert_agreement, columnar_events, mutate, record_events, split
from wirelake import StreamDecoder, decode, encode
from wirelake.codec.annotate import annotate
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.quick_encoder import encoder_for
from wirelake.codec.stream import Decoded, readings
from wirelake.columnar.message_to_row import row_of
from wirelake.columnar.row_to_message import message_of
from wirelake.errors import DecodeError, EncodeError
from wirelake.generate import random_frame
from wirelake.spec import Protocol
from wirelake.spec.plain import beyond
from wirelake.spec.render import as_text, tables
from wirelake.spec.resolve import layout

PROTOCOLS = [*map(exact_protocol, range(60)), lines_protocol()]
NAMES = [protocol.name for protocol in PROTOCOLS]
PER_MESSAGE = 6


def frames_of(protocol: Protocol, rng: Random) -> list[bytes]:
    reading = layout(protocol)
    frames = []
    for node in reading.messages.values():
        for _ in range(PER_MESSAGE):
            try:
                frames.append(random_frame(reading, node, rng)[1])
            except EncodeError as error:  # bytes that end something may be drawn inside it
                assert error.rule in ("terminator", "frame_limit")
    return frames


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_messages_are_written_and_read_back(protocol: Protocol) -> None:
    reading = layout(protocol)
    assert beyond(reading)
    for frame in frames_of(protocol, Random(1)):
        message = decode(protocol, frame)
        assert encode(message) == frame == encoder_for(reading)(message)
        shown = json.loads(json.dumps(message.to_json()))
        if "NaN" not in str(shown):
            assert encode_frame(reading, from_json(reading, shown)) == frame
        assert message_of(reading, row_of(message)) == message or "NaN" in str(shown)
        seen = annotate(reading, frame)
        covered = {i for each in seen.seen for i in range(each.offset, each.offset + each.length)}
        # All bytes are shown, but those that end a value.
        assert seen.error is None and len(covered) >= len(frame) // 3


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_any_split_gives_the_same_messages(protocol: Protocol) -> None:
    rng = Random(2)
    frames = frames_of(protocol, rng)
    for most in (1, 7, 1000):
        decoder = StreamDecoder(protocol)
        events = [event for chunk in split(b"".join(frames), rng, most) for event in decoder.feed(chunk)]
        assert all(isinstance(event, Decoded) for event in events + decoder.finish())
        assert [event.length for event in events] == [len(frame) for frame in frames]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_beginnings_of_frames_are_incomplete(protocol: Protocol) -> None:
    for frame in frames_of(protocol, Random(3)):
        for cut in {0, 1, 2, len(frame) // 2, len(frame) - 1}:
            with pytest.raises(DecodeError) as caught:
                decode(protocol, frame[:cut])
            assert caught.value.incomplete, frame[:cut].hex()
            annotate(layout(protocol), frame[:cut])


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_broken_frames_are_the_same_to_every_reader(protocol: Protocol) -> None:
    rng = Random(4)
    good = frames_of(protocol, rng)
    frames = good + [mutate(frame, rng) for frame in good for _ in range(4)]
    accepted, _ = assert_agreement(protocol, frames)  # type: ignore[arg-type]
    assert accepted >= len(good)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_broken_streams_are_the_same_to_every_reader_and_in_any_split(protocol: Protocol) -> None:
    rng = Random(5)
    frames = frames_of(protocol, rng)
    stepped = SteppedStreams(readings(protocol, {}))
    for _ in range(4):
        parts = [mutate(frame, rng) if rng.random() < 0.3 else frame for frame in rng.choices(frames, k=6)]
        data = b"".join(parts)
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data
        whole = record_events(readings(protocol, {}), [data])
        assert sum(length for _, length, *_ in whole) == len(data)
        chunks = split(data, rng, 40)
        assert record_events(readings(protocol, {}), chunks) == whole
        assert columnar_events(protocol, chunks) == whole  # type: ignore[arg-type]
        assert stepped.events(chunks, ends_alone=rng.random() < 0.5) == whole


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=NAMES)
def test_every_declaration_is_described(protocol: Protocol) -> None:
    shown = as_text(tables(protocol))
    assert all(node.name in shown for node in layout(protocol).messages.values())


def test_noise_ends_in_time_and_memory() -> None:
    """Lengths and counts come from the bytes: none of them makes a reader loop or reserve memory."""
    rng = Random(6)
    for protocol in PROTOCOLS:
        for _ in range(10):
            noise = rng.choice((rng.randbytes(300), b"\xff" * 300, b"9" * 300, b"\x00" * 300))
            decoder = StreamDecoder(protocol)
            events: list[Any] = [*decoder.feed(noise), *decoder.finish()]
            assert sum(event.length for event in events) == len(noise)
