"""Tasks in this process, one after the other, when a result is asked for: needs no Java, and repeats itself exactly.

With a seed the order of tasks is drawn, and so is which attempts fail: a test that finds a fault replays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from random import Random
from typing import Any

from .runner import IngestError, Task, run_task, settle

ATTEMPTS = 4
"""As often as Spark tries a task."""


class TaskLost(Exception):
    """An attempt that failed because the seed says so."""


@dataclass
class _Entry:
    task: Task
    after: tuple[Future[Any], ...]
    future: _LocalFuture


class _LocalFuture(Future[Any]):
    def __init__(self, runner: InlineRunner) -> None:
        super().__init__()
        self._runner = runner

    def result(self, timeout: float | None = None) -> Any:
        """Run tasks until this one is done."""
        self._runner.run_until(self)
        return super().result()


class InlineRunner:
    """Runs tasks one after the other in this process.

    For tests: ``seed`` draws the order of tasks, and which attempts fail. ``failing`` is the share of those, half of
    which have written their files; ``attempts`` is how often a task is tried.
    """

    parallelism = 1

    def __init__(self, seed: int | None = None, *, failing: float = 0.0, attempts: int = ATTEMPTS) -> None:
        self._random = Random(seed)
        self._is_shuffled = seed is not None
        self._failing = failing
        self._attempts = attempts
        self._queue: list[_Entry] = []
        self.finished = 0

    def start(self) -> None:
        """There is nothing to get ready."""

    def submit(self, task: Task, after: Sequence[Future[Any]] = ()) -> Future[Any]:
        future = _LocalFuture(self)
        self._queue.append(_Entry(task, tuple(after), future))
        return future

    def cancel(self) -> None:
        for entry in self._queue:
            entry.future.cancel()
        self._queue.clear()

    def run_until(self, future: Future[Any]) -> None:
        while not future.done():
            self._run(self._queue.pop(self._next()))

    def _next(self) -> int:
        """The place of a task that may start."""
        ready = (place for place, entry in enumerate(self._queue) if all(one.done() for one in entry.after))
        return self._random.choice(list(ready)) if self._is_shuffled else next(ready)

    def _run(self, entry: _Entry) -> None:
        try:
            settle(entry.future, self._repeated(entry.task, [one.result() for one in entry.after]))
        except Exception as error:
            entry.future.set_exception(error)
        finally:
            self.finished += 1

    def _repeated(self, task: Task, results: Sequence[Any]) -> Any:
        for _ in range(self._attempts):
            try:
                return self._attempt(task, results)
            except TaskLost:
                continue
        raise IngestError(f"a task failed {self._attempts} times")

    def _attempt(self, task: Task, results: Sequence[Any]) -> Any:
        drawn = self._random.random()
        if drawn < self._failing / 2:
            raise TaskLost
        outcome = run_task(task, results)
        if drawn < self._failing:
            raise TaskLost  # its files are there, but nobody learns of them
        return outcome
