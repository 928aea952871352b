"""Tasks on the cluster: run as they come, told about while they run, their results in order.

The driver may still be finding tasks when the first ones run. Two jobs are under way at most; the next takes what has
come together meanwhile, so that there are few of them, and the second has work for cores that the first leaves idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ..ingest.tasks import Failure, run_task

if TYPE_CHECKING:
    from pyspark import SparkContext

JOBS = 2
POLL_SECONDS = 0.1


class IngestError(RuntimeError):
    """What keeps an ingest from being done; says it in one line."""


class Progress(Protocol):
    """Told what is going on: ``stage`` begins something, ``add`` says how much of it is done."""

    def stage(self, name: str, total: int) -> None: ...

    def add(self, done: int) -> None: ...


class Jobs:
    """The tasks of one stage. ``add`` them, ``start`` when there is a cluster, then take the ``results``."""

    def __init__(self, name: str, progress: Progress) -> None:
        self._description = f"wirelake {name}"
        self._group = f"wirelake-{time.monotonic_ns()}"
        self._progress = progress
        self._tasks: list[Any] = []
        self._sizes: list[int] = []
        self._taken = 0
        self._is_complete = False
        self._results: dict[int, Any] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._context: SparkContext | None = None
        self._threads: list[Any] = []
        self._running = 0

    def add(self, task: Any, size: int = 1) -> None:
        with self._changed:
            self._tasks.append(task)
            self._sizes.append(size)
            self._changed.notify_all()

    def start(self, context: SparkContext) -> None:
        """From now on tasks run; does nothing if they do already."""
        if self._threads:
            return
        from pyspark import InheritableThread

        self._context = context
        self._running = JOBS
        self._threads = [InheritableThread(target=self._run, args=(context,), daemon=True) for _ in range(JOBS)]
        for thread in self._threads:
            thread.start()

    def results(self) -> list[Any]:
        """What the tasks tell, when all have; nothing can be added any more."""
        with self._changed:
            self._is_complete = True
            self._changed.notify_all()
        told = 0
        while self._running:
            told += self._tell(told)
            with self._changed:
                if self._running:
                    self._changed.wait(POLL_SECONDS)
        if self._error is not None:
            raise IngestError(f"Spark could not finish: {_first_line(self._error)}") from self._error
        self._progress.add(sum(self._sizes) - told)
        found = [self._results[i] for i in range(len(self._tasks))]
        for one in found:
            if isinstance(one, Failure):
                raise IngestError(one.text)
        return found

    def cancel(self) -> None:
        """Ends what runs; what it made is not looked at."""
        with self._changed:
            self._is_complete, self._taken = True, len(self._tasks)
            self._changed.notify_all()
        if self._context is not None:
            with suppress(Exception):  # it may be that very Spark that has failed
                self._context.cancelJobGroup(self._group)
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    # --- in threads

    def _run(self, context: SparkContext) -> None:
        context.setJobGroup(self._group, self._description)
        try:
            while numbers := self._next(context.defaultParallelism):
                tasks = [self._tasks[i] for i in numbers]
                found = context.parallelize(tasks, len(tasks)).map(run_task).collect()
                with self._changed:
                    self._results.update(zip(numbers, found, strict=True))
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _next(self, cores: int) -> list[int]:
        """The tasks of the next job, the largest first; none when all are taken."""
        with self._changed:
            while not self._is_complete and len(self._tasks) - self._taken < cores and self._error is None:
                self._changed.wait()
            if self._error is not None:
                return []
            start, self._taken = self._taken, len(self._tasks)
            return sorted(range(start, self._taken), key=lambda i: -self._sizes[i])

    def _tell(self, told: int) -> int:
        """Tells the progress; how much was new."""
        if self._context is None or not self._tasks:
            return 0
        tracker = self._context.statusTracker()
        done = sum(
            info.numCompletedTasks
            for job in tracker.getJobIdsForGroup(self._group)
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ())
            if (info := tracker.getStageInfo(stage)) is not None
        )
        new = max(done * sum(self._sizes) // len(self._tasks) - told, 0)
        if new:
            self._progress.add(new)
        return new


def run_all(
    context: SparkContext, name: str, tasks: Iterable[Any], progress: Progress, sizes: Iterable[int] = ()
) -> list[Any]:
    """What these tasks tell, in their order."""
    tasks = list(tasks)
    sizes = list(sizes) or [1] * len(tasks)
    if not tasks:
        return []
    progress.stage(name, sum(sizes))
    jobs = Jobs(name, progress)
    for task, size in zip(tasks, sizes, strict=True):
        jobs.add(task, size)
    jobs.start(context)
    return jobs.results()


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or [type(error).__name__])[-1].strip()
