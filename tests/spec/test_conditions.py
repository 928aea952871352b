"""Conditions on a value: all that is asked must hold; what is absent counts as nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wirelake.spec import When
from wirelake.spec.conditions import holds

CASES: list[tuple[When, list[Any], list[Any]]] = [
    (When("a"), [1, "x", b"x", True, (1,)], [0, "", b"", None, False, (), msgspec.UNSET]),
    (When("a", empty=True), [0, "", None], [1, "x"]),
    (When("a", one_of=(1, 2)), [1, 2], [0, 3, None]),
    (When("a", one_of=(0,)), [0, None], [1]),
    (When("a", one_of=("x", "")), ["x", "", None], ["y"]),
    (When("a", none_of=(0,)), [1], [0, None]),
    (When("a", least=5), [5, 6], [4, None]),
    (When("a", most=5), [5, 0, None], [6]),
    (When("a", least=2, most=3), [2, 3], [1, 4]),
    (When("a", bits=6), [2, 4, 7], [0, 1, 8, None]),
    (When("a", prefix="ab"), ["ab", "abc"], ["a", "", None, 7]),
]


@pytest.mark.parametrize(("when", "yes", "no"), CASES, ids=[str(when) for when, _, _ in CASES])
def test_a_condition_holds_for_what_it_asks(when: When, yes: list[Any], no: list[Any]) -> None:
    assert all(holds(when, value) for value in yes)
    assert not any(holds(when, value) for value in no)
