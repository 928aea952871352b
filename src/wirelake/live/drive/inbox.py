"""What has come and waits for the application, within bounds: a slow one stops the reading, or loses the oldest."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .pipe import APPLICATION, Pipe

M = TypeVar("M")

MOST = 1000
"""Messages that wait before reading stops."""
URGENT_BYTES = 16 << 20
"""So much may wait while an answer is awaited, which can only come if reading goes on."""


class Flow:
    """Stops reading from a connection while an inbox is full.

    As long as the application waits for an answer, reading goes on until ``URGENT_BYTES`` wait: a loop over messages
    that asks a question for each of them would otherwise wait for an answer that cannot come.
    """

    def __init__(self, is_urgent: Callable[[], bool]) -> None:
        self._is_urgent = is_urgent
        self._full: dict[Any, bool] = {}
        self._pipe: Pipe | None = None
        self.is_stopped = False

    def attach(self, pipe: Pipe | None) -> None:
        """There is another connection, or none."""
        self._pipe = pipe
        self.is_stopped = False
        self.settle()

    def open(self) -> None:
        """Goes on reading, whatever waits: the end is near, and has to be seen."""
        self._full.clear()
        self.settle()

    def report(self, reader: Any, waiting: int, most: int, size: int) -> None:
        """How much waits there: messages, and their bytes."""
        if waiting >= most:
            self._full[reader] = size >= URGENT_BYTES
            self.settle()
        elif reader in self._full and waiting <= most // 2:
            self.forget(reader)

    def forget(self, reader: Any) -> None:
        if self._full.pop(reader, None) is not None:
            self.settle()

    def settle(self) -> None:
        stop = bool(self._full) and (any(self._full.values()) or not self._is_urgent())
        if self._pipe is not None and stop != self.is_stopped:
            self.is_stopped = stop
            (self._pipe.stop if stop else self._pipe.go)(APPLICATION)


class Inbox(Generic[M]):
    """Messages in the order in which they came, for one reader."""

    def __init__(self, flow: Flow, most: int = MOST, *, drops: bool = False) -> None:
        if most < 1:
            raise ValueError("at least one message has to fit")
        self._flow = flow
        self._most = most
        self._drops = drops
        self._waiting: deque[tuple[M, int]] = deque()
        self._size = 0
        self._reader: asyncio.Future[None] | None = None
        self._end: BaseException | None = None
        """What the reader gets when nothing more comes."""
        self.dropped = 0
        """How many messages were lost because nobody took them in time."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: M, size: int = 0) -> None:
        if self._end is not None:
            return
        self._waiting.append((message, size))
        self._size += size
        if len(self._waiting) >= self._most:
            if not self._drops:
                self._flow.report(self, len(self._waiting), self._most, self._size)
            elif len(self._waiting) > self._most:
                self._size -= self._waiting.popleft()[1]
                self.dropped += 1
        self._wake()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more comes: the reader gets what is there, and then the end, or the error."""
        if self._end is None:
            self._end = error or StopAsyncIteration()
            self._wake()

    def discard(self) -> None:
        self.end()
        self._waiting.clear()
        self._flow.forget(self)

    async def get(self) -> M:
        """The next message. StopAsyncIteration at the end."""
        while not self._waiting:
            if self._end is not None:
                raise self._end
            if self._reader is not None:
                raise RuntimeError("somebody else reads these messages already")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self.pop()

    def pop(self) -> M:
        """Take out the next message, which is there."""
        message, size = self._waiting.popleft()
        self._size -= size
        self._flow.report(self, len(self._waiting), self._most, self._size)
        return message

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
