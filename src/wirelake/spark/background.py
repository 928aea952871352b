"""A Spark that starts while something else is done, and that has surely ended when its user goes on.

A session of Spark is left to end with its process elsewhere. Here its JVM is waited for, so that nothing of it is there
any more afterwards, not even if it was interrupted while it started.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from subprocess import Popen, TimeoutExpired
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from ..ingest.compile_kernels import compile_kernels
from ..ingest.warm_up import warm_up
from .session import _is_ours_to_start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_SECONDS = 0.05
BEGIN_SECONDS = 2.0
"""A thread that has not begun by then never will: its start was interrupted."""
END_SECONDS = 10.0
KNOWN_SECONDS = 3.0
"""How long a JVM may take until it answers, where somebody is in a hurry."""


class Background:
    """Starts a session in a thread. One that was there before is used as it is, and not ended."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._is_ours = _is_ours_to_start()
        self._made: SparkSession | None = None
        self._error: BaseException | None = None
        self._is_started = False
        self._begun, self._ended = Event(), Event()
        self._thread = Thread(target=self._run, name="wirelake-spark", daemon=True)

    def start(self) -> None:
        self._is_started = True
        self._thread.start()

    def until_up(self) -> None:
        """Waits until there is a JVM that answers: what can be wrong with an installation shows by then."""
        if self._is_ours:
            self._until_known(math.inf)
        if self._error is not None:
            raise self._error

    def wait(self, seconds: float) -> bool:
        """Whether it is ready, or has failed, after so long at most."""
        return self._ended.wait(seconds)

    def session(self) -> SparkSession:
        """The session; waits for it."""
        self._ended.wait()
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made

    def end(self) -> None:
        """Ends Spark, in whatever state it is, and waits for it."""
        if not self._is_ours:
            if self._is_busy():
                self._ended.wait()
            return
        self._until_known(math.inf)
        if self._made is not None:
            with suppress(Exception):  # it may have failed itself
                self._made.stop()
        process = _process()
        if process is not None:
            process.terminate()
            with suppress(TimeoutExpired):
                process.wait(END_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Ends it at once, if it is not over yet. It may be called again and again, also in a signal handler."""
        if not self._is_ours:
            return
        self._until_known(KNOWN_SECONDS)
        process = _process()
        if process is not None:
            process.kill()
            with suppress(TimeoutExpired):  # without a limit it would wait for whom it has interrupted
                process.wait(KNOWN_SECONDS)
            if process.stdin is not None:
                process.stdin.close()
            _forget()
        if self._is_busy():
            self._ended.wait(KNOWN_SECONDS)

    def _is_busy(self) -> bool:
        return self._is_started and self._begun.wait(BEGIN_SECONDS) and not self._ended.is_set()

    def _until_known(self, seconds: float) -> None:
        """Waits until the JVM can be told to end, if there will be one: while it starts nobody knows it."""
        deadline = time.monotonic() + seconds
        while self._is_busy() and _process() is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _run(self) -> None:
        self._begun.set()
        try:
            made = self._start()
            _make_ready(made)
            self._made = made
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()


def _make_ready(spark: SparkSession) -> None:
    """Workers load what they need, one compiles what is not compiled yet, so that the first ingest need not."""
    context = spark.sparkContext
    context.parallelize([0], 1).foreach(_rehearse)
    cores = context.defaultParallelism
    context.parallelize(range(cores), cores).foreach(_load)


def _rehearse(_: int) -> None:
    compile_kernels()


def _load(_: int) -> None:
    warm_up()


def _process() -> Popen[bytes] | None:
    """The JVM, if there is one in this process's care."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    found: Popen[bytes] | None = getattr(gateway, "proc", None)
    return found


def _forget() -> None:
    """Lets another session start in this process some day."""
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
