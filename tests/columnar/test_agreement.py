"""Two decoders, one truth: bulk, seeded, more than 200 000 frames."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.differential import (
    READING_IDS,
    READINGS,
    STREAM_IDS,
    STREAMS,
    assert_agreement,
    columnar_events,
    mutate,
    record_events,
    split,
    valid_frames,
)

EACH = 6_500
"""Frames of each kind and reading: three kinds and eleven readings make 214 500."""

readings = pytest.mark.parametrize(("protocol", "options"), READINGS, ids=READING_IDS)


@readings
def test_generated_messages_are_the_same_to_both_decoders(protocol: str, options: dict[str, Any]) -> None:
    accepted, rejected = assert_agreement(
        protocol, valid_frames(protocol, EACH, random.Random(1), **options), **options
    )
    if options.get("dialect") == "auto":
        # The dialect of a single frame is a guess where random cells repeat a number or have no value.
        assert accepted > EACH * 0.95
    else:
        assert rejected == 0


@readings
def test_mutated_messages_are_the_same_to_both_decoders(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(2)
    frames = [mutate(frame, rng) for frame in valid_frames(protocol, EACH, rng, **options)]
    accepted, rejected = assert_agreement(protocol, frames, **options)
    assert accepted > EACH // 20
    assert rejected > EACH // 20


@readings
def test_every_truncation_is_the_same_to_both_decoders(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(3)
    frames: list[bytes] = []
    for frame in valid_frames(protocol, 1000, rng, **options):
        frames += [frame[:i] for i in range(min(len(frame), 400))]
        if len(frames) > EACH:
            break
    _, rejected = assert_agreement(protocol, frames[:EACH], **options)
    assert rejected > 0


@pytest.mark.parametrize(("protocol", "options"), STREAMS, ids=STREAM_IDS)
def test_damaged_streams_give_the_same_events_however_they_are_split(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(4)
    framed = options | ({"framing": "tcp"} if protocol == "mb" else {})
    layout_options = framed if options.get("dialect") != "auto" else {"dialect": "ceda4-ws"}
    frames = [f for f in valid_frames(protocol, 400, rng, **layout_options) if len(f) < 3000]
    for _ in range(60):
        data = bytearray().join(rng.choice(frames) for _ in range(rng.randrange(1, 25)))
        for _ in range(rng.randrange(4)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(20))
        whole = record_events(protocol, [bytes(data)], **options)
        assert [at for at, *_ in whole] == [sum(length for _, length, *_ in whole[:i]) for i in range(len(whole))]
        assert sum(length for _, length, *_ in whole) == len(data)
        assert record_events(protocol, split(bytes(data), rng, 50), **options) == whole
        assert columnar_events(protocol, [bytes(data)], **options) == whole
        assert columnar_events(protocol, split(bytes(data), rng, 300), **options) == whole


@pytest.mark.parametrize(("protocol", "options"), READINGS, ids=READING_IDS)
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_edited_frames_are_the_same_to_both_decoders(
    protocol: str, options: dict[str, Any], data: st.DataObject
) -> None:
    base = valid_frames(protocol, 60, random.Random(5), **options)
    frames = []
    for _ in range(4):
        frame = bytearray(data.draw(st.sampled_from(base)))
        for at, value in data.draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4)):
            if at < len(frame):
                frame[at] = value
        frames.append(bytes(frame[: data.draw(st.integers(0, len(frame)) | st.just(len(frame)))]))
    assert_agreement(protocol, frames, **options)


@readings
@settings(max_examples=100, deadline=None, derandomize=True)
@given(frames=st.lists(st.binary(max_size=120), min_size=1, max_size=8))
def test_noise_is_the_same_to_both_decoders(protocol: str, options: dict[str, Any], frames: list[bytes]) -> None:
    assert_agreement(protocol, frames, **options)
