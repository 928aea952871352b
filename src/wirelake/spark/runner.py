"""Tasks on a Spark cluster, each a job of its own: its result is there as soon as it is done.

A job costs the driver a few milliseconds, which other jobs hide, so that many small jobs take no longer than one large
one. A few more are under way than there are cores; then a core that is free finds its next task. The others wait here,
where the most urgent one can still pass them.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ..ingest.runner import IngestError, RunnerEnded, Task, TaskFuture
from ..ingest.warm_up import run_warm
from .session import SparkStartError
from .start import SparkStart
from .worker_python import translated

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

AHEAD = 2
"""Tasks under way beyond those that have a core."""
POLL_SECONDS = 0.1
DYING_SECONDS = 1.0
"""Between the end of a JVM's connections and its own."""


class SparkRunner:
    def __init__(self, spark: SparkStart) -> None:
        self._spark = spark
        self._group = f"wirelake-{time.monotonic_ns()}"
        self._changed = threading.Condition(threading.RLock())
        self._waiting: set[TaskFuture] = set()
        """Tasks that others must precede."""
        self._ready: list[tuple[int, int, TaskFuture]] = []
        """A heap: the most urgent task first, then the oldest."""
        self._numbers = itertools.count()
        self._slots: set[threading.Thread] = set()
        self._base: RDD[int] | None = None
        self.finished = 0
        spark.when_ended(self._open_slots)

    @property
    def parallelism(self) -> int:
        try:
            return int(self._context().defaultParallelism)
        except SparkStartError:
            raise
        except Exception as error:
            raise self._failure(error) from error

    def start(self) -> None:
        self._spark.start()

    def submit(self, task: Task, after: Sequence[Future[Any]] = (), priority: int = 0) -> Future[Any]:
        future = TaskFuture(task, after)
        with self._changed:
            self._waiting.add(future)
        self._spark.start()
        for before in after:
            before.add_done_callback(lambda _: self._consider(future, priority))
        self._consider(future, priority)
        return future

    def first_done(self, futures: Sequence[Future[Any]]) -> Future[Any]:
        done = wait(futures, return_when=FIRST_COMPLETED).done
        return next(future for future in futures if future in done)

    def cancel(self) -> None:
        with self._changed:
            dropped = [*self._waiting, *(future for _, _, future in self._ready)]
            self._waiting.clear()
            self._ready.clear()
            for future in dropped:
                future.cancel()
            while self._slots:  # a job that is being submitted right now can be cancelled only after that
                with suppress(Exception):  # it may be this very Spark that has failed
                    self._context().cancelJobGroup(self._group)
                self._changed.wait(POLL_SECONDS)

    def _context(self) -> SparkContext:
        return self._spark.context()

    # --- which task is next

    def _consider(self, future: TaskFuture, priority: int) -> None:
        """Let a task that need not wait any longer run soon."""
        with self._changed:
            if future in self._waiting and future.is_ready:
                self._waiting.remove(future)
                heapq.heappush(self._ready, (-priority, next(self._numbers), future))
                self._open_slots()

    def _next(self) -> TaskFuture | None:
        while self._ready:
            future = heapq.heappop(self._ready)[2]
            if future.set_running_or_notify_cancel() and not _fails_early(future):
                return future
        return None

    # --- jobs

    def _open_slots(self) -> None:
        """Begin to run tasks as far as there is room; if Spark has not started, they fail."""
        from pyspark import InheritableThread

        with self._changed:
            if not self._spark.is_ready:
                if self._spark.error is not None:
                    self._fail_all(self._spark.error)
                return
            while self._ready and len(self._slots) < self.parallelism + AHEAD and (future := self._next()):
                slot = InheritableThread(target=self._run_slot, args=(future,), daemon=True)
                self._slots.add(slot)
                slot.start()

    def _fail_all(self, error: BaseException) -> None:
        while (future := self._next()) is not None:
            future.set_exception(error)

    def _run_slot(self, first: TaskFuture) -> None:
        """Run one task after the other until none is ready."""
        future: TaskFuture | None = first
        while future is not None:
            self._run(future)
            with self._changed:
                future = self._next()
                if future is None:
                    self._slots.discard(threading.current_thread())
                    self._changed.notify_all()

    def _run(self, future: TaskFuture) -> None:
        try:
            results = [before.result() for before in future.after]
            (outcome,) = self._rdd(future.task).map(partial(run_warm, future.task, results)).collect()
        except BaseException as error:
            failure = self._failure(error)
            failure.__cause__ = error
            self._count()
            future.set_exception(failure)
        else:
            self._count()
            future.settle(outcome)

    def _failure(self, error: BaseException) -> IngestError:
        if self._spark.has_died(DYING_SECONDS):
            return RunnerEnded("the Java process of Spark is gone: it was killed, or had no memory left; start again")
        return IngestError(self._about_workers(error) or f"Spark could not finish: {_first_line(error)}")

    def _about_workers(self, error: BaseException) -> str | None:
        """Return what is wrong with the Python of the workers, if that is why a task failed."""
        return translated(self._context(), error) if self._spark.is_ready else None

    def _rdd(self, task: Task) -> RDD[int]:
        """One element in one partition, the same for all tasks: to make it costs more than a task."""
        context = self._context()
        context.setJobGroup(self._group, f"wirelake {type(task).__name__.removesuffix('Task').lower()}")
        with self._changed:
            if self._base is None:
                self._base = context.parallelize([0], 1)
            return self._base

    def _count(self) -> None:
        with self._changed:
            self.finished += 1


def _fails_early(future: TaskFuture) -> bool:
    """Whether a task that this one waited for has failed; then this one fails with its error."""
    error = next((error for before in future.after if (error := before.exception())), None)
    if error is not None:
        future.set_exception(error)
    return error is not None


def _first_line(error: BaseException) -> str:
    lines = [line for text in str(error).splitlines() if (line := text.strip()) and not line.startswith("at ")]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or [type(error).__name__])[-1]
