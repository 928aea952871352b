"""The generated decoder: it reads ordinary frames alone, and never accepts what the exact one refuses."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.differential import READING_IDS, READINGS, mutate, valid_frames
from tests.vectors.load import PROTOCOLS, vectors
from wirelake import decode
from wirelake.codec import Codec, codec_for
from wirelake.codec.compile import DOUBTS
from wirelake.codec.walk import walk
from wirelake.errors import DecodeError
from wirelake.generate import generate
from wirelake.protocols import load
from wirelake.spec.resolve import Layout, candidates, layout

readings = pytest.mark.parametrize(("protocol", "options"), READINGS, ids=READING_IDS)


def quickly(codec: Codec, frame: bytes) -> Any:
    """What the generated decoder makes of a frame; None for "look closely"."""
    try:
        return codec.quick(frame, len(frame))
    except DOUBTS:
        return None


def ordinary_frames(protocol: str, options: dict[str, Any]) -> list[bytes]:
    """Realistic ones: random messages of mb are too odd for the generated decoder."""
    cut = 4 if protocol == "mb" and options.get("framing") != "tcp" else 0
    return [event.frame[cut:] for event in generate(protocol, messages=600, seed=4)]


def exactly(reading: Layout, frame: bytes) -> Any:
    try:
        return walk(reading, frame)
    except DecodeError:
        return None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_realistic_traffic_needs_no_second_look(protocol: str) -> None:
    framing = {"framing": "tcp"} if protocol == "mb" else {}
    codec = codec_for(candidates(load(protocol), **framing)[0])
    frames = [event.frame for event in generate(protocol, messages=2000, seed=3)]
    declined = [frame for frame in frames if quickly(codec, frame) is None]
    plain = [frame for frame in declined if not decode(protocol, frame, **framing).notes]
    assert len(frames) >= 2000
    assert len(plain) <= 0.05 * len(frames)


@readings
def test_what_the_generated_decoder_accepts_the_exact_one_reads_the_same(
    protocol: str, options: dict[str, Any]
) -> None:
    rng = random.Random(11)
    frames = valid_frames(protocol, 700, rng, **options) + ordinary_frames(protocol, options)
    frames += [mutate(frame, rng) for frame in frames for _ in range(3)]
    accepted = 0
    for reading in candidates(load(protocol), **options):
        codec = codec_for(reading)
        for frame in frames:
            quick = quickly(codec, frame)
            if quick is not None:
                exact = exactly(reading, frame)
                assert exact is not None, frame.hex()
                assert repr(quick) == repr(exact), frame.hex()
                assert (quick.wire_length, quick.notes, quick.layout) == (len(frame), exact.notes, reading)
                accepted += 1
    assert accepted > 500


def test_the_decoder_is_made_once_per_reading() -> None:
    casual = load("casual")
    assert codec_for(layout(casual)) is codec_for(layout(casual))
    assert codec_for(layout(casual)) is not codec_for(layout(casual, profile="late"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_both_decoders_give_immutable_records_of_the_declared_classes(protocol: str) -> None:
    classes = set(load(protocol).messages)
    for vector in vectors(protocol)[::5]:
        if vector.message is None:
            continue
        reading = candidates(load(protocol), **vector.options)[0]
        for message in (quickly(codec_for(reading), vector.data), exactly(reading, vector.data)):
            if message is None:
                continue
            assert type(message) in classes
            name = message.__struct_fields__[0]
            with pytest.raises(AttributeError, match="immutable"):
                setattr(message, name, None)
