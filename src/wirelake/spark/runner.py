"""Tasks on a Spark cluster.

The driver may still be finding tasks when the first ones run, and Spark may still be starting when the first ones are
submitted. Two jobs are under way at most; the next takes all tasks that came together meanwhile: so there are few jobs,
and the second has tasks for cores that the first leaves idle.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..ingest.runner import IngestError, Task, TaskFuture, run_task
from ..ingest.warm_up import warm_up
from .start import SparkStart

if TYPE_CHECKING:
    from pyspark import SparkContext

JOBS = 2


class SparkRunner:
    def __init__(self, spark: SparkStart) -> None:
        self._spark = spark
        self._group = f"wirelake-{time.monotonic_ns()}"
        self._lock = threading.RLock()
        self._queue: list[TaskFuture] = []
        self._jobs: set[threading.Thread] = set()
        self._settled = 0

    @property
    def parallelism(self) -> int:
        return int(self._context().defaultParallelism)

    @property
    def finished(self) -> int:
        """Of jobs that run, by Spark's own count: their results come when the whole job is done."""
        if not self._jobs:
            return self._settled
        tracker = self._context().statusTracker()
        return self._settled + sum(
            info.numCompletedTasks
            for job in set(tracker.getActiveJobsIds()) & set(tracker.getJobIdsForGroup(self._group))
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ())
            if (info := tracker.getStageInfo(stage)) is not None
        )

    def start(self) -> None:
        self._spark.start()

    def submit(self, task: Task, after: Sequence[Future[Any]] = ()) -> Future[Any]:
        future = TaskFuture(task, after, self._flush)
        with self._lock:
            self._queue.append(future)
        if self._spark.is_ready:
            self._begin_jobs()
        return future

    def _flush(self, _: Future[Any]) -> None:
        """Somebody waits for a result: what is queued starts as soon as there is a Spark and room for a job."""
        with self._lock:
            for future in self._queue:
                future.is_urgent = True
        self._begin_jobs()

    def cancel(self) -> None:
        with self._lock:
            for future in self._queue:
                future.cancel()
            self._queue.clear()
            jobs = list(self._jobs)
        if jobs:
            with suppress(Exception):  # it may be this very Spark that has failed
                self._context().cancelJobGroup(self._group)
        for job in jobs:
            job.join()

    def _context(self) -> SparkContext:
        return self._spark.session().sparkContext

    # --- jobs

    def _begin_jobs(self) -> None:
        from pyspark import InheritableThread

        context = self._context()
        with self._lock:
            while len(self._jobs) < JOBS and (futures := self._next(context.defaultParallelism)):
                job = InheritableThread(target=self._run, args=(context, futures), daemon=True)
                self._jobs.add(job)
                job.start()

    def _next(self, cores: int) -> list[TaskFuture]:
        """The tasks of the next job: none as long as few are ready and nobody waits."""
        with self._lock:
            ready = [future for future in self._queue if future.is_ready]
            if len(ready) < cores and not any(future.is_urgent for future in ready):
                return []
            taken = set(ready)
            self._queue = [future for future in self._queue if future not in taken]
            return [future for future in ready if not _fails_early(future)]

    def _run(self, context: SparkContext, futures: list[TaskFuture]) -> None:
        while futures:
            self._run_job(context, futures)
            with self._lock:
                futures = self._next(context.defaultParallelism)
                if not futures:
                    self._jobs.discard(threading.current_thread())

    def _run_job(self, context: SparkContext, futures: list[TaskFuture]) -> None:
        kinds = sorted({type(future.task).__name__.removesuffix("Task").lower() for future in futures})
        try:
            context.setJobGroup(self._group, f"wirelake {', '.join(kinds)}")
            tasks = [(future.task, [before.result() for before in future.after]) for future in futures]
            outcomes = context.parallelize(tasks, len(tasks)).map(_run_in_worker).collect()
            with self._lock:
                self._settled += len(futures)
            for future, outcome in zip(futures, outcomes, strict=True):
                future.settle(outcome)
        except BaseException as error:
            failure = IngestError(f"Spark could not finish: {_first_line(error)}")
            failure.__cause__ = error
            for future in futures:
                future.set_exception(failure)


def _fails_early(future: TaskFuture) -> bool:
    """Whether a task that this one waited for has failed; then this one fails with its error."""
    error = next((error for before in future.after if (error := before.exception())), None)
    if error is not None:
        future.set_exception(error)
    return error is not None


def _run_in_worker(job: tuple[Task, Sequence[Any]]) -> Any:
    warm_up()
    return run_task(*job)


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or [type(error).__name__])[-1].strip()
