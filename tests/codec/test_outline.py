"""What seems to be a frame: the compiled answer is the one by definition."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from tests.differential import STREAM_IDS, STREAMS, mutated_streams
from wirelake.codec.frame import measure, plausible
from wirelake.codec.outline import UNKNOWN, Outlines, compile_outline
from wirelake.codec.stream import readings
from wirelake.spec import Code, Frame, Magic, Message, Option, Protocol, Size, be, choose, declare, field, le, rest, u8
from wirelake.spec.resolve import Layout, candidates

streams = pytest.mark.parametrize(("protocol", "options", "lenient"), STREAMS, ids=STREAM_IDS)


def by_definition(layout: Layout, data: bytes, start: int, end: int) -> int:
    answer = plausible(layout, data, start, end)
    if not answer:
        return UNKNOWN if answer is None else 0
    return measure(layout, data, start, end).length


@streams
def test_at_every_byte_of_a_stream_the_answer_is_the_one_by_definition(
    protocol: str, options: dict[str, Any], lenient: dict[str, Any]
) -> None:
    rng = random.Random(6)
    layouts = readings(protocol, options, lenient).choices
    outlines = Outlines(layouts)
    seen = {"frame": 0, "none": 0, "unknown": 0}
    for data in mutated_streams(protocol, 30, rng, **options | lenient):
        end = rng.randrange(len(data) + 1)
        for start in range(end):
            expected = [by_definition(layout, data, start, end) for layout in layouts]
            assert [compile_outline(layout)(data, start, end) for layout in layouts] == expected
            follows = True if max(expected) > 0 else None if UNKNOWN in expected else False
            assert outlines.follows(data, start, end) is follows
            lengths = {length for length in expected if length}
            assert [length for length, _ in outlines.claims(data, start, end)] == sorted(lengths)
            if follows and start + outlines.width <= end:
                assert outlines.sieve.match(data, start)
            seen["frame" if follows else "unknown" if follows is None else "none"] += 1
    assert all(seen.values())


def test_the_lengths_that_a_header_may_mean_come_shortest_first() -> None:
    document, deployed = choices = readings("ceda", {"dialect": "auto"}).choices
    outlines = Outlines(choices)
    disputed = bytes.fromhex("827e0102610154") + bytes(20)
    assert outlines.claims(disputed, 0, len(disputed)) == [(4 + 0x0102, (deployed,)), (4 + 0x0201, (document,))]
    heartbeats = bytes.fromhex("820101") * 5
    assert outlines.claims(heartbeats, 0, len(heartbeats)) == [(3, choices)]
    assert outlines.claims(heartbeats, 1, len(heartbeats)) == []


class Note(Message, code=1, kind="event"):
    """A message behind a long header."""

    text: bytes = field(rest, "anything")


def test_claims_are_remembered_by_all_bytes_that_decide_them() -> None:
    """A header whose length lies far behind its first bytes: the same beginning claims another length each time."""
    endian = Option(("auto", "big", "little"), "auto", "byte order of lengths", auto="big")
    size = Size("length", choose("endian", big=be.u32, little=le.u32), counts="after", most=1000)
    frame = Frame((Magic(b"a long beginning"), size, Code("type", u8)))
    toy = declare(Protocol("toy", "Toy", frame, (Note,), {"endian": endian}))
    outlines = Outlines(candidates(toy))
    for length in (40, 30, 600):
        data = b"a long beginning" + struct.pack(">I", length) + b"\1" + bytes(1000)
        expected = {by_definition(layout, data, 0, len(data)) for layout in outlines.layouts} - {0}
        assert [found for found, _ in outlines.claims(data, 0, len(data))] == sorted(expected) == [20 + length]
