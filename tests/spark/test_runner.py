"""Tasks on Spark: each result when it is there, urgent tasks first, failures as one line."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import wait_until
from wirelake.errors import LakeError
from wirelake.ingest.runner import IngestError
from wirelake.spark.runner import AHEAD, SparkRunner
from wirelake.spark.start import SparkStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Add:
    number: int

    def run(self, *results: int) -> int:
        return self.number + sum(results)


@dataclass(frozen=True)
class WaitFor:
    """Runs until there is a file; another one says that it runs."""

    path: Path

    def run(self, *_: Any) -> None:
        self.path.with_suffix(".runs").touch()
        wait_until(self.path.exists, 60)


@dataclass(frozen=True)
class Touch:
    path: Path

    def run(self, *_: Any) -> None:
        self.path.touch()


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


def test_a_task_starts_when_it_is_submitted_and_nobody_has_to_wait_for_it(runner: SparkRunner, tmp_path: Path) -> None:
    runner.submit(Touch(tmp_path / "touched"))
    wait_until((tmp_path / "touched").exists)


def test_a_result_is_there_while_a_task_submitted_before_still_runs(runner: SparkRunner, tmp_path: Path) -> None:
    slow = runner.submit(WaitFor(tmp_path / "go"))
    quick = runner.submit(Add(1))
    assert runner.first_done([slow, quick]) is quick
    assert quick.result() == 1 and not slow.done()
    (tmp_path / "go").touch()
    assert runner.first_done([slow]) is slow


def test_results_are_by_future_and_every_task_is_a_job(spark: SparkSession, runner: SparkRunner) -> None:
    futures = [runner.submit(Add(number)) for number in range(20)]
    assert [future.result() for future in futures] == list(range(20))
    assert (runner.finished, runner.parallelism, jobs_of(spark, runner)) == (20, 2, 20)


def test_few_tasks_are_under_way_and_the_most_urgent_of_the_others_is_next(runner: SparkRunner, tmp_path: Path) -> None:
    gates = [tmp_path / f"gate-{number}" for number in range(runner.parallelism + AHEAD)]
    under_way = [runner.submit(WaitFor(gate)) for gate in gates]
    usual, urgent, late = (runner.submit(WaitFor(tmp_path / "go"), priority=priority) for priority in (0, 2, 1))
    assert all(future.running() for future in under_way)
    assert not any(future.running() for future in (usual, urgent, late))
    wait_until(lambda: list(tmp_path.glob("*.runs")))
    first = next(place for place, gate in enumerate(gates) if gate.with_suffix(".runs").exists())
    gates[first].touch()
    assert runner.first_done(under_way) is under_way[first]
    wait_until(urgent.running)
    assert not usual.running() and not late.running()
    for path in (*gates, tmp_path / "go"):
        path.touch()
    for future in (*under_way, usual, urgent, late):
        future.result()


def test_chains_of_tasks_go_on_as_soon_as_a_link_is_done(runner: SparkRunner) -> None:
    chains = {runner.submit(Add(1)): 1 for _ in range(3)}
    ends = []
    while chains:
        done = runner.first_done(list(chains))
        length = chains.pop(done)
        if length == 4:
            ends.append(done.result())
        else:
            chains[runner.submit(Add(1), after=[done], priority=1)] = length + 1
    assert ends == [4, 4, 4]


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
    futures = [runner.submit(Add(1)), runner.submit(Add(2))]
    futures.append(runner.submit(Add(3), after=futures))
    for future in futures:
        with pytest.raises(RuntimeError, match="no Spark today"):
            future.result()
    runner.cancel()


def test_what_is_cancelled_never_runs_or_ends(spark: SparkSession, runner: SparkRunner, tmp_path: Path) -> None:
    under_way = [runner.submit(WaitFor(tmp_path / "never")) for _ in range(runner.parallelism + AHEAD)]
    queued = runner.submit(Touch(tmp_path / "touched"))
    waiting = runner.submit(Touch(tmp_path / "touched"), after=[under_way[0]])
    runner.cancel()
    assert queued.cancelled() and waiting.cancelled()
    for future in under_way:
        with pytest.raises(IngestError, match="cancel"):
            future.result(0)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    assert not (tmp_path / "touched").exists()
