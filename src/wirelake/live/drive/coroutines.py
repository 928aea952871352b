"""Runs coroutines most of which end without having to wait: such ones share a task, instead of having one each.

A coroutine that waits keeps the task in which it began, so that it is alone in it from then on: what it does with its
task, such as a timeout, concerns nobody else. Each has a context of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from ..core.effects import Cancelled, Done, Effect, Failed, Result

Ended = Callable[[Effect, Result], None]


class Coroutines:
    """Those of one event loop. ``ended`` is called once for each, in a task."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Ended) -> None:
        self._loop = loop
        self._ended = ended
        self._waiting: deque[tuple[Effect, Coroutine[Any, Any, Any]]] = deque()
        self._running: dict[Effect, asyncio.Task[None]] = {}
        self._cancelled: set[Effect] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_seen_to = False
        """Whether a task is about to take what waits."""

    def start(self, effect: Effect, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._waiting.append((effect, coroutine))
        if not self._is_seen_to:
            self._see_to_it()

    def cancel(self, effect: Effect) -> None:
        """Take one back: it ends as Cancelled, unless it has its own view of that."""
        task = self._running.get(effect)
        if task is not None:
            task.cancel()
        elif any(waiting is effect for waiting, _ in self._waiting):
            self._cancelled.add(effect)

    def _see_to_it(self) -> None:
        self._is_seen_to = True
        task = self._loop.create_task(self._work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        self._loop.call_soon(self._look)  # when this has to wait, or has taken all
        task = asyncio.current_task()
        assert task is not None
        while self._waiting:
            effect, coroutine = self._waiting.popleft()
            if effect in self._cancelled:
                self._cancelled.discard(effect)
                coroutine.close()
                self._ended(effect, Cancelled())
                continue
            self._running[effect] = task
            try:
                result: Result = Done(await _Apart(coroutine))
            except asyncio.CancelledError:
                result = Cancelled()
            except Exception as error:
                result = Failed(error)
            del self._running[effect]
            self._ended(effect, result)
            if task.cancelling():
                await _forget_cancel(task)

    def _look(self) -> None:
        self._is_seen_to = False
        if self._waiting:
            self._see_to_it()


async def _forget_cancel(task: asyncio.Task[None]) -> None:
    """What was meant for one coroutine, which may have ended before it heard of it, is not for the next."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    while task.cancelling():
        task.uncancel()


class _Apart:
    """Awaits a coroutine in a context of its own."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        run, send, throw = copy_context().run, self._coroutine.send, self._coroutine.throw
        error: BaseException | None = None
        while True:
            try:
                awaited = run(send, None) if error is None else run(throw, error)
            except StopIteration as stop:
                return stop.value
            try:
                yield awaited
                error = None
            except BaseException as thrown:
                error = thrown
