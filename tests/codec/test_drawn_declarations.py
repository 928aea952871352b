"""Whatever is declared and whatever comes: every reader says the same, ends, and stays within bounds."""

from __future__ import annotations

import json
import math
import tracemalloc
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.codec.drawn_declarations import protocols
from tests.differential import SteppedStreams, assert_agreement, columnar_events, mutate, record_events, split
from wirelake import StreamDecoder, decode, encode
from wirelake.codec.content import read_shown_free, show_free, write_msgpack
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import readings
from wirelake.codec.walk import walk
from wirelake.columnar import decode_frames
from wirelake.errors import DecodeError, EncodeError
from wirelake.generate import random_frame
from wirelake.spec import (
    Code,
    Ends,
    Frame,
    IfLeft,
    Message,
    Protocol,
    Size,
    Struct,
    Tagged,
    When,
    be,
    bits,
    checksum,
    choice,
    constant,
    declare,
    field,
    many,
    message,
    optional,
    text,
    u8,
)
from wirelake.spec import nodes as n
from wirelake.spec.resolve import Layout, MessageNode, candidates, layout

PER_BYTE, BESIDE = 600, 1 << 20
"""What a decoder may allocate for each byte of its input, and for itself: caches, patterns, programs."""
EXAMPLES = settings(
    max_examples=50, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, derandomize=True
)


def drawn_frame(made: Layout, node: MessageNode, rng: Random) -> list[bytes]:
    """A frame; none where the values drawn hold what ends one."""
    try:
        return [random_frame(made, node, rng, size=0.3)[1]]
    except EncodeError:
        return []


def bytes_for(protocol: Protocol, seed: int, noise: bytes) -> list[bytes]:
    """Good frames, cut ones, mutated ones, noise behind the beginning of a frame, and noise."""
    rng, made = Random(seed), layout(protocol)
    good = [frame for node in made.messages.values() for _ in range(3) for frame in drawn_frame(made, node, rng)]
    cut = [frame[: rng.randrange(len(frame) + 1)] for frame in good]
    led = [frame[: rng.randrange(9)] + noise for frame in good]
    return [*good, *cut, *(mutate(frame, rng) for frame in good * 2), *led, noise]


@EXAMPLES
@given(protocols(), st.integers(0, 99), st.binary(max_size=60))
def test_every_reader_of_any_declaration_says_the_same_of_any_bytes(
    protocol: Protocol, seed: int, noise: bytes
) -> None:
    rng, pieces = Random(seed), bytes_for(protocol, seed, noise)
    assert_agreement(protocol, pieces)  # type: ignore[arg-type]
    known, data = readings(protocol, {}), b"".join(pieces)
    whole = record_events(known, [data])
    assert sum(length for _, length, *_ in whole) == len(data)
    chunks = split(data, rng, 50)
    assert record_events(known, chunks) == whole
    assert columnar_events(protocol, chunks) == whole  # type: ignore[arg-type]
    assert SteppedStreams(known).events(chunks, ends_alone=True) == whole


@settings(EXAMPLES, max_examples=300)
@given(protocols(), st.integers(0, 99))
def test_what_is_written_of_any_declaration_is_read_back(protocol: Protocol, seed: int) -> None:
    rng, sides = Random(seed), ("client", "server")
    for side in ({n.SIDE: each} for each in sides) if n.SIDE in protocol.options else ({},):
        made = layout(protocol, **side)
        for node in (node for node in made.messages.values() if node.sent_by in ("both", *side.values())):
            for frame in (frame for _ in range(4) for frame in drawn_frame(made, node, rng)):
                message = walk(made, frame)
                assert type(message) is node.cls
                assert encode(message) == frame
                shown = json.loads(json.dumps(message.to_json()))
                assert shown["ok"]
                if can_be_shown(message):
                    assert encode_frame(made, from_json(made, shown)) == frame


def can_be_shown(value: Any) -> bool:
    """Whether JSON can hold a value: no infinite number, and in MessagePack no number as a key, no map like bytes."""
    match value:
        case msgspec.Struct():
            names = [f.name for f in getattr(type(value), "__wire_fields__", ())] or value.__struct_fields__
            return all(can_be_shown(getattr(value, name, None)) for name in names)
        case tuple():
            return all(map(can_be_shown, value))
        case float():
            return math.isfinite(value)
        case dict() | list():
            return write_msgpack(read_shown_free(json.loads(json.dumps(show_free(value))))) == write_msgpack(value)
        case _:
            return True


@EXAMPLES
@given(protocols(), st.integers(0, 99), st.binary(max_size=200))
def test_a_decoder_of_any_declaration_allocates_a_small_multiple_of_its_input(
    protocol: Protocol, seed: int, noise: bytes
) -> None:
    pieces = bytes_for(protocol, seed, noise)
    StreamDecoder(protocol).feed(pieces[-1])  # what is made once for a protocol
    for piece in pieces:
        tracemalloc.start()
        decoder = StreamDecoder(protocol)
        events = [*decoder.feed(piece), *decoder.finish()]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most <= BESIDE + PER_BYTE * len(piece)
        assert len(events) <= len(piece)


# --- that what is drawn is everything

NOT_DRAWN = {"HeadReaches", "Wide", "Masked", "Begins", "Opaque"}
"""What is about one frame of a built-in protocol: other fields do not decide it. And what depends on the bytes or the
messages around it: ``tests/spec/features.py`` has it in every reader."""


def nodes_in(value: Any, found: set[str]) -> None:
    """Add the names of the nodes in a declaration as it is read."""
    match value:
        case n.Choice():
            found.add("Choice")
            if id(value) not in (seen := nodes_in.__dict__.setdefault("seen", set())):
                seen.add(id(value))
                for case in value.known.values():
                    nodes_in(case, found)
        case type() if issubclass(value, Struct):
            for each in (*value.__wire_fields__, *value.__derived_fields__):
                nodes_in(each, found)
        case tuple() | list():
            for each in value:
                nodes_in(each, found)
        case _ if is_dataclass(value) and type(value).__module__ in (n.__name__, When.__module__):
            found.add(type(value).__name__)
            found |= {f"Run of {value.content}"} if isinstance(value, n.Run) else set()
            found |= {f"{value.kind}"} if isinstance(value, n.Checksum) else set()
            for each in (getattr(value, f.name) for f in dataclass_fields(value)):
                nodes_in(each, found)


def test_all_kinds_of_nodes_are_drawn() -> None:
    found: set[str] = set()

    @settings(EXAMPLES, max_examples=500)
    @given(protocols())
    def look(protocol: Protocol) -> None:
        for made in candidates(protocol):
            nodes_in(made.frame, found)
            nodes_in([other.frame for other in made.others], found)
            for node in made.messages.values():
                nodes_in([node.fields, node.views, node.derived], found)

    look()
    unions = (n.WireOnly, n.Derived, n.Condition, n.Part)
    wires = {cls.__name__ for cls in n.Wire.__subclasses__()}
    kinds = wires | {kind.__name__ for union in unions for kind in get_args(union)}
    contents = {f"Run of {content}" for content in get_args(n.Content)} | set(get_args(n.Sum))
    assert (kinds | contents) - NOT_DRAWN <= found


# --- what this found


class Summed(Message, code=1):
    """A sum over a frame that ends with it."""

    text: str = field(text(u8), "a text")
    check = checksum(be.u32, "crc32")


class Chosen(Message, code=2):
    """A choice that may be absent."""

    maybe: Tagged | None = optional(choice(u8, {1: be.u16}), "a value, if there is one", when=IfLeft())


class Bitten(Message, code=3):
    """Bits behind which something always follows."""

    high: int = field(bits(be.u16, 1, 15), "most of them")
    low: int = field(bits(be.u16, 0, 1), "the last one")
    end = constant(b"\x0c\xfb\xc5")


def test_no_bytes_are_no_json() -> None:
    wire: Any = n.Run(u8, "json")
    noted = message("Noted", code=1, note=field(wire), all=field(many(wire, u8)))
    frame = Frame((Size("size", u8, counts="after"), Code("kind", u8)))
    protocol = declare(Protocol("noted", "Notes", frame, (noted,)))
    assert decode(protocol, b"\6\1\0011\1\0012").note == 1
    for data in (b"\3\1\0\0", b"\5\1\0011\1\0"):
        with pytest.raises(DecodeError, match="not JSON"):
            decode(protocol, data)
    assert_agreement(protocol, [b"\3\1\0\0", b"\5\1\0011\1\0", b"\6\1\0011\1\0012"])  # type: ignore[arg-type]


@pytest.mark.parametrize("size", range(1, 6))
def test_the_first_field_that_lacks_bytes_is_named(size: int) -> None:
    frame = Frame((Size("size", u8, counts="after"), Code("kind", u8)))
    protocol = declare(Protocol(f"bitten{size}", "Bits", frame, (message("Bitten", Bitten, code=3),)))
    with pytest.raises(DecodeError) as caught:
        decode(protocol, bytes([size, 3]) + b"\0\0\x0c\xfb\xc5"[: size - 1])
    path = "high" if size < 3 else "low"
    assert (caught.value.rule, caught.value.path, caught.value.offset) == ("int_fits", path, 2)


def test_the_sum_of_a_frame_that_ends_with_a_field_begins_with_the_frame() -> None:
    protocol = declare(Protocol("summed", "Sums", Frame((Code("kind", u8), Ends(99))), (Summed,)))
    data = encode(Summed(text="a")) + encode(Summed(text="bc"))
    assert [event.message.text for event in StreamDecoder(protocol).feed(data)] == ["a", "bc"]


def test_an_absent_choice_is_null_in_its_column() -> None:
    frame = Frame((Size("size", u8, counts="after"), Code("kind", u8)))
    protocol = declare(Protocol("chosen", "Choices", frame, (Chosen,)))
    frames = [encode(Chosen(maybe=Tagged(1, 5))), encode(Chosen(maybe=None))]
    found = decode_frames(protocol, frames, columns=["maybe"]).records.column("maybe").to_pylist()
    assert found == ['{"tag":1,"value":5}', None]
