from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

import pytest

from tests.generate.toys import SENSOR
from wirelake.generate.draws import Draw, conditional, int_bounds, random_free, random_text, value_maker, word_maker
from wirelake.spec import Struct, When, be, choice, field, le, nested, optional, text, u8, within
from wirelake.spec import nodes as n
from wirelake.spec.resolve import layout

READING = layout(SENSOR)


@pytest.mark.parametrize(
    ("wire", "bounds"),
    [(le.u8, (0, 255)), (be.i16, (-32768, 32767)), (within(le.i32, -12, 14, "zone"), (-12, 14))],
)
def test_integers_stay_in_their_bounds_and_reach_them(wire: n.Int, bounds: tuple[int, int]) -> None:
    assert int_bounds(wire) == bounds
    make, draw = value_maker(wire, READING), Draw(Random(0))
    drawn = {make(draw) for _ in range(2000)}
    assert (min(drawn), max(drawn)) == bounds


def test_a_narrow_float_is_one_that_its_four_bytes_hold() -> None:
    make, draw = value_maker(le.f32, READING), Draw(Random(0))
    for value in [make(draw) for _ in range(200)]:
        assert struct.unpack("<f", struct.pack("<f", value))[0] == value


@pytest.mark.parametrize("size", [0.1, 1.0, 30.0])
def test_text_fits_its_limits_in_bytes(size: float) -> None:
    draw = Draw(Random(2), size)
    lengths = [len(random_text(draw, 3, 20).encode()) for _ in range(1000)]
    assert min(lengths) >= 3 and max(lengths) <= 20
    assert any(not random_text(draw).isascii() for _ in range(200))


def test_text_of_a_character_set_comes_back_from_it() -> None:
    wire = replace(text(be.u8, strict=True), charset="gbk")
    make, draw = value_maker(wire, READING), Draw(Random(3))
    drawn = [make(draw) for _ in range(500)]
    assert all(value.encode("gbk").decode("gbk") == value for value in drawn)
    assert any(not value.isascii() for value in drawn)


def test_free_values_are_of_every_kind_and_json_has_no_bytes() -> None:
    draw = Draw(Random(4))
    kinds = {binary: {type(random_free(draw, binary=binary)) for _ in range(500)} for binary in (True, False)}
    assert kinds[False] == {type(None), bool, int, float, str, list, dict}
    assert kinds[True] == kinds[False] | {bytes}


def test_a_word_is_absent_where_the_message_has_none() -> None:
    line = n.Line(b" ", b"\n", 64, 2, 4, "verb", "verb")
    only = n.Word("[a-z]{3}", "word", only=frozenset({2}))
    draw = Draw(Random(5))
    assert word_maker(only, 1, line)(draw) is None
    assert len(word_maker(only, 2, line)(draw)) == 3


def test_a_step_is_taken_only_if_the_condition_holds() -> None:
    field = n.Field("east", le.u8, when=When("kind", none_of=(0,)))
    taken: list[dict[str, int]] = []
    step = conditional(field, lambda draw, values: taken.append(dict(values)))
    for kind in (0, 1, 2):
        step(Draw(Random(0)), {"kind": kind})
    assert taken == [{"kind": 1}, {"kind": 2}]


class Chain(Struct):
    """It goes on nearly always, so that most of what is drawn is too long."""

    again: int = field(u8, "whether there is another one")
    behind: Chain | None = optional(nested(lambda: Chain, depth=3), "the next one", when=When("again"))


def test_what_holds_itself_inside_of_a_choice_is_drawn_anew_where_it_goes_too_deep() -> None:
    make = value_maker(choice(u8, {0: u8, 1: nested(Chain)}), READING)
    assert {make(Draw(Random(seed))).tag for seed in range(50)} == {0, 1}
