"""Tasks in this process: in order, in a drawn order, with attempts that fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from wirelake.errors import LakeError
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.runner import IngestError


@dataclass
class Note:
    """Writes its name into a list; the result is its name and what it waited for."""

    name: str
    log: list[str] = field(default_factory=list)

    def run(self, *results: Any) -> tuple[Any, ...]:
        self.log.append(self.name)
        return (self.name, *results)


class Refused:
    def run(self, *_: Any) -> None:
        raise LakeError("lake", "is full")


class Broken:
    def run(self, *_: Any) -> None:
        raise ZeroDivisionError


def order_of(runner: InlineRunner) -> list[str]:
    log: list[str] = []
    futures = [runner.submit(Note(name, log)) for name in "abcdefgh"]
    assert [future.result() for future in futures] == [(name,) for name in "abcdefgh"]
    assert runner.finished >= 8
    return log


def test_tasks_run_in_their_order_when_a_result_is_asked_for() -> None:
    assert order_of(InlineRunner()) == list("abcdefgh")


def test_a_seed_draws_the_order_and_draws_it_again() -> None:
    drawn = order_of(InlineRunner(7))
    assert drawn == order_of(InlineRunner(7)) != list("abcdefgh")
    assert sorted(drawn) == list("abcdefgh")


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_a_task_runs_after_those_it_waits_for_and_gets_their_results(seed: int | None) -> None:
    runner, log = InlineRunner(seed), []
    first, second = runner.submit(Note("first", log)), runner.submit(Note("second", log))
    last = runner.submit(Note("last", log), after=[first, second])
    assert last.result() == ("last", ("first",), ("second",))
    assert log[-1] == "last"


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_the_first_that_is_done_is_one_of_those_asked_for(seed: int | None) -> None:
    runner, log = InlineRunner(seed), []
    left = [runner.submit(Note(name, log), priority=place) for place, name in enumerate("abcd")]
    waiting = runner.submit(Note("e", log), after=left[:2])
    assert runner.first_done([waiting]).result() == ("e", ("a",), ("b",))
    order = []
    while left:
        left.remove(done := runner.first_done(left))
        order.append(done.result()[0])
    assert sorted(order) == sorted({*log} - {"e"}) == list("abcd")
    assert seed is not None or order == list("abcd")


def test_a_seed_draws_which_is_first_done() -> None:
    firsts = set()
    for seed in range(20):
        runner = InlineRunner(seed)
        firsts.add(runner.first_done([runner.submit(Note(name)) for name in "abc"]).result()[0])
    assert firsts == set("abc")


def test_an_attempt_that_fails_is_repeated_and_its_result_counts_once() -> None:
    log = order_of(InlineRunner(3, failing=0.5, attempts=20))
    assert set(log) == set("abcdefgh") and len(log) > 8


def test_a_task_that_always_fails_is_given_up() -> None:
    with pytest.raises(IngestError, match="failed 4 times"):
        InlineRunner(1, failing=1.0).submit(Note("a")).result()


def test_an_error_for_users_arrives_as_its_text_and_dooms_what_waits_for_it() -> None:
    runner = InlineRunner()
    refused = runner.submit(Refused())
    waiting = runner.submit(Note("a"), after=[refused])
    for future in (waiting, refused):
        with pytest.raises(IngestError, match=r"^lake: is full$"):
            future.result()


def test_an_error_of_ours_keeps_its_type() -> None:
    with pytest.raises(ZeroDivisionError):
        InlineRunner().submit(Broken()).result()


def test_what_is_cancelled_never_runs() -> None:
    runner, log = InlineRunner(), []
    future = runner.submit(Note("a", log))
    runner.cancel()
    assert future.cancelled() and log == []
