"""Tasks on Spark: few jobs, results by future, failures as one line."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from wirelake.errors import LakeError
from wirelake.ingest.runner import IngestError
from wirelake.spark.runner import SparkRunner
from wirelake.spark.start import SparkStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Add:
    number: int

    def run(self, *results: int) -> int:
        return self.number + sum(results)


@dataclass(frozen=True)
class Fail:
    kind: type[Exception]

    def run(self, *_: Any) -> None:
        raise LakeError("lake", "is full") if self.kind is LakeError else self.kind("in the worker")


@pytest.fixture
def runner(spark: SparkSession) -> SparkRunner:
    return SparkRunner(SparkStart.of(spark))


def jobs_of(spark: SparkSession, runner: SparkRunner) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(runner._group))


def test_tasks_submitted_together_are_one_job(spark: SparkSession, runner: SparkRunner) -> None:
    first = runner.submit(Add(1))
    assert jobs_of(spark, runner) == 0  # one task of two that run at the same time: held back
    assert first.result() == 1
    assert (jobs_of(spark, runner), runner.finished, runner.parallelism) == (1, 1, 2)


def test_results_are_by_future_whatever_job_a_task_was_in(spark: SparkSession, runner: SparkRunner) -> None:
    futures = [runner.submit(Add(number)) for number in range(20)]
    assert [future.result() for future in futures] == list(range(20))
    assert runner.finished == 20
    assert jobs_of(spark, runner) < 10


def test_a_task_gets_the_results_of_those_it_waits_for(runner: SparkRunner) -> None:
    first, second = runner.submit(Add(1)), runner.submit(Add(2))
    third = runner.submit(Add(3), after=[first, second])
    assert runner.submit(Add(4), after=[third]).result() == 10


def test_tasks_wait_for_a_spark_that_starts(spark: SparkSession) -> None:
    go = threading.Event()

    def start() -> SparkSession:
        go.wait()
        return spark

    runner = SparkRunner(SparkStart(start))
    runner.start()
    futures = [runner.submit(Add(number)) for number in range(4)]
    assert runner.finished == 0
    go.set()
    assert sum(future.result() for future in futures) == 6


def test_an_error_for_users_crosses_as_text_and_dooms_what_waits_for_it_alone(runner: SparkRunner) -> None:
    refused, other = runner.submit(Fail(LakeError)), runner.submit(Add(1))
    waiting = runner.submit(Add(2), after=[refused])
    for future in (refused, waiting):
        with pytest.raises(IngestError, match=r"^lake: is full$"):
            future.result()
    assert other.result() == 1


def test_an_error_of_ours_is_one_line_with_its_cause(runner: SparkRunner) -> None:
    with pytest.raises(IngestError, match=r"Spark could not finish: .*ZeroDivisionError: in the worker") as caught:
        runner.submit(Fail(ZeroDivisionError)).result()
    assert caught.value.__cause__ is not None


def test_a_spark_that_does_not_start_fails_whoever_waits(spark: SparkSession) -> None:
    def fail() -> SparkSession:
        raise RuntimeError("no Spark today")

    runner = SparkRunner(SparkStart(fail))
    future = runner.submit(Add(1))
    with pytest.raises(RuntimeError, match="no Spark today"):
        future.result()
    runner.cancel()
    assert future.cancelled()


def test_what_is_cancelled_never_runs(spark: SparkSession, runner: SparkRunner) -> None:
    future = runner.submit(Add(1))
    runner.cancel()
    assert future.cancelled()
    assert jobs_of(spark, runner) == 0
