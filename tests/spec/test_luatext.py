"""Lua source: literals that mean the value, and the pieces that are needed."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.errors import SpecError
from wirelake.spec.luatext import FIRST_PIECES, FRAME_PIECES, VALUE_PIECES, WIDTH, Ref, comment, index, literal, pieces


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (7, "7"),
        (-0.5, "-0.5"),
        ("plain", '"plain"'),
        ('a "b"\\\n', '"a \\"b\\"\\\\\\n"'),
        ("é", '"\\195\\169"'),
        (b"\x00\xff7", '"\\000\\2557"'),
        (Ref("T.place"), "T.place"),
        ([], "{}"),
        ((1, "a"), '{ 1, "a" }'),
        ({"a": 1, "end": 2, "b c": 3, 4: 5, "gone": None}, '{ a = 1, ["end"] = 2, ["b c"] = 3, [4] = 5 }'),
    ],
)
def test_a_value_is_a_literal(value: Any, text: str) -> None:
    assert literal(value) == text


def test_a_long_table_has_a_member_per_line() -> None:
    long = "x" * (WIDTH - 10)
    assert literal({"a": long, "b": [1, 2]}) == f'{{\n    a = "{long}",\n    b = {{ 1, 2 }},\n}}'


def test_what_lua_has_no_literal_for_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot be written in Lua"):
        literal({"a": object()})


def test_a_comment_is_one_line() -> None:
    assert comment("  two\n lines ") == "-- two lines"
    assert comment("") == "--"


def test_a_member_is_picked_by_name_or_by_key() -> None:
    assert (index("name"), index("a.b"), index("end")) == (".name", '["a.b"]', '["end"]')


def test_pieces_without_features_are_a_part_of_all_pieces() -> None:
    few, all_features = list(pieces(set())), {"text", "msgpack", "json", "cells", "tags", "words", "body", "auto"}
    many = list(pieces(all_features))
    assert 0 < len(few) < len(many)
    assert not any(line.strip().startswith("--@") for line in many)


def test_every_file_of_lua_is_a_piece() -> None:
    from importlib.resources import files

    stored = {file.name.removesuffix(".lua") for file in files("wirelake.spec").joinpath("lua").iterdir()}
    assert stored == set(FIRST_PIECES + VALUE_PIECES + FRAME_PIECES)
