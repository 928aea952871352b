"""Functions that answer requests: plain ones at once, coroutines side by side, as many at a time as was said."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..core.log import log
from .inbox import Inbox

if TYPE_CHECKING:
    from .client import Client

Q = TypeVar("Q")

Handler = Callable[[Q], Any | Awaitable[Any]]
SIDE_BY_SIDE = 100


class Responder(Generic[Q]):
    """One handler of a client on one pattern. Requests beyond ``concurrency`` wait; when many do, reading stops."""

    def __init__(
        self, client: Client[Any, Q], pattern: str, handler: Handler[Q], *, priority: float, concurrency: int
    ) -> None:
        if concurrency < 1:
            raise ValueError("at least one request has to be handled at a time")
        self.pattern = pattern
        self.priority = priority
        self._client = client
        self._handler = handler
        self._concurrency = concurrency
        self._connection = client._connection
        self._waiting: Inbox[Q] = Inbox(self._connection.flow)
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Responder[Q]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Takes no more requests; waits until those that have come are answered."""
        self._client._retire(self)
        while self._running or self._waiting:
            await asyncio.wait(list(self._running))
            await asyncio.sleep(0)

    def take(self, asked: Q, size: int) -> None:
        if len(self._running) < self._concurrency:
            self._begin(asked)
        else:
            self._waiting.put(asked, size)

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
            error = failure
        await self._connection.drained()
        self._settle(asked, result, error)

    def _settle(self, asked: Q, result: Any, error: Exception | None) -> None:
        """Also a result that cannot be written is a failure of the handler."""
        try:
            self._client._answer(asked, result, error)
        except Exception as failure:
            log.exception("an answer could not be given", pattern=self.pattern)
            if error is None:
                self._client._answer(asked, None, failure)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        while self._waiting and len(self._running) < self._concurrency:
            self._begin(self._waiting.pop())

    async def stop(self) -> None:
        self._waiting.discard()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
