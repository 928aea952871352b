"""What every runner does with a task: errors that concern the user are values, others pass."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from wirelake.errors import LakeError
from wirelake.ingest.runner import Failure, IngestError, run_task, settle


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
    future: Future[Any] = Future()
    outcome = run_task(Fails(error))
    assert outcome == Failure("lake: is full")
    settle(future, outcome)
    with pytest.raises(IngestError, match=r"^lake: is full$"):
        future.result()


def test_a_fault_of_our_own_passes_with_its_traceback() -> None:
    with pytest.raises(KeyError):
        run_task(Fails(KeyError("x")))


def test_a_result_settles_a_future() -> None:
    future: Future[Any] = Future()
    settle(future, run_task(Sum(7)))
    assert future.result() == 7
