"""Codes, frames and sizes that no reader could take are refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wirelake import decode, encode
from wirelake import spec as s
from wirelake.errors import SpecError

FRAME = s.Frame((s.Size("length", s.be.u16, counts="after"), s.Code("type", s.u8)))
TEXT_CODES = s.Frame((s.Code("c", s.text(b" ")), s.Until(b"\n", 9)))
TWO_CODES = s.Frame((s.Code("a", s.u8), s.Code("b", s.u8), s.Until(b"\n", 9)))
WORDS = s.Frame((s.Line(b" ", b"\n", 80, 1, None, code="verb", code_rule="verb", skip=True), s.Ends(99)))
ELEMENTS = s.nested(s.struct("E", a=s.field(s.u8)))
M = s.message


def declared(*messages: Any, frame: s.Frame = FRAME, **about: Any) -> Any:
    return s.declare(s.Protocol("p", "P", frame, messages, **about))


MISTAKES: dict[str, Callable[[], Any]] = {
    "A has the frame 'hello', which is none of frames=": lambda: declared(M("A", code=1, frame="hello")),
    "the frame 'hello' has no message": lambda: declared(M("A", code=1), frames={"hello": FRAME}),
    "frames= are named": lambda: declared(M("A", code=1), frames=(FRAME,)),
    "A has 2 codes, but its frame 1": lambda: declared(M("A", code=(1, 2))),
    "1 is no code of this frame": lambda: declared(M("A", code=1), frame=TEXT_CODES),
    "A has the code (1,), with which another one begins": lambda: declared(
        M("A", code=(1,)), M("B", code=(1, 2)), frame=TWO_CODES
    ),
    "A takes any code, so it needs a field for it; write type": lambda: declared(M("A", code=s.OTHER)),
    "A.n is the length of 'x', which does not come after it": lambda: declared(
        M("A", code=1, n=s.length(s.u8, of="x"))
    ),
    "A.x is sized by 'n', which may be absent": lambda: declared(
        M("A", code=1, k=s.field(s.u8), n=s.optional(s.u8, when=s.When("k")), x=s.field(s.blob("n")))
    ),
    "0 units for 1 cannot be": lambda: declared(M("A", code=1, n=s.field(s.u8), x=s.field(s.blob(s.By("n", per=0))))),
    "until= asks for 'b', which its elements do not have": lambda: declared(
        M("A", code=1, x=s.field(s.many(ELEMENTS, None, until=s.When("b"))))
    ),
    "a list has a count or until=, not both": lambda: declared(
        M("A", code=1, x=s.field(s.many(ELEMENTS, s.u8, until=s.When("a"))))
    ),
    "zeros go up to a multiple of 2 to 256, not 1": lambda: declared(M("A", code=1, x=s.field(s.u8), p=s.align(1))),
    "A.x takes the rest": lambda: declared(M("A", code=1, x=s.field(s.rest), p=s.align(4))),
    "A.y looks up 'a' in 'x', which is no list": lambda: declared(
        M("A", code=1, x=s.field(s.u8), y=s.derived(s.Lookup("x", "a")))
    ),
    "A has the reply 'b', which is no message": lambda: declared(M("A", code=1, kind="request", answer="b")),
    "a fixed number of digits is 1 to 64": lambda: declared(M("A", code=1, x=s.field(s.digits(99)))),
    "only words have another separator": lambda: declared(
        M("A", code=1), topics=s.Topics("levels", "+", "#", separator="/")
    ),
    "A.n: a length apart is an integer": lambda: declared(
        M("A", code=1, n=s.length(s.digits(b";"), of="x"), x=s.field(s.blob("n")))
    ),
    "A.x: higher bytes announce wider integers": lambda: declared(
        M("A", code=1, x=s.field(s.compact({254: s.be.u32, 255: s.be.u16})))
    ),
    "A.x: bytes announce integers without sign": lambda: declared(
        M("A", code=1, x=s.field(s.compact({255: s.be.i32})))
    ),
    "A.x, tag 1 is a field, not a wire type": lambda: declared(
        M("A", code=1, x=s.field(s.choice(s.u8, {1: s.constant(b"hi")})))
    ),
    "A.x takes the rest, so nothing can follow it": lambda: declared(
        M(
            "A",
            code=1,
            k=s.field(s.u8),
            x=s.optional(s.rest, when=s.When("k", most=2)),
            y=s.optional(s.u8, when=s.When("k", least=2)),
        )
    ),
    "the frame 'hello' does not say where it ends": lambda: declared(
        M("A", code=1), M("B", code=2, frame="hello"), frames={"hello": s.Frame((s.Magic(b"hi"),))}
    ),
    "the frame 'data' takes whatever comes": lambda: declared(
        M("A", code=1), M("B", code=2, frame="data"), frames={"data": s.Frame((s.Size("n", s.u8, counts="after"),))}
    ),
    "Other takes any verb, so its first word is a field for it; write verb: str": lambda: declared(
        M("Get", code=1, word="get"), M("Other", code=s.OTHER, rest=s.field(s.word(".*", "rest"))), frame=WORDS
    ),
    "every message needs a word, since the frame has a header line": lambda: declared(M("A", code=1), frame=WORDS),
    "A.length: the column 'length' is part of every table; rename it": lambda: declared(
        M(
            "A",
            code=1,
            x=s.field(s.many(s.nested(s.struct("F", k=s.field(s.u8), v=s.field(s.u8))), None)),
            length=s.derived(s.Lookup("x", 7)),
        )
    ),
    "have the same code 1": lambda: declared(M("A", code=1, sent_by="client"), M("B", code=1)),
}


@pytest.mark.parametrize("says", MISTAKES)
def test_a_mistake_is_refused_in_one_sentence(says: str) -> None:
    with pytest.raises(SpecError) as caught:
        MISTAKES[says]()
    assert says in str(caught.value)


def test_rests_under_conditions_that_exclude_each_other_are_a_choice() -> None:
    when = (s.When("k", one_of=(1,)), s.When("k", none_of=(1, 2)), s.When("k", one_of=(2,)))
    x, y, z = (s.optional(wire, when=one) for wire, one in zip((s.rest, s.rest_text, s.u8), when, strict=True))
    protocol = declared(M("A", code=1, k=s.field(s.u8), x=x, y=y, z=z))
    for k, shown in ((1, b"hi"), (7, "hi")):
        read = decode(protocol, bytes([0, 4, 1, k]) + b"hi")
        assert (read.x, read.y, read.z) == ((shown, None, None) if k == 1 else (None, shown, None))
        assert encode(read) == bytes([0, 4, 1, k]) + b"hi"


def test_a_value_may_be_sized_by_what_its_condition_asks_for() -> None:
    n = s.optional(s.u8, when=s.When("k"))
    protocol = declared(
        M("A", code=1, k=s.field(s.u8), n=n, x=s.optional(s.blob("n"), when=(s.When("k"), s.When("n"))))
    )
    assert decode(protocol, b"\0\5\1\1\2hi").x == b"hi"
    assert decode(protocol, b"\0\2\1\0").x is None
