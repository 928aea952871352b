"""The compiled measure of frames: quick, and never wrong."""

from __future__ import annotations

import random
from typing import Any

import pytest

import wirelake
from tests.differential import READING_IDS, READINGS, mutate, valid_frames
from wirelake.codec import codec_for
from wirelake.codec.frame import read_header
from wirelake.codec.headers import Shape, compile_measure, undisputed
from wirelake.protocols import load
from wirelake.protocols.ceda import Heartbeat, Publish
from wirelake.spec import nodes as n
from wirelake.spec.resolve import candidates, layout

readings = pytest.mark.parametrize(("protocol", "options"), READINGS, ids=READING_IDS)
DIALECTS = candidates(load("ceda"))


@readings
def test_a_frame_is_measured_quickly_only_as_it_is_measured_exactly(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(12)
    frames = valid_frames(protocol, 300, rng, **options)
    frames += [mutate(frame, rng) for frame in frames]
    frames += [frame[: rng.randrange(len(frame) + 1)] for frame in frames]
    measured = 0
    for reading in candidates(load(protocol), **options):
        measure = codec_for(reading).measure
        for frame in frames:
            data = b"\x82\x01" + frame + b"\x00"
            length = measure(data, 2, len(data) - 1)
            if length:
                assert read_header(reading, data, 2, len(data) - 1).length == length
                measured += 1
    bare = protocol == "mb" and options.get("framing") != "tcp"
    assert measured > 200 or bare


def test_a_frame_that_is_not_all_there_has_no_length() -> None:
    measure = compile_measure(layout(load("casual")))
    frame = valid_frames("casual", 1, random.Random(1))[0]
    assert measure(frame, 0, len(frame)) == len(frame)
    assert measure(frame + b"more", 0, len(frame) + 4) == len(frame)
    assert [end for end in range(len(frame)) if measure(frame, 0, end)] == []


def test_a_header_of_numbers_in_one_byte_order_is_read_by_one_call() -> None:
    shape = Shape(layout(load("dsa")))
    assert shape.is_simple
    assert sorted(shape.place(kind) for kind in (n.Size, n.Head, n.Code)) == [0, 1, 2]
    assert shape.place(n.Magic) == -1


def test_while_the_dialect_is_open_only_what_all_read_alike_is_measured() -> None:
    measure = compile_measure(DIALECTS[0], DIALECTS)
    alike = wirelake.encode(Heartbeat(), dialect="ceda4")
    assert Heartbeat.__message__["code"] in undisputed(DIALECTS)
    assert measure(alike, 0, len(alike)) == len(alike)
    long = wirelake.encode(Publish("T", body=bytes(300)), dialect="ceda4")
    assert measure(long, 0, len(long)) == 0
    assert compile_measure(DIALECTS[0])(long, 0, len(long)) in (0, len(long))


def test_frames_without_a_length_are_not_measured() -> None:
    frame = b"publish:a.b:1.0.0\n{}"
    assert compile_measure(layout(load("mb")))(frame, 0, len(frame)) == 0
