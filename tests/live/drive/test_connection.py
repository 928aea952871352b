"""When a client that lost its connection tries again."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.live.dsa.live import boiler_and_broker
from tests.live.live import run
from tests.waiting import until
from wirelake.live import dsa
from wirelake.live.drive.connection import Reconnect
from wirelake.live.dsa.api import RECONNECT


def delays(policy: Reconnect, count: int) -> list[float]:
    return [policy.delay(failures, random.Random(1)) for failures in range(count)]


def test_waits_double_or_grow_by_a_step_up_to_the_longest() -> None:
    assert delays(Reconnect(seconds=1, most_seconds=10, jitter=0), 6) == [1, 2, 4, 8, 10, 10]
    assert delays(Reconnect(seconds=1, most_seconds=4, jitter=0, step=1), 6) == [1, 2, 3, 4, 4, 4]
    assert delays(RECONNECT, 61)[:4] == [1, 2, 3, 4]
    assert delays(RECONNECT, 61)[-2:] == [60, 60]


@pytest.mark.parametrize(("settled_seconds", "failures"), [(60.0, [0, 1, 2]), (0.0, [0, 0, 0])])
def test_a_connection_that_was_short_counts_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, settled_seconds: float, failures: list[int]
) -> None:
    asked: list[int] = []

    def delay(self: Reconnect, count: int, chance: Any) -> float:
        asked.append(count)
        return 0.0

    monkeypatch.setattr(Reconnect, "delay", delay)

    async def main() -> None:
        policy = Reconnect(settled_seconds=settled_seconds)
        async with boiler_and_broker() as (live, _), dsa.connect(live.url(), reconnect=policy) as link:
            asked.clear()
            link._connection._lasted = 100.0
            for number in range(3):
                if number == 0:
                    link._connection._ready_at -= 1000.0  # this one was long
                pipe = link._connection._pipe
                assert pipe is not None
                pipe.transport.abort()
                await until(lambda pipe=pipe: link.is_connected and link._connection._pipe is not pipe)
            assert asked == failures
            await asyncio.sleep(0)

    run(main)
