"""What a live scene is played with: where to connect, how many messages to send, and when.

All randomness comes from the seed, a generator for each activity, so that every run sends the same messages. Only
service times are drawn in the order of events, and timestamps are those of the clock.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

BURST, SLOW, LULL = (0.20, 0.32), (0.40, 0.62), (0.68, 0.80)
"""Shares of the time with many requests, with a slow service, with few requests."""
MOST_RATE = 3.2
MOST_AT_ONCE = 150
"""Conversations in flight; the next one waits, so that a slow machine is not overloaded."""
LATE_SECONDS = 10.0
"""An activity that is this late starts nothing new."""
READ_SECONDS = 2.0
"""How long a client that breaks the rules waits for a reaction."""


def rate(at: float) -> float:
    """Return how busy it is after this share of the time, so that charts have a shape."""
    wave = 1 + 0.25 * math.sin(3 * math.pi * at)
    return wave * (2.4 if BURST[0] <= at < BURST[1] else 0.25 if LULL[0] <= at < LULL[1] else 1.0)


def slowness(at: float) -> float:
    """Return by how much the slow service is slower than usual: it gets worse, then better again."""
    begin, end = SLOW
    return 1 + 32 * math.sin(math.pi * (at - begin) / (end - begin)) if begin < at < end else 1.0


Tap = Callable[[str], Awaitable[str]]


@dataclass
class Stage:
    """The time of one scene. ``messages``: about how many it puts on the wire. ``tap`` records what goes to another
    server of the scene, too: given its address, it returns the URL to connect to instead.
    """

    url: str
    messages: int
    seconds: float
    seed: str
    tap: Tap
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def __post_init__(self) -> None:
        self._times = self.chance("times")

    def chance(self, name: str) -> Random:
        """Return the random generator of one activity."""
        return Random(f"{self.seed} {name}")

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.partition("://")[2].rpartition(":")
        return host, int(port)

    @property
    def at(self) -> float:
        """The share of the time that has passed."""
        return (asyncio.get_running_loop().time() - self.began) / self.seconds

    async def until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, (at - self.at) * self.seconds))

    async def beats(self, count: int, chance: Random) -> AsyncIterator[int]:
        """Yield ``count`` times, spread over the time by ``rate``."""
        for number, moment in enumerate(_moments(count, chance)):
            await self.until(moment)
            if (self.at - moment) * self.seconds > LATE_SECONDS:
                return
            yield number

    async def take_time(self, milliseconds: float, spread: float = 0.4) -> None:
        """Wait about so long: mostly near that, sometimes much longer."""
        await asyncio.sleep(self._times.lognormvariate(math.log(milliseconds), spread) / 1000)


Part = Callable[[Stage], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Scene:
    """What is played live in one protocol: parts that run at the same time, and what the hub must be set to."""

    parts: tuple[Part, ...]
    hub_settings: Mapping[str, Any] = field(default_factory=dict)


def _moments(count: int, chance: Random) -> list[float]:
    moments: list[float] = []
    while len(moments) < count:
        at = chance.random()
        if chance.random() * MOST_RATE < rate(at):
            moments.append(0.02 + 0.94 * at)
    return sorted(moments)


class Crowd:
    """Conversations that run concurrently; an error in one of them ends the scene."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def add(self, conversation: Coroutine[Any, Any, None]) -> None:
        """Start it when there is room."""
        try:
            await self._room.acquire()
        except BaseException:
            conversation.close()
            raise
        self._group.create_task(conversation).add_done_callback(lambda _: self._room.release())


async def drop_messages(stack: AsyncExitStack, subscription: AbstractAsyncContextManager[AsyncIterator[Any]]) -> None:
    """Subscribe, and drop what comes, until the stack is closed."""
    messages = await stack.enter_async_context(subscription)

    async def read() -> None:
        async for _ in messages:
            pass

    stack.callback(asyncio.create_task(read()).cancel)


class RawConnection:
    """A plain socket, for clients that break the rules: it sends what no client of ours would send."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes; the peer may have closed already."""
        with suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def receive(self) -> bytes:
        """Return what comes next; nothing if nothing comes in time, or the peer has closed."""
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(READ_SECONDS):
                return await self._reader.read(1 << 16)
        return b""


@asynccontextmanager
async def raw_connection(stage: Stage) -> AsyncIterator[RawConnection]:
    reader, writer = await asyncio.open_connection(*stage.address)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
