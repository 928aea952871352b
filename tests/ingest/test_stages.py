"""Stages: results in order, progress while tasks run, and an end to what runs when something fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.runner import IngestError
from wirelake.ingest.stages import Stages


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


def test_results_have_the_order_of_the_tasks_and_progress_reaches_the_total() -> None:
    shown = Shown()
    with Stages(InlineRunner(5), shown) as stages:
        futures = [stages.runner.submit(Square(number)) for number in range(3)]
        assert stages.results("squares", futures, [10, 20, 30]) == [0, 1, 4]
        assert stages.run("more", [Square(7), Square(8)], [1, 2]) == [49, 64]
        assert stages.run("none", []) == []
    assert shown.stages == [("squares", 60), ("more", 3)]
    assert shown.done == [60, 3]


def test_a_failure_cancels_what_has_not_started() -> None:
    runner = InlineRunner()
    with pytest.raises(IngestError, match="the disk is full"), Stages(runner, Shown()) as stages:
        left = runner.submit(Square(1))
        stages.results("full", [runner.submit(Full())], [1])
        left = runner.submit(Square(2))
    assert left.done()


def test_an_exception_of_the_driver_cancels_too() -> None:
    runner = InlineRunner()
    with pytest.raises(KeyboardInterrupt), Stages(runner, Shown()) as stages:
        left = stages.runner.submit(Square(1))
        raise KeyboardInterrupt
    assert left.cancelled()
