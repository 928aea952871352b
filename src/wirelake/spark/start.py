"""A Spark that starts while something else is done.

Whoever needs it may also end it for certain: the JVM is waited for, so that nothing of it is left, not even if it was
interrupted while it started.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from subprocess import Popen, TimeoutExpired
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from ..ingest.compile_kernels import compile_kernels
from ..ingest.warm_up import warm_up
from .session import context_of, is_ours_to_start
from .worker_python import check_workers

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.05
BEGIN_SECONDS = 2.0
"""A thread that has not begun by then never will: its start was interrupted."""
END_SECONDS = 10.0
KNOWN_SECONDS = 3.0
"""How long a JVM may take until it replies, where somebody is in a hurry."""


class SparkStart:
    """A context, or a session, that a function makes, in a thread from ``start`` on. One that was there before is used
    as it is, and not ended. With ``warm`` its workers load and compile what tasks need before it counts as ready.
    """

    def __init__(self, make: Callable[[], SparkSession | SparkContext], *, warm: bool = False) -> None:
        self._make = make
        self._warm = warm
        self._is_ours = is_ours_to_start()
        self._context: SparkContext | None = None
        self._error: BaseException | None = None
        self._is_started = False
        self._begun, self._ended = Event(), Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = Lock()
        self._thread = Thread(target=self._run, name="wirelake-spark", daemon=True)

    @classmethod
    def of(cls, spark: SparkSession | SparkContext | Callable[[], SparkSession | SparkContext]) -> SparkStart:
        """For a Spark that runs already, or a function that starts one."""
        if callable(spark):
            return cls(spark)
        made = cls(lambda: spark)
        made._is_started, made._context = True, context_of(spark)
        check_workers(made._context)
        made._begun.set()
        made._ended.set()
        return made

    def start(self) -> None:
        """Begin; does nothing the second time."""
        if not self._is_started:
            self._is_started = True
            self._thread.start()

    @property
    def is_ready(self) -> bool:
        return self._context is not None

    @property
    def error(self) -> BaseException | None:
        """Why it did not start."""
        return self._error

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Call this once it is ready or has failed: at once, or in the thread that starts it."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def has_died(self, seconds: float = 0.0) -> bool:
        """Return whether the JVM is gone, although nobody ended it; wait so long for that."""
        process = _process()
        if process is None or not self.is_ready:
            return False
        with suppress(TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None

    def wait_until_up(self) -> None:
        """Wait until a JVM replies: whatever is wrong with an installation shows by then."""
        if self._is_ours:
            self._wait_for_process(math.inf)
        if self._error is not None:
            raise self._error

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it is ready, or has failed, after this time at most."""
        return not self._is_busy() or self._ended.wait(seconds)

    def context(self) -> SparkContext:
        """The context; starts it if need be, and waits for it."""
        self.start()
        self._ended.wait()
        if self._error is not None:
            raise self._error
        assert self._context is not None
        return self._context

    def end(self) -> None:
        """End Spark, in whatever state it is, and wait for that."""
        if not self._is_ours:
            self.wait()
            return
        self._wait_for_process(math.inf)
        if self._context is not None:
            with suppress(Exception):  # it may have failed itself
                self._context.stop()
        process = _process()
        if process is not None:
            process.terminate()
            with suppress(TimeoutExpired):
                process.wait(END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End it at once, if it is not over yet. May be called again and again, also in a signal handler."""
        if not self._is_ours:
            return
        self._wait_for_process(KNOWN_SECONDS)
        process = _process()
        if process is not None:
            process.kill()
            with suppress(TimeoutExpired):  # in a signal handler, the interrupted code may hold what this waits for
                process.wait(KNOWN_SECONDS)
            if process.stdin is not None:
                process.stdin.close()
            _forget()
        if self._is_busy():
            self._ended.wait(KNOWN_SECONDS)

    def _is_busy(self) -> bool:
        return self._is_started and self._begun.wait(BEGIN_SECONDS) and not self._ended.is_set()

    def _wait_for_process(self, seconds: float) -> None:
        """Wait until the JVM can be told to end, if there will be one: while it starts nobody knows it."""
        deadline = time.monotonic() + seconds
        while self._is_busy() and _process() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _run(self) -> None:
        self._begun.set()
        try:
            context = context_of(self._make())
            check_workers(context)
            if self._warm:
                _warm_workers(context)
            self._context = context
        except BaseException as error:
            self._error = error
        finally:
            with self._lock:
                self._ended.set()
            for callback in self._callbacks:
                callback()


def _warm_workers(context: SparkContext) -> None:
    """One worker compiles what is not compiled yet, then all load it, so that the first ingest need not."""
    context.parallelize([0], 1).map(lambda _: compile_kernels()).count()
    cores = context.defaultParallelism
    context.parallelize(range(cores), cores).foreach(lambda _: warm_up())


def _process() -> Popen[bytes] | None:
    """The JVM, if there is one in this process's care."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process: Popen[bytes] | None = getattr(gateway, "proc", None)
    return process


def _forget() -> None:
    """Lets another session start in this process some day."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
