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
    SteppedStreams,
    assert_agreement,
    columnar_events,
    mutate,
    mutated_streams,
    record_events,
    record_events_so_far,
    split,
    valid_frames,
)
from wirelake.codec import encode
from wirelake.codec.stream import readings as make_readings
from wirelake.protocols import ceda
from wirelake.spec import Cell

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


streams = pytest.mark.parametrize(("protocol", "options", "lenient"), STREAMS, ids=STREAM_IDS)


@streams
def test_streams_give_the_same_events_to_all_decoders_however_they_are_cut(
    protocol: str, options: dict[str, Any], lenient: dict[str, Any]
) -> None:
    rng = random.Random(4)
    readings = make_readings(protocol, options, lenient)
    stepped = SteppedStreams(readings)
    for data in mutated_streams(protocol, 200, rng, **options | lenient):
        whole = record_events(readings, [data])
        assert [at for at, *_ in whole] == [sum(length for _, length, *_ in whole[:i]) for i in range(len(whole))]
        assert sum(length for _, length, *_ in whole) == len(data)
        assert record_events(readings, split(data, rng, 50)) == whole
        assert stepped.events([data], ends_alone=False) == whole
        assert stepped.events(split(data, rng, 120), ends_alone=rng.random() < 0.5) == whole
        if not lenient:
            assert columnar_events(protocol, [data], **options) == whole
        for _ in range(3):
            so_far = record_events_so_far(readings, data[: rng.randrange(len(data) + 1)])
            assert so_far == whole[: len(so_far)]


@streams
def test_streams_that_begin_in_a_frame_give_the_same_events_however_they_are_cut(
    protocol: str, options: dict[str, Any], lenient: dict[str, Any]
) -> None:
    rng = random.Random(5)
    readings = make_readings(protocol, options, lenient)
    stepped = SteppedStreams(readings)
    for data in mutated_streams(protocol, 80, rng, **options | lenient):
        whole = record_events(readings, [data], torn_at_start=True)
        assert sum(length for _, length, *_ in whole) == len(data)
        assert record_events(readings, split(data, rng, 50), torn_at_start=True) == whole
        assert stepped.events([data], ends_alone=True, torn_at_start=True) == whole
        assert stepped.events(split(data, rng, 120), ends_alone=False, torn_at_start=True) == whole


def test_the_dialect_of_a_stream_is_the_same_however_it_is_cut() -> None:
    """The cause was one flag for two questions: whether a stream ends here, and whether a frame stands alone."""
    message = ceda.Publish(topic="T", record=(Cell(1, "BYTES", bytes(765)),))
    data = encode(message, dialect="ceda4-ws") + b"garbage"
    readings = make_readings("ceda", {"dialect": "auto"})
    expected = [(0, 776, "publish", "", None), (776, 7, "magic", "magic", 0)]
    assert record_events(readings, [data]) == expected
    assert SteppedStreams(readings).events([data], ends_alone=False) == expected
    assert SteppedStreams(readings).events([data[:700], data[700:]], ends_alone=False) == expected
    assert columnar_events("ceda", [data], dialect="auto") == expected


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
