"""The demonstration that goes on: traffic in rounds, and a stream that keeps a lake current with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

from ..ingest.follow import Batch, Followed, FollowSettings, Watcher, follow
from ..spark.runner import SparkRunner
from ..spark.start import SparkStart
from .live import Live

Say = Callable[[str], None]
POLL_SECONDS = 0.1


class Following(Watcher):
    """Traffic and stream, each in a thread of its own: ``start``, then ``end``.

    Only a fault makes one of them end by itself; ``end`` raises it.
    """

    def __init__(self, folder: Path, *, messages: int, seconds: float, seed: int, engine: SparkStart, say: Say) -> None:
        self.capture, self.lake = folder / "capture", folder / "lake"
        self.capture.mkdir(parents=True, exist_ok=True)
        self._live = Live(self.capture, messages=messages, seconds=seconds, seed=seed, is_repeated=True)
        self._engine, self._say = engine, say
        self._stop, self._failed = Event(), Event()
        self._first = Event()
        self._error: BaseException | None = None
        self._followed = Followed()
        self._telling: Thread | None = None
        self._stream = Thread(target=self._guarded, args=(self._follow,), name="wirelake-demo-stream", daemon=True)
        self._guard = Thread(target=self._guarded, args=(self._watch,), name="wirelake-demo-guard", daemon=True)

    def start(self) -> None:
        """Begin, and return when the first messages are in the lake. Raise whatever prevents that."""
        self._live.start()
        self._guard.start()
        self._stream.start()
        while not self._first.wait(POLL_SECONDS):
            if self._error is not None:
                raise self._error

    def when_failed(self, call: Callable[[], None]) -> None:
        """Call this, in another thread, when traffic or stream has ended by itself."""

        def wait() -> None:
            self._failed.wait()
            if not self._stop.is_set():
                call()

        self._telling = Thread(target=wait, name="wirelake-demo-failed", daemon=True)
        self._telling.start()

    def end(self) -> Followed:
        """End the traffic, then the stream; return what was streamed. Raise what went wrong."""
        self._stop.set()
        self._failed.set()  # a thread that still waited would keep DuckDB's objects, which then complain on the screen
        self._live.stop()
        for thread in (self._guard, self._stream, self._telling):
            if thread is not None and thread.ident is not None:
                thread.join()
        if self._error is not None:
            raise self._error
        return self._followed

    def batch(self, batch: Batch) -> None:
        if batch.report.messages:
            self._first.set()

    def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
        self._say(f"a step failed and is tried again: {error}")

    def note(self, text: str) -> None:
        self._say(text)

    def _follow(self) -> None:
        runner = SparkRunner(self._engine)
        self._followed = follow(
            runner, [str(self.capture)], str(self.lake), FollowSettings(), stop=self._stop, watcher=self
        )

    def _watch(self) -> None:
        while not self._live.wait(POLL_SECONDS):
            if self._stop.is_set():
                return
        self._live.result()  # raises what ended it

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            if self._stop.is_set():
                return
            self._error = self._error or error
            self._failed.set()
