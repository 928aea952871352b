"""Choices that hold themselves: as deep as a declaration allows, every reader takes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.differential import assert_agreement, columnar_events, record_events
from wirelake import decode, encode
from wirelake import spec as s
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import readings
from wirelake.columnar.message_to_row import row_of
from wirelake.columnar.row_to_message import message_of
from wirelake.errors import DecodeError, EncodeError, SpecError
from wirelake.spec.check_depth import MOST_LEVELS, MOST_TYPES
from wirelake.spec.resolve import layout

T = TypeVar("T")
SHAPES = ["", "S", "M", "N", "SMN", "MM", "NN", "MNMNN", "NNNNNNNNN", "MMMMMMMMM"]
"""What lies between a choice and itself: sized values, lists, structures."""
WIDE = s.be.u32


def wrapped(shape: str, inner: Any) -> Any:
    for kind in reversed(shape):
        match kind:
            case "S":
                inner = s.sized(WIDE, inner)
            case "M":
                inner = s.many(inner, s.u8)
            case "N":
                inner = s.nested(s.struct("Inner", value=s.field(inner, "what is in it")))
    return inner


def declared(shape: str, depth: int) -> s.Protocol:
    cases: dict[int, Any] = {0: s.u8}
    value: Any = s.choice(s.u8, lambda: cases, depth=depth)
    cases[1] = wrapped(shape, value)
    frame = s.Frame((s.Code("type", s.u8), s.Size("length", WIDE, counts="after")))
    message = s.message("Holder", code=1, value=s.field(value, "a value"))
    return s.declare(s.Protocol(name="deep", title="deep", frame=frame, messages=(message,)))


def deepest(shape: str) -> int:
    return min(MOST_LEVELS, MOST_TYPES // (1 + len(shape)))


def frame_of(shape: str, depth: int) -> bytes:
    """Return a frame with so many values inside each other."""
    data = b"\0\5"
    for _ in range(depth - 1):
        for kind in reversed(shape):
            data = {"S": len(data).to_bytes(4), "M": b"\1", "N": b""}[kind] + data
        data = b"\1" + data
    return b"\1" + len(data).to_bytes(4) + data


def from_far_down(call: Callable[[], T], frames: int = 200) -> T:
    """Call with so many calls below, as a program around the reader may have."""
    return from_far_down(call, frames - 1) if frames else call()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_reader_takes_the_deepest_value_that_a_declaration_allows(shape: str) -> None:
    depth = deepest(shape)
    protocol, good, bad = declared(shape, depth), frame_of(shape, depth), frame_of(shape, depth + 1)

    def read() -> None:
        message = decode(protocol, good)
        assert encode(message) == good
        assert decode(protocol, good) == message and repr(message)
        made = layout(protocol)
        assert encode_frame(made, from_json(made, json.loads(json.dumps(message.to_json())))) == good
        assert encode(message_of(made, row_of(message))) == good
        with pytest.raises(DecodeError) as caught:
            decode(protocol, bad)
        assert caught.value.rule == "depth_limit"
        assert assert_agreement(protocol, [good, bad]) == (1, 1)
        data = good + bad + good
        events = record_events(readings(protocol, {}), [data])
        assert columnar_events(protocol, [data]) == events and len(events) == 3

    from_far_down(read)


def chain(depth: int) -> s.Protocol:
    """A structure that holds itself under a condition."""
    behind: Any = s.nested(lambda: Link, depth=depth)
    fields = {"more": s.field(s.u8, "whether"), "next": s.optional(behind, "another", when=s.When("more"))}
    Link: Any = s.struct("Link", **fields)
    frame = s.Frame((s.Code("type", s.u8), s.Size("length", WIDE, counts="after")))
    message = s.message("Holder", code=1, value=s.field(behind, "the first one"))
    return s.declare(s.Protocol(name="chain", title="chain", frame=frame, messages=(message,)))


def chain_of(links: int) -> bytes:
    data = b"\1" * (links - 1) + b"\0"
    return b"\1" + len(data).to_bytes(4) + data


def test_every_reader_takes_as_many_structures_inside_each_other_as_declared() -> None:
    protocol = chain(MOST_LEVELS)
    good, bad = chain_of(MOST_LEVELS), chain_of(MOST_LEVELS + 1)

    def read() -> None:
        message = decode(protocol, good)
        assert encode(message) == good and repr(message)
        made = layout(protocol)
        assert encode_frame(made, from_json(made, json.loads(json.dumps(message.to_json())))) == good
        assert encode(message_of(made, row_of(message))) == good
        with pytest.raises(DecodeError) as caught:
            decode(protocol, bad)
        assert caught.value.rule == "depth_limit"
        assert assert_agreement(protocol, [good, bad]) == (1, 1)  # type: ignore[arg-type]

    from_far_down(read)


@pytest.mark.parametrize("levels", [400, 10_000])
def test_json_that_is_far_too_deep_is_refused(levels: int) -> None:
    protocol = declared("MN", 16)
    made = layout(protocol)
    value: Any = {"tag": 0, "value": 5}
    text = json.dumps(value)
    for _ in range(levels):
        value = {"tag": 1, "value": [{"value": value}]}
        text = f'{{"tag":1,"value":[{{"value":{text}}}]}}' if levels < 1000 else text
    text = text if levels < 1000 else "[" * levels
    for read in (
        lambda: from_json(made, {"message": "holder", "fields": {"value": value}}),
        lambda: message_of(made, {"message": "holder", "value": text}),
    ):
        with pytest.raises(EncodeError) as caught:
            read()
        assert (caught.value.rule, caught.value.path.partition("[")[0]) == ("depth_limit", "value")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_deeper_is_refused_with_the_depth_to_write(shape: str) -> None:
    depth = deepest(shape)
    with pytest.raises(SpecError) as caught:
        declared(shape, depth + 1)
    if depth < MOST_LEVELS:
        assert f"write depth={depth} or less" in str(caught.value)
    else:
        assert "write depth=16" in str(caught.value)


@pytest.mark.parametrize("depth", [0, -1, MOST_LEVELS + 1, 1_000_000])
def test_a_choice_has_1_to_64_levels(depth: int) -> None:
    with pytest.raises(SpecError, match=f"a choice goes 1 to 64 levels deep, not {depth}; write depth=16"):
        declared("", depth)


def test_the_longest_way_through_other_choices_counts() -> None:
    outer: dict[int, Any] = {0: s.u8}
    inner: dict[int, Any] = {0: s.u8}
    first: Any = s.choice(s.u8, lambda: outer, depth=4)
    second: Any = s.choice(s.u8, lambda: inner, depth=MOST_LEVELS)
    outer[1], inner[1] = second, wrapped("MN" * 4, first)
    message = s.message("Holder", code=1, value=s.field(first, "a value"))
    frame = s.Frame((s.Code("type", s.u8), s.Size("length", WIDE, counts="after")))
    with pytest.raises(SpecError, match="64 levels of 9 types inside each other are too deep; write depth=22 or less"):
        s.declare(s.Protocol(name="deep", title="deep", frame=frame, messages=(message,)))


def test_a_choice_that_holds_none_may_hold_anything() -> None:
    cases = {0: s.u8, 1: wrapped("MN" * 8, s.u8)}
    message = s.message("Holder", code=1, value=s.field(s.choice(s.u8, cases, depth=MOST_LEVELS), "a value"))
    frame = s.Frame((s.Code("type", s.u8), s.Size("length", WIDE, counts="after")))
    assert s.declare(s.Protocol(name="flat", title="flat", frame=frame, messages=(message,))).name == "flat"
