"""The decoder of header lines: one expression reads a whole line, and leaves what is odd to the exact reader."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import wirelake
from wirelake import spec as s
from wirelake.codec.lines import compile_line
from wirelake.codec.walk import walk
from wirelake.errors import DecodeError
from wirelake.protocols import load
from wirelake.spec import nodes as n
from wirelake.spec.resolve import Layout, layout

ID = "3f2b8c1e-6d4a-4b7e-9c05-1a2b3c4d5e6f"
TCP = layout(load("mb"), framing="tcp", json_payload=True)
BARE = layout(load("mb"), json_payload=True)
ORDINARY = (
    "publish:a.b:1.0.0\n{}",
    f"request:a.b:1.0.0:{ID}\n",
    f"request:a.b:1.0.0:{ID}:{ID}:5000\n[1]",
    f"response:a.b:1.2.3::{ID}\nnull",
)
ODD = (
    "shout:a.b:1.0.0\n{}",
    "publish:a b:1.0.0\n{}",
    "publish:a.b\n{}",
    f"publish:a.b:1.0.0:{ID}:{ID}:5000\n{{}}",
    f"request:a.b:1.0.0:{ID}::0\n{{}}",
    "publish:a.b:1.0.0",
    'response:a.b:1.0.0\nerror:{"code":"X","message":"m","timestamp":"t"}',
    f"publish:{'a' * 256}:1.0.0\n{{}}",
)


def decoder(reading: Layout) -> Any:
    return compile_line(reading, next(part for part in reading.frame.parts if isinstance(part, n.Line)))


@pytest.mark.parametrize("text", ORDINARY)
@pytest.mark.parametrize("reading", [BARE, TCP], ids=["bare", "tcp"])
def test_an_ordinary_line_is_read_as_the_exact_reader_reads_it(text: str, reading: Layout) -> None:
    frame = text.encode()
    if reading is TCP:
        frame = struct.pack(">I", len(frame)) + frame
    message = decoder(reading)(frame, len(frame))
    assert repr(message) == repr(walk(reading, frame))
    assert message.wire_length == len(frame)


@pytest.mark.parametrize("text", ODD)
def test_an_odd_line_is_left_to_the_exact_reader(text: str) -> None:
    assert decoder(BARE)(text.encode(), len(text)) is None


def test_a_length_that_is_not_that_of_the_frame_is_left_to_the_exact_reader() -> None:
    frame = struct.pack(">I", 99) + ORDINARY[0].encode()
    assert decoder(TCP)(frame, len(frame)) is None


def test_a_payload_that_is_not_json_raises() -> None:
    frame = b"publish:a.b:1.0.0\n{"
    with pytest.raises(DecodeError, match="payload_json"):
        decoder(BARE)(frame, len(frame))


@pytest.mark.parametrize("skip", [False, True])
def test_a_word_that_is_missing_is_a_fault_wherever_a_line_may_be_short(skip: bool) -> None:
    name = s.word("[a-z]+", "name")
    put = s.message("Put", code=1, word="put", name=s.field(name), more=s.optional(s.word("x", "more", optional=True)))
    line = s.Line(b" ", b"\n", 80, 1, None, code="verb", code_rule="verb", skip=skip)
    protocol = s.declare(s.Protocol("puts", "Puts", s.Frame((line, s.Ends(99))), (put,)))
    assert wirelake.decode(protocol, b"put a\n").name == "a"
    with pytest.raises(DecodeError) as caught:
        wirelake.decode(protocol, b"put\n")
    assert (caught.value.rule, caught.value.path) == ("missing_fields", "name")
    assert wirelake.columnar.decode(protocol, b"put\nput b\n").records["name"].to_pylist() == ["b"]
