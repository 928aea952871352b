"""Texts in which some bytes are written as others: the same values in every reader."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.differential import assert_agreement, mutate
from wirelake import decode, encode
from wirelake.codec.escapes import escape, unescape
from wirelake.codec.json import from_json
from wirelake.columnar import decode_frames
from wirelake.errors import DecodeError, EncodeError, SpecError
from wirelake.generate import random_frame
from wirelake.spec import Code, Frame, Message, Protocol, Size, be, blob, declare, field, message, text, u8
from wirelake.spec.resolve import layout

PAIRS = ((rb"\\", b"\\"), (rb"\n", b"\n"), (rb"\c", b":"))


class Line(Message, code=1):
    """A name and a value, as in a header line."""

    name: str = field(text(b":", escapes=dict(PAIRS)), "its name")
    value: str = field(text(u8, most=200, escapes=dict(PAIRS)), "what it says")
    raw: bytes = field(blob(b"\n", escapes=dict(PAIRS)), "bytes")


FRAME = Frame((Size("length", be.u16, counts="after", most=4000), Code("kind", u8)))
ESCAPED = declare(Protocol("escaped", "Escaped", FRAME, (Line,)))


@given(st.binary())
def test_what_is_written_is_read_back(raw: bytes) -> None:
    written = escape(PAIRS, raw)
    assert unescape(PAIRS, written) == raw
    assert b":" not in written and b"\n" not in written


def test_a_length_counts_what_is_written() -> None:
    frame = encode(Line(name="a:b", value="c\n", raw=b"\\:"))
    assert frame == b"\0\x0f\1" + rb"a\cb" + b":\3" + rb"c\n" + rb"\\\c" + b"\n"
    found = decode(ESCAPED, frame)
    assert (found.name, found.value, found.raw) == ("a:b", "c\n", b"\\:")


def test_every_reader_has_the_same_values() -> None:
    made, rng = layout(ESCAPED), Random(1)
    good = [random_frame(made, made.nodes[0], rng)[1] for _ in range(300)]
    assert sum(b"\\" in frame for frame in good) > 100
    for frame in good:
        found = decode(ESCAPED, frame)
        assert encode(found) == frame and from_json(made, found.to_json()) == found
    accepted, refused = assert_agreement(ESCAPED, [*good, *(mutate(frame, rng) for frame in good * 5)])  # type: ignore[arg-type]
    assert accepted >= len(good) and refused
    assert len(decode_frames(ESCAPED, good).slow) == len(good), "the record codec reads them"


@pytest.mark.parametrize(("tail", "offset"), [(rb"\t", 8), (b"\\", 8)])
def test_an_escape_that_stands_for_nothing_breaks_a_rule(tail: bytes, offset: int) -> None:
    value = b"xy" + tail
    frame = b"a:" + bytes([len(value)]) + value + b"\n"
    with pytest.raises(DecodeError) as caught:
        decode(ESCAPED, (len(frame) + 1).to_bytes(2, "big") + b"\1" + frame)
    assert (caught.value.rule, caught.value.path, caught.value.offset) == ("escape", "value", offset)


def test_limits_count_what_is_written() -> None:
    with pytest.raises(EncodeError, match="202 bytes, at most 200"):
        encode(Line(name="", value=":" * 101, raw=b""))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: text(b"\n", escapes={rb"\n": b"\n"}), "needs one of its own"),
        (lambda: text(b"\n", escapes={b"%": b"\n"}), "one length and begin with the same byte"),
        (lambda: text(b"\n", escapes={rb"\\": b"\\", rb"\nn": b"\n"}), "one length and begin"),
        (lambda: text(b"\n", escapes={rb"\\": b"\\", rb"\n": b"n", rb"\m": b"n"}), "two escapes stand for the same"),
        (lambda: text(b"\n", escapes={rb"\\": "x"}), "escapes are bytes"),  # type: ignore[dict-item]
        (lambda: text(b"\n", escapes=(b"a",)), "a mapping of bytes to bytes"),  # type: ignore[arg-type]
        (lambda: text(b"\n", strict=True, escapes=dict(PAIRS)), "not strict"),
    ],
)
def test_a_wrong_declaration_says_what_to_write(made: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        declare(Protocol("wrong", "Wrong", FRAME, (message("Wrong", code=1, x=field(made())),)))
