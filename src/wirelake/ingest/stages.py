"""The tasks of a step, stage by stage: handed to the runner, followed while they run, their results in order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from .runner import Runner, Task

POLL_SECONDS = 0.1


class Progress(Protocol):
    """``stage`` begins something, ``add`` says how much of it is done. By default nothing is shown."""

    def stage(self, name: str, total: int) -> None:
        return

    def add(self, done: int) -> None:
        return


class NoProgress(Progress):
    pass


class Stages:
    """As a context it gets the runner ready, and cancels what runs when an exception passes."""

    def __init__(self, runner: Runner, progress: Progress) -> None:
        self.runner = runner
        self.progress = progress
        self._before = runner.finished
        """How many tasks the stages so far had."""

    def __enter__(self) -> Stages:
        self.runner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.runner.cancel()

    def run(self, name: str, tasks: Sequence[Task], sizes: Iterable[int] = ()) -> list[Any]:
        """Run a stage; return the results in the order of the tasks."""
        sizes = list(sizes) or [1] * len(tasks)
        largest_first = sorted(range(len(tasks)), key=lambda i: -sizes[i])
        futures = {i: self.runner.submit(tasks[i]) for i in largest_first}
        return self.results(name, [futures[i] for i in range(len(tasks))], sizes) if tasks else []

    def results(self, name: str, futures: Sequence[Future[Any]], sizes: Sequence[int]) -> list[Any]:
        """Return the results of a stage whose tasks are submitted already."""
        total, shown, looked_at = sum(sizes), 0, time.monotonic()
        self.progress.stage(name, total)
        results = []
        for future in futures:
            while not _is_done(future) or time.monotonic() - looked_at > POLL_SECONDS:
                shown, looked_at = self._show(shown, total, len(futures)), time.monotonic()
            results.append(future.result())
        self.progress.add(total - shown)
        self._before += len(futures)
        return results

    def _show(self, shown: int, total: int, tasks: int) -> int:
        """Report the progress; return how much has been reported."""
        done = min(self.runner.finished - self._before, tasks) * total // tasks
        if done > shown:
            self.progress.add(done - shown)
        return max(done, shown)


def _is_done(future: Future[Any]) -> bool:
    try:
        future.result(POLL_SECONDS)
    except TimeoutError:
        return False
    return True
