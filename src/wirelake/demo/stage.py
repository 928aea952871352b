"""What a live scene is played with: where to connect, how much to say, and when.

Chance comes of the seed: who does something again and again has a chance of its own, so that what is said is the same
in every run. Only how long things take is drawn in the order in which they happen, and times are those of the clock.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

BURST, SLOW, LULL = (0.20, 0.32), (0.40, 0.62), (0.68, 0.80)
"""Parts of the time in which there is more to do, in which a service is slow, in which there is little to do."""
MOST_RATE = 3.2
MOST_AT_ONCE = 150
"""Conversations under way at the same time; the next one waits, so that a slow machine is not buried."""
LATE_SECONDS = 10.0
"""Who is so late does nothing new."""


def rate(at: float) -> float:
    """How busy it is after this share of the time: charts should have a shape."""
    wave = 1 + 0.25 * math.sin(3 * math.pi * at)
    return wave * (2.4 if BURST[0] <= at < BURST[1] else 0.25 if LULL[0] <= at < LULL[1] else 1.0)


def slowness(at: float) -> float:
    """By how much the slow service is slower than usual: it gets worse, then better again."""
    begin, end = SLOW
    return 1 + 32 * math.sin(math.pi * (at - begin) / (end - begin)) if begin < at < end else 1.0


@dataclass
class Stage:
    """One scene's part of the time. ``messages``: about how many should be on the wire in the end."""

    url: str
    messages: int
    seconds: float
    seed: str
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def __post_init__(self) -> None:
        self._times = self.chance("times")

    def chance(self, name: str) -> Random:
        """The chance of one who does something."""
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
        """So often, spread over the time as the rate has it."""
        for number, moment in enumerate(_moments(count, chance)):
            await self.until(moment)
            if (self.at - moment) * self.seconds > LATE_SECONDS:
                return
            yield number

    async def work(self, milliseconds: float, spread: float = 0.4) -> None:
        """Takes about so long: mostly near that, sometimes much longer."""
        await asyncio.sleep(self._times.lognormvariate(math.log(milliseconds), spread) / 1000)


def _moments(count: int, chance: Random) -> list[float]:
    found: list[float] = []
    while len(found) < count:
        at = chance.random()
        if chance.random() * MOST_RATE < rate(at):
            found.append(0.02 + 0.94 * at)
    return sorted(found)


class Crowd:
    """Conversations that go on side by side; what goes wrong in one of them ends the scene."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def add(self, conversation: Coroutine[Any, Any, None]) -> None:
        """Begins it, when there is room."""
        try:
            await self._room.acquire()
        except BaseException:
            conversation.close()
            raise
        self._group.create_task(conversation).add_done_callback(lambda _: self._room.release())
