"""Stages: chains of tasks go on as their results come, progress reaches its total, and a failure ends what runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.runner import IngestError
from wirelake.ingest.stages import Chain, Stages


@dataclass
class Square:
    number: int

    def run(self, *_: Any) -> int:
        return self.number**2


class Full:
    def run(self, *_: Any) -> None:
        raise OSError("the disk is full")


class Shown:
    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.done: list[int] = []

    def stage(self, name: str, total: int) -> None:
        self.stages.append((name, total))
        self.done.append(0)

    def add(self, done: int) -> None:
        self.done[-1] += done


def squared_twice(stages: Stages, number: int, results: list[int]) -> Chain:
    """A chain of two tasks: the second squares what the first returned."""
    (once,) = yield [stages.submit("decode", Square(number), 10)]
    (twice,) = yield stages.submit_all("gold", [Square(once)], [1])
    results.append(twice)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_every_chain_goes_on_with_its_own_results(seed: int | None) -> None:
    results: list[int] = []
    shown = Shown()
    with Stages(InlineRunner(seed), shown) as stages:
        stages.expect("decode", 200)
        stages.run([squared_twice(stages, number, results) for number in range(20)])
    assert sorted(results) == [number**4 for number in range(20)]
    assert {name: times.tasks for name, times in stages.times.items()} == {"decode": 20, "gold": 20}
    assert [name for name, _ in shown.stages] == ["decode", "gold"][: len(shown.stages)]
    assert shown.done[0] == 200


def test_results_have_the_order_of_the_tasks_however_large_they_are() -> None:
    results: list[list[int]] = []

    def chain(stages: Stages) -> Chain:
        results.append((yield stages.submit_all("decode", [Square(number) for number in range(4)], [1, 9, 3, 5])))

    with Stages(InlineRunner(), Shown()) as stages:
        stages.run([chain(stages)])
    assert results == [[0, 1, 4, 9]]


def test_a_failure_ends_all_chains_and_cancels_what_has_not_started() -> None:
    runner = InlineRunner()

    def failing(stages: Stages) -> Chain:
        yield [stages.submit("decode", Full())]

    with pytest.raises(IngestError, match="the disk is full"), Stages(runner, Shown()) as stages:
        left = runner.submit(Square(1), after=[runner.submit(Square(2))])
        stages.run([failing(stages), squared_twice(stages, 3, [])])
    assert left.done()


def test_an_exception_of_the_driver_cancels_too() -> None:
    runner = InlineRunner()
    with pytest.raises(KeyboardInterrupt), Stages(runner, Shown()) as stages:
        left = stages.runner.submit(Square(1))
        raise KeyboardInterrupt
    assert left.cancelled()
