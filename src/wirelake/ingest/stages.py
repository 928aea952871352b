"""Chains of tasks, one per sensor: handed to the runner, followed while they run, with progress over all of them.

A chain is a generator. It submits tasks, yields the futures that it waits for, and is sent their results.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from .runner import Runner, Task

Waiting = Sequence[Future[Any]]
Chain = Generator[Waiting, list[Any], None]
MOST_CHAINS = 4
"""Chains that are under way at once, for each core."""
INDEX, DECODE, GOLD, TOTALS = STAGES = ("index", "decode", "gold", "totals")


class Progress(Protocol):
    """``stage`` begins something, ``add`` says how much of it is done. By default nothing is shown."""

    def stage(self, name: str, total: int) -> None:
        return

    def add(self, done: int) -> None:
        return


class NoProgress(Progress):
    pass


@dataclass
class StageTimes:
    """What the tasks of a stage took: their number, the sum of their seconds, and from the first to the last."""

    tasks: int = 0
    seconds: float = 0.0
    began: float | None = None
    ended: float = 0.0

    @property
    def elapsed(self) -> float:
        return self.ended - self.began if self.began is not None else 0.0


@dataclass
class _Timed:
    """A task, and how long it took."""

    task: Task

    def run(self, *results: Any) -> tuple[Any, float]:
        began = time.perf_counter()
        return self.task.run(*results), time.perf_counter() - began


@dataclass
class Stages:
    """As a context it gets the runner ready, and cancels what runs when an exception passes."""

    runner: Runner
    progress: Progress
    times: dict[str, StageTimes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sizes: dict[Future[Any], tuple[str, int]] = {}
        self._done: dict[str, int] = {}
        self._total: dict[str, int] = {}
        self._shown = ""

    def __enter__(self) -> Stages:
        self.runner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.runner.cancel()

    def expect(self, stage: str, size: int) -> None:
        """Announce that a stage will have to do so much more."""
        self._total[stage] = self._total.get(stage, 0) + size
        self._show(stage, 0)

    def submit(self, stage: str, task: Task, size: int = 0) -> Future[Any]:
        """Hand a task to the runner. ``size`` is its share of what the stage has to do."""
        times = self.times.setdefault(stage, StageTimes())
        times.began = time.monotonic() if times.began is None else times.began
        # The index comes first: everything else waits for it.
        future = self.runner.submit(_Timed(task), priority=int(stage == INDEX))
        self._sizes[future] = stage, size
        return future

    def submit_all(self, stage: str, tasks: Sequence[Task], sizes: Iterable[int]) -> list[Future[Any]]:
        """Hand tasks to the runner, the largest first; return their futures in the order of the tasks."""
        listed = list(sizes)
        self.expect(stage, sum(listed))
        futures = {
            i: self.submit(stage, tasks[i], listed[i]) for i in sorted(range(len(tasks)), key=lambda i: -listed[i])
        }
        return [futures[i] for i in range(len(tasks))]

    def run(self, chains: Sequence[Chain]) -> None:
        """Run chains to their ends, some of them at the same time."""
        later = iter(chains)
        waiting: dict[Chain, Waiting] = {}
        while True:
            while len(waiting) < MOST_CHAINS * self.runner.parallelism and (chain := next(later, None)) is not None:
                self._go_on(chain, None, waiting)
            if not waiting:
                return
            open_futures = [future for futures in waiting.values() for future in futures if not future.done()]
            if open_futures:
                self.runner.first_done(open_futures)
            for chain, futures in list(waiting.items()):
                if all(future.done() for future in futures):
                    self._go_on(chain, [self._result(future) for future in futures], waiting)
                else:
                    _raise_failure(futures)

    def _go_on(self, chain: Chain, results: list[Any] | None, waiting: dict[Chain, Waiting]) -> None:
        waiting.pop(chain, None)
        try:
            waiting[chain] = next(chain) if results is None else chain.send(results)
        except StopIteration:
            return

    def _result(self, future: Future[Any]) -> Any:
        """Return the result of a task that is done; the first time, count it."""
        result, seconds = future.result()
        if future in self._sizes:
            stage, size = self._sizes.pop(future)
            times = self.times[stage]
            times.tasks, times.seconds, times.ended = times.tasks + 1, times.seconds + seconds, time.monotonic()
            self._done[stage] = self._done.get(stage, 0) + size
            self._show(stage, size)
        return result

    def _show(self, stage: str, size: int) -> None:
        """Show the first stage that is not done; never one that was shown before."""
        if stage == self._shown:
            self.progress.add(size)
        busy = [name for name in STAGES if self._done.get(name, 0) < self._total.get(name, 0)]
        if busy and (not self._shown or STAGES.index(busy[0]) > STAGES.index(self._shown)):
            self._shown = busy[0]
            self.progress.stage(self._shown, self._total[self._shown])
            self.progress.add(self._done.get(self._shown, 0))


def _raise_failure(futures: Waiting) -> None:
    for future in futures:
        if future.done() and (error := future.exception()) is not None:
            raise error
