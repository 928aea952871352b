"""Functions that answer requests: plain ones at once, coroutines side by side, as many at a time as was said."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from .connection import Connection
from .inbox import MOST

log = logging.getLogger("wirelake.live")
Q = TypeVar("Q")

Handler = Callable[[Q], Any | Awaitable[Any]]
SIDE_BY_SIDE = 100


class Responder(Generic[Q]):
    """One handler on one pattern. Requests beyond ``concurrency`` wait; when many do, reading stops.

    ``answer`` is given the request with what the handler returned, or with what it raised.
    """

    def __init__(
        self,
        pattern: str,
        handler: Handler[Q],
        *,
        priority: float,
        concurrency: int,
        connection: Connection,
        answer: Callable[[Q, Any, Exception | None], None],
        on_close: Callable[[Responder[Q]], None],
    ) -> None:
        if concurrency < 1:
            raise ValueError("at least one request has to be handled at a time")
        self.pattern = pattern
        self.priority = priority
        self._handler = handler
        self._concurrency = concurrency
        self._connection = connection
        self._flow = connection.flow
        self._answer = answer
        self._on_close = on_close
        self._waiting: deque[tuple[Q, int]] = deque()
        self._size = 0
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Responder[Q]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Takes no more requests; waits until those that have come are answered."""
        self._on_close(self)
        while self._running or self._waiting:
            await asyncio.wait(list(self._running))
            await asyncio.sleep(0)

    def take(self, asked: Q, size: int) -> None:
        if len(self._running) < self._concurrency:
            self._begin(asked)
        else:
            self._waiting.append((asked, size))
            self._size += size
            self._flow.report(self, len(self._waiting), MOST, self._size)

    def _begin(self, asked: Q) -> None:
        try:
            result = self._handler(asked)
        except Exception as error:
            self._settle(asked, None, error)
            return
        if not inspect.isawaitable(result) and self._connection.has_room():
            self._settle(asked, result, None)
            return
        task = asyncio.ensure_future(self._wait(asked, result))
        self._running.add(task)
        task.add_done_callback(self._done)

    async def _wait(self, asked: Q, result: Any) -> None:
        """Waits for the handler, and until the answer can be written."""
        error = None
        try:
            result = await result if inspect.isawaitable(result) else result
        except Exception as failure:
            result, error = None, failure
        await self._connection.drained()
        self._settle(asked, result, error)

    def _settle(self, asked: Q, result: Any, error: Exception | None) -> None:
        """Also a result that cannot be written is a failure of the handler."""
        try:
            self._answer(asked, result, error)
        except Exception as failure:
            log.exception("an answer could not be given", extra={"fields": {"pattern": self.pattern}})
            if error is None:
                self._answer(asked, None, failure)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        while self._waiting and len(self._running) < self._concurrency:
            asked, size = self._waiting.popleft()
            self._size -= size
            self._begin(asked)
        self._flow.report(self, len(self._waiting), MOST, self._size)

    async def stop(self) -> None:
        """Ends what is being handled."""
        self._waiting.clear()
        self._flow.forget(self)
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
