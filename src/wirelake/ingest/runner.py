"""Who carries tasks out. The engine room hands tasks to a runner and asks the futures for their results.

Every runner keeps the same promises: a bounded number of tasks is under way, a task starts after those it
waits for, an attempt that failed is repeated (its files stay behind, but no commit names them), and an error that
concerns the user arrives as ``IngestError`` with one line of text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import CaptureError, LakeError, OptionError, WireError


class IngestError(RuntimeError):
    """What keeps an ingest from finishing, in one line."""


class RunnerEnded(IngestError):
    """What carried tasks out has ended: to try again in this process is no use."""


class LateCaptures(IngestError):
    """Captures that belong before others that were read already; ``sensors`` are theirs."""

    def __init__(self, text: str, sensors: Collection[str]) -> None:
        super().__init__(text)
        self.sensors = sensors


class CaptureFailed(IngestError):
    """A capture that cannot be decoded; ``capture`` is its path."""

    def __init__(self, text: str, capture: str) -> None:
        super().__init__(text)
        self.capture = capture


class Task(Protocol):
    """Reads its share, writes files on the side and returns what the driver must know: rows never pass through it.

    ``results`` are those of the tasks that it was submitted ``after``.
    """

    def run(self, *results: Any) -> Any: ...


class Runner(Protocol):
    """Tasks may be held back until somebody asks for a result: with ``result``, or with ``first_done``."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time."""
        ...

    @property
    def finished(self) -> int:
        """How many tasks are done."""
        ...

    def start(self) -> None:
        """Get ready in the background: tasks will come soon."""
        ...

    def submit(self, task: Task, after: Sequence[Future[Any]] = (), priority: int = 0) -> Future[Any]:
        """Have a task run once those before it are done; where many are ready, the highest priority is first."""
        ...

    def first_done(self, futures: Sequence[Future[Any]]) -> Future[Any]:
        """Wait until one of them is done, and return it."""
        ...

    def cancel(self) -> None:
        """Drop what has not started and end what runs. Returns when nothing runs any more."""
        ...


@dataclass(frozen=True)
class Failure:
    """An error for the user, as a value: it reaches the driver without a traceback around it."""

    text: str
    capture: str = ""
    """The path of the capture, if it is one that cannot be decoded."""

    def error(self) -> IngestError:
        return CaptureFailed(self.text, self.capture) if self.capture else IngestError(self.text)


def run_task(task: Task, results: Sequence[Any] = ()) -> Any:
    """Run a task; return its result, or a ``Failure``."""
    try:
        return task.run(*results)
    except CaptureError as error:
        return Failure(str(error), error.path)
    except (WireError, LakeError, OptionError, OSError) as error:
        return Failure(str(error))


class TaskFuture(Future[Any]):
    """A task in the queue of a runner, and what becomes of it. ``on_wait`` is called when somebody waits for that."""

    def __init__(
        self, task: Task, after: Sequence[Future[Any]], on_wait: Callable[[Future[Any]], None] = lambda _: None
    ) -> None:
        super().__init__()
        self.task = task
        self.after = tuple(after)
        self._on_wait = on_wait

    @property
    def is_ready(self) -> bool:
        """Whether all tasks are done that this one waits for."""
        return all(future.done() for future in self.after)

    def result(self, timeout: float | None = None) -> Any:
        if not self.done():
            self._on_wait(self)
        return super().result(timeout)

    def settle(self, outcome: Any) -> None:
        """Take what ``run_task`` returned."""
        if isinstance(outcome, Failure):
            self.set_exception(outcome.error())
        else:
            self.set_result(outcome)
