"""An ill-formed declaration is refused at once, with what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wirelake
from wirelake.errors import SpecError
from wirelake.protocols import load
from wirelake.spec import (
    AtLeast,
    Body,
    Cells,
    CellType,
    Code,
    Frame,
    Head,
    HeadReaches,
    IfLeft,
    Kept,
    LengthOf,
    LifeCycle,
    Line,
    Magic,
    Message,
    Option,
    Padding,
    Protocol,
    Run,
    Signature,
    Size,
    Struct,
    SumLimit,
    Tags,
    TagTable,
    Trailer,
    Until,
    When,
    With,
    be,
    bits,
    blob,
    checksum,
    choose,
    constant,
    declare,
    derived,
    digits,
    field,
    fixed,
    flag,
    le,
    length,
    many,
    msgpack,
    nested,
    number,
    optional,
    rest,
    rest_text,
    sized,
    sized_by,
    tag,
    text,
    u8,
    varint,
    view,
    within,
    word,
)
from wirelake.spec import nodes as n
from wirelake.spec.check import check

FRAME = Frame((Size("length", be.u16, counts="after"), Code("kind", u8)))
WITH_HEAD = Frame(
    (
        Size("total", be.u16, counts="whole", least=5),
        Head("head", be.u16, least=5, most=50),
        Code("kind", u8, early=True),
    )
)
LINE = Frame((Line(b":", b"\n", 50, 1, None, "action", "action"),))


def protocol(*messages: Any, frame: Any = FRAME, **more: Any) -> Protocol:
    return Protocol(name="trial", title="Trial", frame=frame, messages=messages, **more)


def made(base: Any, name: str, fields: dict[str, Any], **keywords: Any) -> Any:
    """A class as if it had been written out."""
    hints = {key: Any for key, value in fields.items() if not isinstance(value, n.DerivedField)}
    return type(base)(name, (base,), {**fields, "__annotations__": hints, "__module__": __name__}, **keywords)


def message(name: str = "M", *, code: int | None = 1, about: dict[str, Any] | None = None, **fields: Any) -> Any:
    return made(Message, name, fields, code=code, **(about or {}))


def struct(name: str = "S", *, limits: tuple[SumLimit, ...] = (), **fields: Any) -> Any:
    return made(Struct, name, fields, limits=limits)


def tagged(tags: dict[str, Any] | None = None, **rows: Any) -> Protocol:
    table = made(TagTable, "Table", rows)
    return protocol(message(headers=field(Tags(table, **(tags or {})), default=table())), frame=WITH_HEAD)


def at_import(make: Callable[[], Protocol]) -> str:
    with pytest.raises(SpecError) as caught:
        declare(make())
    return str(caught.value)


ON_1 = frozenset({1})
TWO = {"x": Option(("y", "z"), "y")}

WRONG: dict[str, tuple[Callable[[], Protocol], str]] = {
    # protocol and messages
    "no messages": (protocol, "it has no messages"),
    "no name": (
        lambda: Protocol(name="", title="", frame=FRAME, messages=(message(),)),
        "'' is no name: lower case, letter first",
    ),
    "no frame": (lambda: protocol(message(), frame=None), "it has no frame"),
    "not a message": (lambda: protocol(int), "int is not a Message"),
    "a structure": (lambda: protocol(struct(a=field(u8))), "is not a Message"),
    "no code": (lambda: protocol(message(code=None)), "M has no code"),
    "same code": (lambda: protocol(message(), message("N")), "N and M have the same code 1"),
    "same name": (
        lambda: protocol(message(), message("N", code=2, about={"as_name": "m"})),
        "N and M have the same name 'm'",
    ),
    "code too high": (lambda: protocol(message(code=256)), "M: the code 256 does not fit in kind"),
    "code negative": (lambda: protocol(message(code=-1)), "M: the code -1 does not fit in kind"),
    "unknown answer": (lambda: protocol(message(about={"answer": 9})), "M has the reply 9, which is no message"),
    "empty padding": (
        lambda: protocol(message(about={"padding": Padding(b"", "x")})),
        "M: padding is at least one byte",
    ),
    "least head without head": (
        lambda: protocol(message(about={"head_least": 9})),
        "M has a least head, but the frame has none",
    ),
    # frames
    "no code part": (
        lambda: protocol(message(), message("N", code=2), frame=Frame(FRAME.parts[:1])),
        "a frame has one Code, or one Line",
    ),
    "two code parts": (
        lambda: protocol(message(), frame=Frame((Code("a", u8), Code("b", u8)))),
        "no message has the code b; write code=(1, 2) in a class line, or leave one Code out",
    ),
    "code and line": (
        lambda: protocol(message(about={"word": "a"}), frame=Frame((Code("a", u8), *LINE.parts))),
        "a frame has one Code, or one Line",
    ),
    "two sizes": (
        lambda: protocol(message(), frame=Frame((FRAME.parts[0], *FRAME.parts))),
        "a frame has at most one Size",
    ),
    "empty magic": (
        lambda: protocol(message(), frame=Frame((Magic(b""), *FRAME.parts))),
        "magic bytes are at least one",
    ),
    "size without range": (
        lambda: protocol(message(), frame=Frame((Size("n", u8, counts="after", least=9, most=3), Code("c", u8)))),
        "n: no length lies within 9..3",
    ),
    "size limit too high": (
        lambda: protocol(message(), frame=Frame((Size("n", u8, counts="after", most=999), Code("c", u8)))),
        "n: 999 does not fit in its bytes",
    ),
    "head before size": (
        lambda: protocol(message(), frame=Frame((WITH_HEAD.parts[1], WITH_HEAD.parts[0], WITH_HEAD.parts[2]))),
        "head: the length of the frame comes before that of its head",
    ),
    "line not last": (
        lambda: protocol(message(about={"word": "a"}), frame=Frame((LINE.parts[0], FRAME.parts[0]))),
        "a header line is the last part of a frame",
    ),
    "no word": (lambda: protocol(message(), frame=LINE), "every message needs a word"),
    "same word": (
        lambda: protocol(message(about={"word": "a"}), message("N", code=2, about={"word": "a"}), frame=LINE),
        "two messages have the same word",
    ),
    "kept field missing": (
        lambda: protocol(message(), frame=Frame((Kept("id"), *FRAME.parts))),
        "M has no field 'id' for the frame; write id: int = field(...) in it",
    ),
    "kept field of any size": (
        lambda: protocol(message(id=field(rest_text)), frame=Frame((Kept("id"), *FRAME.parts))),
        "M.id takes the rest, and the header goes on; give it an end",
    ),
    # fields
    "not a wire type": (lambda: protocol(message(a=field("u8"))), "M.a: the wire type comes first, not 'u8'"),  # type: ignore[arg-type]
    "integer of 5 bytes": (lambda: protocol(message(a=field(n.Int(5, False, False)))), "1, 2, 3, 4 or 8 bytes, not 5"),
    "float of 2 bytes": (lambda: protocol(message(a=field(n.Float(2, False)))), "have 4 or 8 bytes, not 2"),
    "fixed of nothing": (lambda: protocol(message(a=field(fixed(0)))), "M.a: a fixed size is positive, not 0"),
    "empty range": (lambda: protocol(message(a=field(within(u8, 5, 4, "r")))), "M.a: no value lies within 5..4"),
    "range too high": (lambda: protocol(message(a=field(within(u8, 0, 256, "r")))), "M.a: 256 does not fit in its 1"),
    "no length allowed": (lambda: protocol(message(a=field(text(u8, least=5, most=4)))), "no length lies within 5..4"),
    "limit above the length": (
        lambda: protocol(message(a=field(text(u8, most=300)))),
        "M.a: 300 bytes, but its length ends at 255",
    ),
    "rest not last": (
        lambda: protocol(message(a=field(rest), b=field(u8))),
        "M.a takes the rest, so nothing can follow",
    ),
    "endless list not last": (lambda: protocol(message(a=field(many(u8, None)), b=field(u8))), "M.a takes the rest"),
    "list of rests": (lambda: protocol(message(a=field(many(rest, u8)))), "M.a: an element takes the rest"),
    "list of bodies": (lambda: protocol(message(a=field(many(Body(), u8)))), "M.a: this cannot be an element"),
    "fewer than no elements": (lambda: protocol(message(a=field(many(u8, -1)))), "M.a: -1 elements cannot be"),
    "list of nothing": (
        lambda: protocol(message(a=field(many(nested(struct()), be.u64)))),
        "M.a: an element can be empty, so there is no end to them",
    ),
    "list of what may be nothing": (
        lambda: protocol(message(a=field(many(nested(struct(x=field(many(u8, 0)))), None)))),
        "M.a: an element can be empty, so there is no end to them",
    ),
    "unknown role": (
        lambda: protocol(message(a=field(u8, role="color"))),
        "M.a: role is one of 'address', 'correlation'",
    ),  # type: ignore[arg-type]
    "role twice": (
        lambda: protocol(message(a=field(u8, role="status"), b=field(u8, role="status"))),
        "M: b and a both are its status",
    ),
    # conditions and lengths
    "condition on nothing": (
        lambda: protocol(message(a=optional(u8, when=When("b", none_of=(0,))))),
        "M.a depends on 'b', which does not come before it",
    ),
    "condition on what comes later": (
        lambda: protocol(message(a=optional(u8, when=With("b")), b=optional(u8, when=IfLeft()))),
        "M.a depends on 'b', which does not come before it",
    ),
    "condition on a text": (
        lambda: protocol(message(b=field(text(u8)), a=optional(u8, when=When("b", none_of=(0,))))),
        "M.a depends on 'b', which is never 0; compare it with a str",
    ),
    "condition without a default": (
        lambda: protocol(message(b=field(u8), a=field(u8, when=When("b", none_of=(0,))))),
        "M.a is not always there, so it needs a default",
    ),
    "condition on a head that is not": (
        lambda: protocol(message(a=optional(u8, when=HeadReaches(9)))),
        "M.a depends on the head, but the frame has none",
    ),
    "required behind optional": (
        lambda: protocol(message(a=optional(u8, when=IfLeft()), b=field(u8))),
        "M.b is always there, but a before it only if bytes are left; write when=IfLeft()",
    ),
    "length that counts from what comes later": (
        lambda: protocol(message(k=length(u8, of="x", since="x"), x=field(sized_by("k")))),
        "M.k: the length counts from 'x' on, which does not come before it; name a field",
    ),
    "length of nothing": (
        lambda: protocol(message(s=field(nested(struct(k=length(u8, of="x")))))),
        "S.k is the length of 'x', which does not come after it",
    ),
    "length of another": (
        lambda: protocol(message(s=field(nested(struct(k=length(u8, of="x"), x=field(blob(u8))))))),
        "S.k is the length of 'x', which is not sized by it",
    ),
    "sized by nothing": (
        lambda: protocol(message(s=field(nested(struct(x=field(sized_by("k"))))))),
        "S.x is sized by 'k', which does not come before it",
    ),
    "sized by no length": (
        lambda: protocol(message(s=field(nested(struct(k=field(text(u8)), x=field(sized_by("k"))))))),
        "S.x is sized by 'k', which is no number; name a number before it",
    ),
    "limit on nothing": (
        lambda: protocol(message(s=field(nested(struct(limits=(SumLimit(("x",), 5, "r"),), a=field(u8)))))),
        "S: a limit on x, not all of which exist",
    ),
    "limit on no length": (
        lambda: protocol(message(s=field(nested(struct(limits=(SumLimit(("a",), 5, "r"),), a=field(u8)))))),
        "S: a limit on a, not all of which have a length",
    ),
    # bits, numbers of any size, constants, sums
    "bits that do not begin at the top": (
        lambda: protocol(message(a=field(bits(u8, 0, 4)))),
        "M.a: bits 0 on, 4 of them, do not begin at bit 7",
    ),
    "bits that are left": (
        lambda: protocol(message(a=field(bits(u8, 4, 4)), b=field(u8))),
        "M.a: 4 bits of its integer are left; write bits(..., 0, 4) behind it",
    ),
    "bits at the end": (lambda: protocol(message(a=field(bits(u8, 1, 7)))), "M.a: 1 bits of its integer are left"),
    "bits of two integers": (
        lambda: protocol(message(a=field(bits(u8, 4, 4)), b=field(bits(be.u16, 0, 4)))),
        "M.b has bits of another integer than M.a; write the same type for both",
    ),
    "limit above the bits": (
        lambda: protocol(message(a=field(bits(within(u8, 0, 9, "r"), 5, 3)), b=field(bits(u8, 0, 5)))),
        "M.a: 0..9 does not fit in 3 bits",
    ),
    "bits on a condition": (
        lambda: protocol(message(k=field(u8), a=optional(bits(u8, 0, 8), when=When("k")))),
        "M.a: bits are there as long as their integer is; leave when= out",
    ),
    "code above its bits": (
        lambda: protocol(message(code=16), frame=Frame((Code("kind", bits(u8, 4, 4)), Kept("k")))),
        "the code 16 does not fit in kind",
    ),
    "varint of no bytes": (lambda: protocol(message(a=field(varint(0)))), "M.a: a varint has 1 to 10 bytes, not 0"),
    "digits that end with digits": (
        lambda: protocol(message(a=field(digits(b"0")))),
        "M.a: digits end with b'0', which could be digits",
    ),
    "digits without a number": (
        lambda: protocol(message(a=field(digits(b" ", 9, 3)))),
        "M.a: no number of 64 bits lies within 9..3",
    ),
    "constant of text": (lambda: protocol(message(a=constant("MQTT"))), "M.a: a constant is bytes, not 'MQTT'"),  # type: ignore[arg-type]
    "sum of a kind that is none": (
        lambda: protocol(message(a=checksum(be.u32, "crc23"))),  # type: ignore[arg-type]
        "M.a: the kind of a sum is one of 'crc32'",
    ),
    "sum in too few bytes": (
        lambda: protocol(message(a=checksum(be.u16, "crc32"))),
        "M.a: crc32 has 4 bytes without a sign; write checksum(be.u32, ...)",
    ),
    "sum in a structure": (
        lambda: protocol(message(s=field(nested(struct(a=checksum(be.u32, "crc32")))))),
        "S.a: a sum stands in a message, not in a structure; move it",
    ),
    "sum since nothing": (
        lambda: protocol(message(a=checksum(be.u32, "crc32", since="b"))),
        "M.a: the sum counts from 'b' on, which does not come before it",
    ),
    "condition on what is not there": (
        lambda: protocol(message(a=optional(u8, when=When("b")))),
        "M.a depends on 'b', which does not come before it; name an earlier field",
    ),
    "bits of a text": (
        lambda: protocol(message(b=field(text(u8)), a=optional(u8, when=When("b", bits=1)))),
        "M.a depends on 'b', which is no number",
    ),
    "value that nothing ends": (lambda: protocol(message(a=field(text(b"")))), "M.a: no bytes cannot end a value"),
    "list that nothing ends": (lambda: protocol(message(a=field(many(u8, b"")))), "M.a: no bytes cannot end a list"),
    "length of a sized value": (
        lambda: protocol(message(a=field(sized(4, rest)))),  # type: ignore[arg-type]
        "M.a: the length 4 is no number; write sized(be.u16, ...)",
    ),
    "two ends": (
        lambda: protocol(message(), frame=Frame((Code("c", u8), Until(b"\n", 9), Until(b"\r", 9)))),
        "a frame has one end; write one Trailer, Until, Ends or Opaque",
    ),
    "trailer without a length": (
        lambda: protocol(message(), frame=Frame((Code("c", u8), Trailer(b"\xce")))),
        "a Trailer needs a Size",
    ),
    "length and delimiter": (
        lambda: protocol(message(), frame=Frame((*FRAME.parts, Until(b"\n", 9)))),
        "a frame has a Size or an Until, not both",
    ),
    "end before the end": (
        lambda: protocol(message(), frame=Frame((Until(b"\n", 9), Code("c", u8)))),
        "Until is the last part of a frame",
    ),
    # bodies and views
    "body not last": (lambda: protocol(message(a=field(Body()), b=field(u8))), "M: a body is the last field"),
    "two bodies": (lambda: protocol(message(a=field(Body()), b=field(Body()))), "M has more than one body"),
    "view of nothing": (
        lambda: protocol(message(a=view(be.u32, of="body"))),
        "M.a is a view of 'body', which is no body",
    ),
    "view of a number": (
        lambda: protocol(message(body=field(u8), a=view(be.u32, of="body"))),
        "M.a is a view of 'body', which is no body",
    ),
    "signature of no cells": (
        lambda: protocol(message(body=field(Body()), g=view(Signature("record", 0, 1, ()), of="body", default=None))),
        "M.g: 'record' are no cells",
    ),
    "body that depends on nothing": (
        lambda: protocol(message(body=field(Body(opaque_if="x.y")), v=view(msgpack(), of="body"))),
        "M: the body depends on 'x.y', which is no field",
    ),
    "body that depends on no part": (
        lambda: protocol(message(a=field(nested(struct(b=field(u8)))), body=field(Body(opaque_if="a.c")))),
        "M: the body depends on 'a.c', which is no field",
    ),
    "empty body that depends on nothing": (
        lambda: protocol(message(body=field(Body(empty_if=AtLeast("x", 1))), v=view(msgpack(), of="body"))),
        "M: the body depends on 'x', which is no field",
    ),
    "derived from nothing": (lambda: protocol(message(d=derived(LengthOf("x")))), "M.d: there is no field 'x'"),
    "too few cell types": (
        lambda: protocol(
            message(
                body=field(Body()),
                r=view(Cells(le.u16, 4, 1, 7, 1, 4094, (CellType("A", None),)), of="body", default=()),
            )
        ),
        "M.r: 8 type codes need as many types, not 1",
    ),
    "cell types of one name": (
        lambda: protocol(
            message(
                body=field(Body()),
                r=view(
                    Cells(le.u16, 4, 1, 1, 0, 4094, (CellType("A", None), CellType("A", le.i32))),
                    of="body",
                    default=(),
                ),
            )
        ),
        "M.r: two types have the same name",
    ),
    # words
    "word without a line": (lambda: protocol(message(a=field(word("x", "r")))), "M.a: a word needs a Line"),
    "no pattern": (
        lambda: protocol(message(about={"word": "a"}, a=field(word("(", "r"))), frame=LINE),
        "M.a: the pattern '(' is not one",
    ),
    "number without digits": (
        lambda: protocol(message(about={"word": "a"}, a=field(number("[0-9]+", "r", 0, 9))), frame=LINE),
        "M.a: the pattern of a number has its digits in group 1",
    ),
    # tags
    "tags without a head": (
        lambda: protocol(message(h=field(Tags(made(TagTable, "T", {"a": tag(1, u8, ON_1)})), default=None))),
        "M.h: a tag table needs a Head in the frame, which ends it",
    ),
    "tag code twice": (lambda: tagged(a=tag(1, u8, ON_1), b=flag(1, ON_1)), "Table.b and a have the same code 0x01"),
    "tag code too high": (lambda: tagged(a=flag(256, ON_1)), "Table.a: the code 256 does not fit in a byte"),
    "tag on no message": (lambda: tagged(a=flag(1, frozenset({7}))), "Table.a is allowed on 0x07, which is no message"),
    "tag required, not allowed": (
        lambda: tagged(a=tag(1, u8, frozenset(), required=ON_1)),
        "Table.a is required where it is not allowed",
    ),
    "tag of a structure": (
        lambda: tagged(a=tag(1, nested(struct(x=field(u8))), ON_1)),
        "Table.a: a tag is a flag, an integer or a run",
    ),
    "tag without an end": (lambda: tagged(a=tag(1, rest, ON_1)), "Table.a: the value of a tag has a length"),
    "waived by nothing": (lambda: tagged({"waived": "b"}, a=flag(1, ON_1)), "M.headers: there is no tag 'b'"),
    # names and columns
    "name of the envelope": (
        lambda: protocol(message(message=field(u8))),
        "the column 'message' is part of every table",
    ),
    "column of the envelope": (lambda: protocol(message(a=field(u8, column="ts"))), "the column 'ts' is part of every"),
    "columns of two types": (
        lambda: protocol(message(a=field(u8)), message("N", code=2, a=field(text(u8)))),
        "another field of that name is int16, this one string; give one of them column=",
    ),
    "columns of two lists": (
        lambda: protocol(message(a=field(many(u8, u8))), message("N", code=2, a=field(many(text(u8), u8)))),
        "give one of them column=",
    ),
    "one column for two fields": (
        lambda: protocol(message(a=field(u8), b=field(u8, column="a"))),
        "M: two fields have the column 'a'",
    ),
    "one key for two fields": (
        lambda: protocol(message(a=field(u8), b=field(u8, json="a", column="c"))),
        "M: two fields have the key 'a'",
    ),
    "name that every message has": (
        lambda: protocol(message(layout=field(u8))),
        "M.layout: every message has a layout of its own",
    ),
    "name of a method": (
        lambda: protocol(message(to_json=field(u8))),
        "M.to_json: every message has a to_json of its own",
    ),
    # options
    "choice by nothing": (lambda: protocol(message(a=field(choose("x", y=u8)))), "option 'x', which is not declared"),
    "choice without a case": (
        lambda: protocol(message(a=field(choose("x", y=u8))), options=TWO),
        "a choice by x has no case for z",
    ),
    "only for no option": (
        lambda: protocol(message(a=optional(u8, only=("x", 1)))),
        "M.a is there for one 'x' only, which is no option",
    ),
    "only for no setting": (
        lambda: protocol(message(a=optional(u8, only=("x", "w"))), options=TWO),
        "M.a is there for x='w' only, which cannot be",
    ),
    "only sometimes, without a default": (
        lambda: protocol(message(a=field(u8, only=("x", "y"))), options=TWO),
        "M.a is not always there, so it needs a default",
    ),
    "setting of nothing": (
        lambda: protocol(message(a=field(Run(u8, "strict_text", charset=n.Setting("set"))))),
        "M: there is no option 'set'",
    ),
    "default that cannot be": (
        lambda: protocol(message(), options={"x": Option(("y",), "w")}),
        "option x: the default 'w' is not one of its values",
    ),
    "fallback that cannot be": (
        lambda: protocol(message(), options={"x": Option(("auto", "y"), "auto", auto="w")}),
        "option x: the fallback 'w' is not one of its values",
    ),
    "fallback for nothing": (
        lambda: protocol(message(), options={"x": Option(("y", "z"), "y", auto="z")}),
        "option x has a fallback but no value 'auto'",
    ),
    # life cycles
    "life of no message": (
        lambda: protocol(message(), life_cycle=LifeCycle("a", {"a": {"x": "a"}}, {})),
        "life cycle, state a: 'x' is no message",
    ),
    "life that leads nowhere": (
        lambda: protocol(message(), life_cycle=LifeCycle("a", {"a": {"m": "b"}}, {})),
        "m leads to 'b', which is no state",
    ),
    "life without a beginning": (
        lambda: protocol(message(), life_cycle=LifeCycle("z", {"a": {}}, {})),
        "the life cycle begins in 'z', which is no state",
    ),
}


@pytest.mark.parametrize(("make", "detail"), WRONG.values(), ids=WRONG)
def test_an_ill_formed_declaration_is_refused_with_what_is_wrong(make: Callable[[], Protocol], detail: str) -> None:
    assert detail in at_import(make)


def test_a_refusal_names_the_protocol() -> None:
    assert at_import(protocol).startswith("protocol trial: ")


def test_what_is_refused_in_one_reading_is_refused_in_all() -> None:
    """Every setting is tried, also those that nobody asked for yet."""
    bad = choose("x", y=u8, z=n.Int(5, False, False))
    assert "not 5" in at_import(lambda: protocol(message(a=field(bad)), options=TWO))


@pytest.mark.parametrize("name", ["casual", "dsa", "mb", "ceda"])
def test_the_built_in_protocols_are_well_formed(name: str) -> None:
    check(load(name))
    assert all(cls.__doc__ for cls in load(name).messages)
    assert all(cls.__protocol__ is load(name) for cls in load(name).messages)


def test_a_list_whose_elements_take_bytes_is_well_formed() -> None:
    pair = struct("Pair", size=length(u8, of="value"), value=field(sized_by("size")))
    made_protocol = declare(protocol(message(pairs=field(many(nested(pair), None)))))
    frame = bytes.fromhex("0005 01 00 02 6162".replace(" ", ""))
    assert wirelake.decode(made_protocol, frame).to_json()["fields"]["pairs"] == [{"value": ""}, {"value": "6162"}]
