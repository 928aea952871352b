"""Tasks in this process, one after the other, when a result is asked for: needs no Java, and repeats itself exactly.

With a seed the order of tasks is drawn, and so is which attempts fail: a test that finds a fault replays it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from random import Random
from typing import Any

from .runner import IngestError, Task, TaskFuture, run_task

ATTEMPTS = 4
"""As often as Spark tries a task."""


class TaskLost(Exception):
    """An attempt that failed because the seed says so."""


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
        self._queue: list[TaskFuture] = []
        self.finished = 0

    def start(self) -> None:
        """There is nothing to get ready."""

    def submit(self, task: Task, after: Sequence[Future[Any]] = (), priority: int = 0) -> Future[Any]:
        """A priority has no use here: in their order, tasks find what those before them read still in memory."""
        future = TaskFuture(task, after, self._run_until)
        self._queue.append(future)
        return future

    def first_done(self, futures: Sequence[Future[Any]]) -> Future[Any]:
        while not (done := [future for future in futures if future.done()]):
            self._run_one()
        return self._random.choice(done) if self._is_shuffled else done[0]

    def cancel(self) -> None:
        for future in self._queue:
            future.cancel()
        self._queue.clear()

    def _run_until(self, future: Future[Any]) -> None:
        while not future.done():
            self._run_one()

    def _run_one(self) -> None:
        ready = [place for place, queued in enumerate(self._queue) if queued.is_ready]
        self._run(self._queue.pop(self._random.choice(ready) if self._is_shuffled else ready[0]))

    def _run(self, future: TaskFuture) -> None:
        try:
            future.settle(self._repeated(future.task, [before.result() for before in future.after]))
        except Exception as error:
            future.set_exception(error)
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
