"""What every runner does with a task: errors that concern the user are values, others pass."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from wirelake.errors import LakeError
from wirelake.ingest.runner import Failure, IngestError, TaskFuture, run_task


@dataclass
class Sum:
    start: int

    def run(self, *results: int) -> int:
        return sum(results, self.start)


@dataclass
class Fails:
    error: Exception

    def run(self, *_: Any) -> None:
        raise self.error


def test_a_task_gets_the_results_that_it_waited_for() -> None:
    assert (run_task(Sum(1)), run_task(Sum(1), [2, 3])) == (1, 6)


@pytest.mark.parametrize("error", [LakeError("lake", "is full"), OSError("lake: is full")])
def test_an_error_for_the_user_arrives_as_one_line(error: Exception) -> None:
    outcome = run_task(Fails(error))
    assert outcome == Failure("lake: is full")
    future = TaskFuture(Fails(error), (), lambda waiting: future.settle(outcome))
    with pytest.raises(IngestError, match=r"^lake: is full$"):
        future.result()


def test_a_fault_of_our_own_passes_with_its_traceback() -> None:
    with pytest.raises(KeyError):
        run_task(Fails(KeyError("x")))


def test_a_future_says_once_that_somebody_waits_and_when_its_task_may_run() -> None:
    waited: list[Future[Any]] = []
    first = TaskFuture(Sum(7), (), waited.append)
    second = TaskFuture(Sum(1), (first,), waited.append)
    assert first.is_ready and not second.is_ready
    with pytest.raises(TimeoutError):
        first.result(0)
    first.settle(run_task(first.task))
    assert (first.result(), second.is_ready, waited) == (7, True, [first])
