"""Quick frames: the same as the exact reader finds, for every protocol whose length stands at a fixed place."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec.frame import read_header
from wirelake.codec.quick_frames import QuickFrames
from wirelake.errors import LimitExceeded
from wirelake.protocols import load
from wirelake.spec.resolve import layout

LAYOUTS = {
    "mb": layout(load("mb"), framing="tcp"),
    "mb upstream": layout(load("mb"), framing="tcp", profile="upstream"),
    "casual": layout(load("casual")),
    "dsa": layout(load("dsa")),
}
FRONTS = {"mb": 4, "mb upstream": 4, "casual": 32, "dsa": 4}
"""Where the length ends."""


def frame(name: str, content: bytes) -> bytes:
    """A frame with this content behind its length. What the content says does not matter."""
    size = len(content)
    match name:
        case "casual":
            return bytes(24) + size.to_bytes(8, "big") + content
        case "dsa":
            return (4 + size).to_bytes(4, "little") + content
        case _:
            return size.to_bytes(4, "big") + content


class Taken:
    """What was taken, and when to stop."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.contents: list[bytes] = []
        self.most = most

    def take(self, mark: str, data: bytes, start: int, stop: int) -> bool:
        assert mark == "mark"
        self.contents.append(data[start:stop])
        return len(self.contents) >= self.most


NAMES = st.sampled_from(sorted(LAYOUTS))


@given(NAMES, st.lists(st.binary(min_size=3, max_size=200), max_size=8), st.integers(0, 1 << 30))
def test_a_stream_may_be_cut_anywhere(name: str, contents: list[bytes], seed: int) -> None:
    wire = b"".join(frame(name, content) for content in contents)
    chance, frames, taken, at = random.Random(seed), QuickFrames(LAYOUTS[name]), Taken(), 0
    while at < len(wire):
        size = chance.randrange(1, 60)
        frames.read(wire[at : at + size], taken.take, "mark")
        at += size
        assert len(frames) <= FRONTS[name] + 200
    assert taken.contents == contents
    assert len(frames) == 0


@given(NAMES, st.binary(min_size=3, max_size=100))
def test_a_frame_ends_where_the_exact_reader_sees_its_end(name: str, content: bytes) -> None:
    wire = frame(name, content)
    known = LAYOUTS[name]
    if name == "dsa":
        known = replace(known, frame=type(known.frame)(known.frame.parts[:1]))
    assert read_header(known, wire, 0, len(wire)).length == len(wire)
    taken = Taken()
    QuickFrames(LAYOUTS[name]).read(wire + wire[:-1], taken.take, "mark")
    assert taken.contents == [content]


@pytest.mark.parametrize(
    ("name", "front"),
    [
        ("mb", (16752).to_bytes(4, "big")),
        ("mb upstream", ((16 << 20) + 1).to_bytes(4, "big")),
        ("casual", bytes(24) + b"\xff" * 8),
        ("dsa", (6).to_bytes(4, "little")),
        ("dsa", (1 << 31).to_bytes(4, "little")),
    ],
)
def test_a_length_beyond_its_limits_is_refused_before_its_frame_comes(name: str, front: bytes) -> None:
    good = frame(name, b"good one")
    frames, taken = QuickFrames(LAYOUTS[name]), Taken()
    with pytest.raises(LimitExceeded) as caught:
        frames.read(good + front, taken.take, "mark")
    assert taken.contents == [b"good one"]
    with pytest.raises(LimitExceeded) as exact:
        read_header(LAYOUTS[name], front, 0, len(front))
    assert (caught.value.rule, caught.value.path, caught.value.offset, caught.value.limit, caught.value.actual) == (
        exact.value.rule,
        exact.value.path,
        exact.value.offset,
        exact.value.limit,
        exact.value.actual,
    )


def test_whoever_takes_a_frame_may_end_the_stream() -> None:
    frames, taken = QuickFrames(LAYOUTS["mb"]), Taken(most=2)
    frames.read(frame("mb", b"x") * 5 + b"\xff" * 4, taken.take, "mark")
    assert taken.contents == [b"x", b"x"]


def test_a_length_of_several_forms_is_not_for_it() -> None:
    for known in (layout(load("ceda")), layout(load("mb"))):
        with pytest.raises(ValueError, match="no length at a fixed place"):
            QuickFrames(known)
