"""Declarations that hypothesis draws from the public vocabulary: small ones first, so that a failure shrinks."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.codec.declarations import made
from wirelake.errors import SpecError
from wirelake.spec import (
    OTHER,
    UNSET,
    Body,
    By,
    Cells,
    CellType,
    Code,
    Ends,
    Escaped,
    Form,
    Frame,
    Head,
    IfLeft,
    Kept,
    Line,
    Lookup,
    Magic,
    Message,
    Option,
    Protocol,
    Run,
    Signature,
    Size,
    Struct,
    Tags,
    TagTable,
    Trailer,
    Until,
    When,
    With,
    align,
    be,
    ber,
    bits,
    blob,
    bool8,
    checksum,
    choice,
    choose,
    compact,
    constant,
    declare,
    derived,
    digits,
    field,
    fixed,
    fixed_point,
    flag,
    flag8,
    labelled,
    le,
    length,
    many,
    msgpack,
    nested,
    number,
    rest,
    rest_text,
    sized,
    tag,
    text,
    timestamp,
    u8,
    uuid,
    varint,
    view,
    within,
    word,
)
from wirelake.spec import nodes as n

MOST = 4096
ENDS = (b"\0", b"\r\n", b"--")
SUMS = (
    *(("crc32", be.u32), ("crc16_modbus", le.u16), ("crc16_ccitt", be.u16), ("adler32", le.u32), ("xor8", u8)),
    *(("sum8", digits(3)), ("sum16", be.u16)),
)
_numbers = count(1)
_integers = st.sampled_from((u8, be.u16, le.u16, be.u24, le.u32, be.i16, be.i64, le.u64)) | st.sampled_from(
    (within(be.u16, 5, 500, "some_range"), labelled(u8, n.Labels("some", {0: "none", 1: "one"})))
)
_varints = st.builds(varint, st.integers(1, 10), high_first=st.booleans(), lenient=st.booleans()) | st.sampled_from(
    (
        *(ber(), compact({252: le.u16, 253: be.u24, 254: le.u64}), compact({255: be.u32}, lenient=True)),
        *(varint(10, signed="zigzag"), varint(3, signed="zigzag", high_first=True), varint(10, signed="twos")),
        compact({251: None, 252: le.u16}),
    )
)
_digits = st.builds(digits, st.integers(1, 4), base=st.sampled_from((10, 16))) | st.builds(
    digits, st.sampled_from(ENDS), st.sampled_from((0, -1, -500)), st.integers(1, 2**40), base=st.sampled_from((10, 16))
)
_filled = st.sampled_from(
    (digits(9, pad_before=b" "), digits(6, -99, 9999, pad=b"_"), digits(4, base=8), digits(5, -99, 99))
)
_counts = _varints | _digits | _filled | st.sampled_from((u8, be.u16, le.u32, be.i16))
_counts = _counts | st.builds(By, _varints | st.sampled_from((u8, be.u16)), plus=st.integers(-3, 2))
_texts = st.builds(text, _counts | st.sampled_from(ENDS), strict=st.booleans(), most=st.none() | st.integers(1, 99))
ESCAPES = {rb"\\": b"\\", rb"\z": b"\0", rb"\n": b"\n", rb"\-": b"-"}
_escapes = st.just(ESCAPES)
_escaped = st.one_of(*(st.builds(make, _counts | st.sampled_from(ENDS), escapes=_escapes) for make in (text, blob)))
_behind = st.builds(text, _counts, end=st.sampled_from(ENDS))
_fixed_texts = st.sampled_from((text(8, pad=b" "), text(3, pad_before=b"\0", strict=True), blob(5, pad=b"x")))
_times = st.sampled_from((timestamp(text(u8), "%Y-%m-%d %H:%M:%S.%f"), timestamp(text(b"\0"), "%a %b %d %Y")))
_FREE = (
    msgpack(be.u16, is_map=True),
    msgpack(u8),
    Run(varint(2), "json"),
    Run(u8, "strict_text", charset="latin-1"),
)
_leaves = st.one_of(
    *(
        _integers,
        _varints,
        _digits,
        _texts,
        _escaped,
        _behind,
        _fixed_texts,
        _times,
        _filled,
        *map(st.just, _FREE),
        st.sampled_from((bool8, flag8, uuid)),
    ),
    st.sampled_from((be.f32, le.f64)),
    *(st.builds(blob, _counts | st.sampled_from(ENDS)), st.builds(fixed, st.integers(1, 5))),
    *(st.builds(timestamp, _integers | _digits, st.sampled_from(("s", "ms", "us"))),),
    *(st.builds(fixed_point, _varints | st.sampled_from((u8, be.i16, le.u32)), st.integers(1, 48)),),
)


class Step(Struct):
    """An element that says whether it is the last one."""

    tag: int = field(u8, "0: the last one")
    text: str = field(text(u8), "what it says")


_lists = st.just(many(nested(Step), None, until=When("tag", one_of=(0, 7))))


class Tree(Struct):
    """A structure that holds itself, and says how many times."""

    label: str = field(text(u8), "what it is")
    more: int = field(u8, "whether another one follows")
    next: Tree | None = field(nested(lambda: Tree, depth=6), "the next one", when=When("more", bits=1), default=None)
    inside: tuple[Tree, ...] = field(many(nested(lambda: Tree, depth=6), u8), "those in it", default=())


_trees = st.sampled_from((nested(Tree), nested(lambda: Tree, depth=7)))
_tails = st.sampled_from((rest, rest_text, many(be.u16, None), many(text(u8), None)))
_pairs = many(nested(made(Struct, "Pair", {"key": field(text(u8)), "value": field(text(b"\n"))})), u8)


def _wrapped(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(many, inner, _counts | st.sampled_from(ENDS) | st.integers(1, 3)),
        st.builds(sized, _counts, inner | _tails),
        st.builds(nested, structures(inner)),
        choices(inner),
        _lists,
        _trees,
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
        asked = [draw(_asked(known, kept.wire)) for known, kept in found.items()]
        both = [tuple(asked[-2:])] if len(asked) > 1 else []
        optional = [With(known) for known, kept in found.items() if kept.when is not None]  # type: ignore[attr-defined]
        when = draw(st.sampled_from((None, None, IfLeft(), *asked, *both, *optional)))
        absent = UNSET if getattr(wire, "content", "") in ("msgpack", "msgpack_map", "json") else None
        found[name("field")] = field(wire) if when is None else field(wire, when=when, default=absent)
    if draw(st.booleans()):
        found |= draw(apart())
    if draw(st.booleans()):
        found |= draw(counted(inner))
    if draw(st.booleans()):
        found |= draw(around(inner))
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


def _asked(known: str, wire: Any) -> st.SearchStrategy[When]:
    """A condition on a field: on its value, if that is a number or a text."""
    is_set = (When(known), When(known, empty=True))
    match wire:
        case n.Int() | n.Bits() | n.Varint() | n.Digits() | n.Bool():
            said = ({"one_of": (0, 1)}, {"none_of": (0,)}, {"least": 1}, {"most": 99}, {"bits": 5})
            return st.sampled_from((*is_set, *(When(known, **each) for each in said)))  # type: ignore[arg-type]
        case n.Run(content="text" | "strict_text"):
            return st.sampled_from((*is_set, When(known, prefix="a"), When(known, none_of=("", "b"))))
        case _:
            return st.sampled_from(is_set)


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
    by = draw(st.sampled_from((count, By(count), By(count, per=8), By(count, plus=1), By(count, times=3))))
    wire = draw(st.sampled_from((blob(by), text(by), many(draw(inner), by))))
    return {count: field(draw(st.sampled_from((u8, be.u16, varint(2), digits(2))))), name("of"): field(wire)}


@st.composite
def around(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """A number, and a structure in which it decides what is there."""
    version = name("version")
    asked = field(draw(inner), when=draw(_asked(version, u8)), default=None)
    known = {name("always"): field(be.u16), name("maybe"): asked, name("wide"): field(blob(version))}
    struct = nested(made(Struct, name("Asking"), known))
    return {version: field(u8), name("asking"): field(draw(st.sampled_from((struct, many(struct, u8)))))}


_nulls = st.sampled_from((text(be.i16, null=-1), blob(digits(b";", -1, 99), null=-1), many(be.u16, be.i16, null=-1)))


WIRES = st.recursive(_leaves, _wrapped, max_leaves=5)


@st.composite
def messages(draw: st.DrawFn, header: dict[str, Any], ends: bool, **line: Any) -> Any:
    found = dict(header)
    if draw(st.booleans()):
        pairs, key = name("pairs"), draw(st.sampled_from(("", "a")))
        found |= {pairs: field(_pairs), name("looked"): derived(Lookup(pairs, key))}
    found |= draw(fields(WIRES))
    since = [name for name, made in found.items() if isinstance(made, n.Field) and made.when is None]
    if not ends and draw(st.booleans()):
        found[name("tail")] = field(draw(_tails))
    if draw(st.booleans()):
        kind, wire = draw(st.sampled_from(SUMS))
        begin = draw(st.sampled_from(("", *(each for each in since if each not in header))))
        found[name("sum")] = checksum(wire, kind, since=begin)  # type: ignore[arg-type]
    for how in draw(st.lists(st.sampled_from((n.FrameLength(), n.PayloadLength())), max_size=1)):
        found[name("derived")] = derived(how)
    return made(Message, name("Message"), found, **line)


# --- messages with a head of tags, and a body that is looked into once more

_CELLS: Any = Cells(
    *(le.u16, 4, 1, 7, 1, 4000),
    (
        *(CellType("NONE", None), CellType("INT", le.i32), CellType("LONG", be.i64), CellType("SHORT", le.i16)),
        *(CellType("FLOAT", le.f32), CellType("DOUBLE", be.f64), CellType("STRING", Run(u8, "strict_text"))),
        CellType("BYTES", Run(le.u16, "bytes", most=500)),
    ),
)


class Piece(Struct):
    """What a signature holds."""

    kind: int = field(u8)
    index: int = field(be.i16)


_SIGNATURE: Any = Signature("cells", 0, 1, (Form(3, Piece, first=True), Form(4, Piece, first=False)))


@st.composite
def with_body(draw: st.DrawFn, code: int, codes: frozenset[int], table: Any) -> Any:
    found: dict[str, Any] = {name("early"): field(draw(_integers))}
    found["tags"] = field(Tags(table, anywhere=draw(st.booleans())), default=table())
    text_body, empty = draw(st.booleans()), draw(st.sampled_from(("read", "absent", "refused")))
    found["body"] = field(Body(text=text_body, empty=empty), default=None)
    match draw(st.sampled_from(("cells", "msgpack", "list", "none"))):
        case "cells":
            found["cells"] = view(_CELLS, of="body", default=())
            found["piece"] = view(_SIGNATURE, of="body", default=None)
        case "msgpack":
            found[name("view")] = view(msgpack(absent_if_empty=True), of="body", default=UNSET)
        case "list":
            found[name("view")] = view(many(draw(_leaves), None), of="body", default=())
        case _:
            pass
    early = next(iter(found))
    viewed = [n.Present(known) for known, kept in found.items() if kept.view_of and known != "piece"]
    hows = (
        *viewed,
        n.AtLeast(early, 7),
        n.LengthOf("body"),
        n.Empty("body"),
        n.OrderOf("tags"),
        n.FrameLength(less="body"),
    )
    for how in draw(st.lists(st.sampled_from(hows), max_size=3, unique=True)):
        found[name("derived")] = derived(how)
    return made(Message, name("Message"), found, code=code)


@st.composite
def tables(draw: st.DrawFn, codes: frozenset[int]) -> Any:
    leaves = (u8, be.i32, text(u8), fixed(3), bool8)
    rows = {name("tag"): tag(code, draw(st.sampled_from(leaves)), codes) for code in (1, 2)}
    return made(TagTable, name("Table"), rows | {name("flag"): flag(0x80, frozenset({1}))})


@st.composite
def headed(draw: st.DrawFn) -> tuple[Frame, tuple[Any, ...], dict[str, Any]]:
    size = Size(
        "size", draw(st.sampled_from((be.u16, le.u32))), counts=draw(st.sampled_from(("after", "whole"))), most=MOST
    )
    wire = draw(st.sampled_from((be.u16, le.u16)))
    frame = Frame((size, Head("head", wire, least=size.wire.size + wire.size + 1, most=900), Code("kind", u8)))
    codes = frozenset({1, 2})
    table = draw(tables(codes))
    return frame, tuple(draw(with_body(code, codes, table)) for code in codes), {}


# --- frames

_WORD, _NUMBER = word("[a-z]{1,9}", "a_word", most=9), number("([0-9]{1,3})", "a_number", 0, 300)


@st.composite
def lines(draw: st.DrawFn) -> tuple[Frame, tuple[Any, ...], dict[str, Any]]:
    """A header line of words, and fields behind it."""
    skip, fold = draw(st.booleans()), draw(st.booleans())
    most = None if skip else 4
    line = Line(b" ", draw(st.sampled_from((b"\n", b"\r\n"))), 80, 1 if skip else 3, most, "verb", "verb", fold, skip)
    found = []
    for code in (1, 2):
        words = {name("word"): field(_WORD), name("word"): field(_NUMBER)}
        if draw(st.booleans()):
            words[name("word")] = field(word("[a-z]{1,9}", "a_word", optional=True), default=None)
        found.append(draw(messages(words, not skip, code=code, word="ab"[code - 1] * 3)))
    parts: tuple[Any, ...] = (line, Ends(MOST)) if skip else (Size("size", be.u16, counts="after", most=MOST), line)
    return Frame(parts), tuple(found), {}


@st.composite
def coded(draw: st.DrawFn) -> tuple[Frame, tuple[Any, ...], dict[str, Any]]:
    """A length or an end, a code of some kind, and fields that stand in the header."""
    header: dict[str, Any] = {}
    about: dict[str, Any] = {}
    parts: list[Any] = draw(st.sampled_from(([], [Magic(b"\xa5Z")])))
    codes: list[Any] = [1, 2, 3]
    match draw(st.sampled_from(("bits", "text", "two", "none", "number", "int", "int"))):
        case "bits":
            header = {"upper": field(bits(u8, 2, 2)), "lower": field(bits(u8, 0, 2))}
            parts = [*parts, Code("kind", bits(u8, 4, 4)), Kept("upper"), Kept("lower")]
        case "text":
            parts, codes = [*parts, Code("kind", text(b" "))], ["GET", "PUT", "GETS"]
        case "two":
            parts, codes = [*parts, Code("kind", u8), Code("more", be.u16)], [(1, 7), (1, 8), (2,)]
        case "number":
            parts = [*parts, Code("kind", draw(st.sampled_from((varint(2), digits(b" "), digits(2)))))]
            codes[2] = draw(st.sampled_from((3, OTHER)))
        case "none":
            codes = [1]
        case _:
            parts = [*parts, Code("kind", draw(st.sampled_from((u8, be.u16, le.u64))), early=draw(st.booleans()))]
            codes[2] = draw(st.sampled_from((3, OTHER)))
    if draw(st.booleans()):
        kept = name("kept")
        header[kept] = field(draw(st.sampled_from((le.u24, fixed(3), be.i64))))
        parts.append(Kept(kept))
    how = draw(st.sampled_from(("size", "size", "escaped", "until", "ends")))
    match how:
        case "until":
            parts.append(Until(draw(st.sampled_from(ENDS)), MOST))
        case "ends":
            parts.append(Ends(MOST))
        case "escaped":
            parts.append(Size("size", Escaped(draw(st.sampled_from((100, 253))), le.u16), counts="after", most=MOST))
        case _:
            wire = draw(st.sampled_from((be.u16, le.u32, varint(3), digits(b" ", 0, MOST), ber(3), digits(4))))
            counts, plus = draw(st.sampled_from(("after", "whole"))), draw(st.integers(-2, 2))
            parts.append(Size("size", wire, counts=counts, most=MOST, plus=plus))
    if how in ("size", "escaped"):
        parts += draw(st.sampled_from(((), (Trailer(b"\xce"),))))
    found = []
    for code in codes[: draw(st.integers(1, 3))]:
        own = {"kind": field(next(p.wire for p in parts if isinstance(p, Code)))} if code == OTHER else {}
        found.append(draw(messages(own | header, how == "ends", code=code)))
    if draw(st.booleans()):
        about["frames"] = {"other": Frame((Magic(b"!!"), Until(b"\n", 99)))}
        found.append(draw(messages({}, True, code=99, frame="other")))
    return Frame(tuple(parts)), tuple(found), about


@st.composite
def chosen(draw: st.DrawFn) -> tuple[Frame, tuple[Any, ...], dict[str, Any]]:
    """A reading option, and a code that is another message on each side."""
    end: Any = choose("ends", lf=b"\n", zero=b"\0")
    parts = (Size("size", be.u16, counts="after", most=MOST), Code("kind", u8))
    found = [
        draw(messages({name("line"): field(text(end))}, False, code=1, sent_by=side)) for side in ("client", "server")
    ]
    return Frame(parts), tuple(found), {"options": {"ends": Option(("lf", "zero"), "lf")}}


@st.composite
def protocols(draw: st.DrawFn) -> Protocol:
    """A protocol that may be declared; what is refused is drawn anew."""
    try:
        frame, found, about = draw(st.one_of(coded(), coded(), coded(), lines(), headed(), chosen()))
        return declare(Protocol(name("drawn"), "A drawn protocol", frame, found, **about))
    except (SpecError, ValueError):
        assume(False)
        raise
