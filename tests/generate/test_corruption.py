from __future__ import annotations

from random import Random

import pytest

from tests.generate.toys import SENSOR, STOMP
from wirelake.generate import generate, random_frame
from wirelake.generate.corruption import corrupt
from wirelake.spec import nodes as n
from wirelake.spec.resolve import layout


@pytest.mark.parametrize(("protocol", "place"), [(SENSOR, (7, 2)), (STOMP, (0, 1))], ids=["sensor", "stomp"])
def test_a_false_length_changes_the_length_alone(protocol: n.Protocol, place: tuple[int, int]) -> None:
    reading, rng = layout(protocol), Random(5)
    frame = random_frame(reading, next(iter(reading.messages.values())), rng)[1]
    changes = [corrupt(reading, frame, rng) for _ in range(60)]
    lengths = [(after, change) for after, change in changes if change.kind == "length"]
    assert lengths
    at, size = place
    for after, change in lengths:
        assert (change.offset, change.length) == place
        assert after != frame and after[:at] + after[at + size :] == frame[:at] + frame[at + size :]


def test_every_kind_changes_the_frame_and_keeps_the_original() -> None:
    reading, rng = layout(SENSOR), Random(1)
    frame = random_frame(reading, next(iter(reading.messages.values())), rng)[1]
    changes = [corrupt(reading, frame, rng) for _ in range(200)]
    assert {change.kind for _, change in changes} == {"flip", "cut", "insert", "length"}
    assert all(after != frame and change.original == frame for after, change in changes)


def test_a_single_byte_is_never_cut_away() -> None:
    reading, rng = layout(STOMP), Random(2)
    assert all(corrupt(reading, b"S", rng)[1].kind != "cut" for _ in range(100))


def test_the_record_says_what_was_done_to_a_frame() -> None:
    for event in generate("casual", messages=3000, corrupt=0.2):
        harm = event.corruption
        if harm is None:
            continue
        before, after, at, count = harm.original, event.frame, harm.offset, harm.length
        match harm.kind:
            case "flip":
                assert count == 1 and len(after) == len(before) and after[at] != before[at]
                assert after[:at] + after[at + 1 :] == before[:at] + before[at + 1 :]
            case "cut":
                assert after == before[:at] + before[at + count :]
            case "insert":
                assert after[:at] + after[at + count :] == before
            case "length":
                assert (at, count) == (24, 8)
                assert after[:24] + after[32:] == before[:24] + before[32:]
                assert after[24:32] != before[24:32]
