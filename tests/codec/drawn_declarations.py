"""Declarations that hypothesis draws from the public vocabulary: small ones first, so that a failure shrinks."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.codec.declarations import made
from wirelake.errors import SpecError
from wirelake.spec import (
    By,
    Code,
    Ends,
    Frame,
    IfLeft,
    Kept,
    Magic,
    Message,
    Protocol,
    Size,
    Struct,
    Trailer,
    Until,
    When,
    align,
    be,
    ber,
    bits,
    blob,
    bool8,
    checksum,
    choice,
    constant,
    declare,
    digits,
    field,
    fixed,
    fixed_point,
    le,
    length,
    many,
    nested,
    rest,
    rest_text,
    sized,
    text,
    timestamp,
    u8,
    varint,
)
from wirelake.spec import nodes as n

MOST = 4096
ENDS = (b"\0", b"\r\n", b"--")
SUMS = (("crc32", be.u32), ("crc16_modbus", le.u16), ("crc16_ccitt", be.u16), ("adler32", le.u32), ("xor8", u8))
_numbers = count(1)
_integers = st.sampled_from((u8, be.u16, le.u16, be.u24, le.u32, be.i16, be.i64, le.u64))
_varints = st.builds(varint, st.integers(1, 9), high_first=st.booleans(), lenient=st.booleans()) | st.builds(ber)
_digits = st.builds(digits, st.integers(1, 4), base=st.sampled_from((10, 16))) | st.builds(
    digits, st.sampled_from(ENDS), st.sampled_from((0, -1, -500)), st.integers(1, 2**40), base=st.sampled_from((10, 16))
)
_counts = _varints | _digits | st.sampled_from((u8, be.u16, le.u32, be.i16))
_texts = st.builds(text, _counts | st.sampled_from(ENDS), strict=st.booleans(), most=st.none() | st.integers(1, 99))
ESCAPES = {rb"\\": b"\\", rb"\z": b"\0", rb"\n": b"\n", rb"\-": b"-"}
_escapes = st.just(ESCAPES)
_escaped = st.one_of(*(st.builds(make, _counts | st.sampled_from(ENDS), escapes=_escapes) for make in (text, blob)))
_behind = st.builds(text, _counts, end=st.sampled_from(ENDS))
_leaves = st.one_of(
    *(_integers, _varints, _digits, _texts, _escaped, _behind, st.just(bool8), st.sampled_from((be.f32, le.f64))),
    *(st.builds(blob, _counts | st.sampled_from(ENDS)), st.builds(fixed, st.integers(1, 5))),
    *(st.builds(timestamp, _integers | _digits, st.sampled_from(("s", "ms", "us"))),),
    *(st.builds(fixed_point, _varints | st.sampled_from((u8, be.i16, le.u32)), st.integers(1, 48)),),
)


class Step(Struct):
    """An element that says whether it is the last one."""

    tag: int = field(u8, "0: the last one")
    text: str = field(text(u8), "what it says")


_lists = st.just(many(nested(Step), None, until=When("tag", one_of=(0, 7))))
_tails = st.sampled_from((rest, rest_text, many(be.u16, None), many(text(u8), None)))


def _wrapped(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(many, inner, _counts | st.sampled_from(ENDS) | st.integers(1, 3)),
        st.builds(sized, _counts, inner | _tails),
        st.builds(nested, structures(inner)),
        choices(inner),
        _lists,
    )


def name(stem: str) -> str:
    return f"{stem}{next(_numbers)}"


@st.composite
def structures(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    return made(Struct, name("Structure"), draw(fields(inner, most=3)))


@st.composite
def choices(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    """A choice, which may hold lists of itself."""
    cases = dict(enumerate(draw(st.lists(inner | st.none(), min_size=1, max_size=3))))
    found = choice(u8, lambda: cases, depth=draw(st.integers(1, 16)))
    if draw(st.booleans()):
        cases[9] = many(found, draw(_counts))
    return found


@st.composite
def fields(draw: st.DrawFn, inner: st.SearchStrategy[Any], most: int = 4) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for wire in draw(st.lists(inner, min_size=1, max_size=most)):
        asked = [_asked(known, kept.wire) for known, kept in found.items()]
        both = [tuple(asked[-2:])] if len(asked) > 1 else []
        when = draw(st.sampled_from((None, None, IfLeft(), *asked, *both)))
        found[name("field")] = field(wire) if when is None else field(wire, when=when, default=None)
    if draw(st.booleans()):
        found |= draw(apart())
    if draw(st.booleans()):
        found |= draw(counted(inner))
    if draw(st.booleans()):
        found[name("null")] = field(draw(_nulls), default=None)
    if draw(st.booleans()):
        whole, shift = draw(st.sampled_from((u8, be.u16, le.u32))), draw(st.integers(1, 7))
        found[name("high")] = field(bits(whole, shift, 8 * whole.size - shift))
        found[name("low")] = field(bits(whole, 0, shift))
    if draw(st.booleans()):
        found[name("constant")] = constant(draw(st.binary(min_size=1, max_size=3)))
    if draw(st.booleans()):
        found[name("pad")] = align(draw(st.sampled_from((2, 4))))
    return found


def _asked(known: str, wire: Any) -> When:
    """A condition on a field: on its value, if that is a number."""
    is_number = isinstance(wire, n.Int | n.Bits | n.Varint | n.Digits | n.Bool)
    return When(known, one_of=(0, 1)) if is_number else When(known)


@st.composite
def apart(draw: st.DrawFn) -> dict[str, Any]:
    """A length, and what it is the length of, which may lie further behind."""
    size, run = name("size"), name("run")
    wire, since = draw(st.sampled_from((u8, be.u16, le.u32))), draw(st.sampled_from(("", size)))
    found: dict[str, Any] = {size: length(wire, of=run, since=since)}
    if draw(st.booleans()):
        found[name("between")] = field(be.u16)
    return found | {run: field(draw(st.sampled_from((blob, text)))(size))}


@st.composite
def counted(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """A number that is a field of its own, and says how many bytes or elements another one has."""
    count = name("count")
    by = draw(st.sampled_from((count, By(count), By(count, per=8), By(count, plus=1))))
    wire = draw(st.sampled_from((blob(by), text(by), many(draw(inner), by))))
    return {count: field(draw(st.sampled_from((u8, be.u16, varint(2), digits(2))))), name("of"): field(wire)}


_nulls = st.sampled_from((text(be.i16, null=-1), blob(digits(b";", -1, 99), null=-1), many(be.u16, be.i16, null=-1)))


WIRES = st.recursive(_leaves, _wrapped, max_leaves=5)


@st.composite
def messages(draw: st.DrawFn, code: int, header: dict[str, Any], ends: bool) -> Any:
    found = header | draw(fields(WIRES))
    if not ends and draw(st.booleans()):
        found[name("tail")] = field(draw(_tails))
    if draw(st.booleans()):
        kind, wire = draw(st.sampled_from(SUMS))
        found[name("sum")] = checksum(wire, kind)  # type: ignore[arg-type]
    return made(Message, name("Message"), found, code=code)


@st.composite
def frames(draw: st.DrawFn) -> tuple[Frame, dict[str, Any]]:
    """A frame, and the fields that stand in its header."""
    header: dict[str, Any] = {}
    parts: list[Any] = draw(st.sampled_from(([], [Magic(b"\xa5Z")])))
    if draw(st.booleans()):
        header = {"upper": field(bits(u8, 2, 2)), "lower": field(bits(u8, 0, 2))}
        parts = [*parts, Code("kind", bits(u8, 4, 4)), Kept("upper"), Kept("lower")]
    else:
        parts = [*parts, Code("kind", draw(st.sampled_from((u8, be.u16))), early=draw(st.booleans()))]
    how = draw(st.sampled_from(("size", "size", "until", "ends")))
    if how == "until":
        return Frame((*parts, Until(draw(st.sampled_from(ENDS)), MOST))), header
    if how == "ends":
        return Frame((*parts, Ends(MOST))), header
    wire = draw(st.sampled_from((be.u16, le.u32, varint(3), digits(b" ", 0, MOST))))
    size = Size(
        "size", wire, counts=draw(st.sampled_from(("after", "whole"))), most=MOST, plus=draw(st.integers(-2, 2))
    )
    trailer = draw(st.sampled_from(((), (Trailer(b"\xce"),))))
    return Frame((*parts, size, *trailer)), header


@st.composite
def protocols(draw: st.DrawFn) -> Protocol:
    """A protocol that may be declared; what is refused is drawn anew."""
    frame, header = draw(frames())
    ends = isinstance(frame.parts[-1], Ends)
    try:
        found = tuple(draw(messages(code, header, ends)) for code in range(1, draw(st.integers(2, 3))))
        return declare(Protocol(name("drawn"), "A drawn protocol", frame, found))
    except (SpecError, ValueError):
        assume(False)
        raise
