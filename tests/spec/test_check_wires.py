"""Numbers, sizes and texts that no reader could take are refused, in one sentence that says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wirelake import spec as s
from wirelake.errors import SpecError
from wirelake.spec import By, When

FRAME = s.Frame((s.Size("length", s.be.u16, counts="after"), s.Code("kind", s.u8)))


def declared(**fields: Any) -> None:
    known = {name: made if hasattr(made, "doc") else s.field(made, name) for name, made in fields.items()}
    s.declare(s.Protocol("trial", "Trial", FRAME, (s.message("Trial", code=1, **known),)))


class Endless(s.Struct):
    """Every one holds another one."""

    name: str = s.field(s.text(s.u8), "its name")
    next: Endless = s.field(s.nested(lambda: Endless), "the one behind it")


ASKING = s.struct(
    "Asking", y=s.field(s.u8, "y"), x=s.optional(s.u8, "if the version is high", when=When("version", least=3))
)
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a sign that there is not": (
        lambda: declared(x=s.varint(4, signed="zig")),  # type: ignore[arg-type]
        "Trial.x: signed is one of '', 'zigzag', 'twos', not 'zig'; write 'zigzag'",
    ),
    "two's complement of few bytes": (
        lambda: declared(x=s.varint(6, signed="twos")),
        'has 32 bits in 5 bytes or 64 in 10; write varint(10, signed="twos")',
    ),
    "two bytes for nothing": (
        lambda: declared(x=s.compact({0xFB: None, 0xFC: None})),
        "higher bytes announce wider integers; write compact(",
    ),
    "a null that the length cannot be": (
        lambda: declared(x=s.text(By(s.varint(3), plus=-1), null=-2)),
        "Trial.x: null=-2 is no value of its length; write null=2097150",
    ),
    "a number before a value in other units": (
        lambda: declared(x=s.blob(By(s.u8, per=4))),
        "Trial.x: a number in smaller units is a field of its own; write By('size', per=8)",
    ),
    "units both ways": (
        lambda: declared(size=s.u8, x=s.blob(By("size", per=2, times=3))),
        "Trial.x: 2 units for 3 cannot be; write per=8, or times=4",
    ),
    "one of several sizes that is not there": (
        lambda: declared(size=s.u8, x=s.blob(By("long", otherwise="size"))),
        "Trial.x is sized by 'long', which does not come before it; name an earlier field",
    ),
    "sizes that may all be absent": (
        lambda: declared(
            kind=s.u8,
            one=s.optional(s.u8, when=When("kind", one_of=(1,))),
            two=s.optional(s.u8, when=When("kind", one_of=(2,))),
            x=s.blob(By("one", otherwise="two")),
        ),
        "Trial.x is sized by 'two', which may be absent",
    ),
    "a fixed size without a filling": (
        lambda: declared(x=s.text(8)),
        "Trial.x: nothing says what fills it up to 8 bytes; write text(8, pad=b' '), or fixed(8) for bytes",
    ),
    "a filling without a fixed size": (
        lambda: declared(x=s.text(s.u8, pad=b" ")),
        "Trial.x: only a value of a fixed size is filled up; write text(8, pad=b' ')",
    ),
    "a filling of two bytes": (
        lambda: declared(x=s.text(8, pad=b"  ")),
        "Trial.x: one byte below 0x80 fills it up, not [b'  ']; write text(8, pad=b' ')",
    ),
    "a filling at both ends": (
        lambda: declared(x=s.digits(8, pad=b" ", pad_before=b" ")),
        "Trial.x: it is filled up at one end; write pad= or pad_before=",
    ),
    "a filling that is a digit": (
        lambda: declared(x=s.digits(8, pad=b"0")),
        "Trial.x: b'0', which fills it up, could be a digit; leave it out for zeros",
    ),
    "a form of no time": (
        lambda: s.timestamp(s.text(s.u8), "%H:%M"),
        "the form of a timestamp, '%H:%M', says no day of a year, or two",
    ),
    "a directive that there is not": (
        lambda: s.timestamp(s.text(s.u8), "%Y-%m-%d %q"),
        "has %q, which is none of %Y, %m, %d",
    ),
    "a structure without an end": (
        lambda: declared(x=s.nested(Endless)),
        "Endless.next: every Endless holds another one, so no value has an end; hold it in a list",
    ),
    "what a function names is no structure": (
        lambda: declared(x=s.nested(lambda: int)),  # type: ignore[arg-type, return-value]
        "Trial.x: nested takes a class with the base Struct, which int is not",
    ),
    "a structure too deep": (
        lambda: declared(version=s.u8, x=s.nested(lambda: ASKING, depth=99)),
        "Trial.x: a choice goes 1 to 64 levels deep, not 99; write depth=16",
    ),
    "a condition on what is nowhere around": (
        lambda: declared(other=s.u8, x=s.nested(ASKING)),
        "Asking.x depends on 'version', which does not come before it; name an earlier field",
    ),
    "a condition on what comes behind the structure": (
        lambda: declared(x=s.nested(ASKING), version=s.u8),
        "Asking.x depends on 'version', which does not come before it; name an earlier field",
    ),
}


@pytest.mark.parametrize(("make", "says"), WRONG.values(), ids=WRONG)
def test_what_no_reader_could_take_is_refused_in_one_sentence(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(SpecError) as caught:
        make()
    assert says in str(caught.value)


def test_a_condition_on_a_field_around_a_structure_is_accepted() -> None:
    declared(version=s.u8, x=s.many(s.nested(ASKING), s.u8))
