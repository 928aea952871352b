"""Transactions under faults: whoever dies, and whenever, money is conserved and nothing stays in doubt."""

from __future__ import annotations

import pytest

from tests.live.casual.transfers import PLANS, Point, Transfers, points

SEED = 1
LEAST_POINTS = 2_000


@pytest.mark.parametrize("name", list(PLANS))
def test_a_transfer_is_whole_or_not_at_all_whoever_dies_at_any_message_or_write(name: str) -> None:
    for point in points(PLANS[name], SEED):
        try:
            Transfers(PLANS[name], SEED, point).play()
        except AssertionError as error:
            raise AssertionError(f"{name}, {point}: {error}") from error


def test_that_is_often_enough() -> None:
    assert sum(len(list(points(plan, SEED))) for plan in PLANS.values()) >= LEAST_POINTS


def test_the_same_seed_is_the_same_life() -> None:
    name, point = next(iter(PLANS)), Point(9, "b")
    first, second = (Transfers(PLANS[name], 3, point).play().world.fingerprint for _ in range(2))
    assert first == second
    assert first != Transfers(PLANS[name], 4, point).play().world.fingerprint
