"""Waiting for a condition, for at most so long: what tests do instead of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

POLL_SECONDS = 0.01


def wait_until(condition: Callable[[], object], seconds: float = 20.0, tell: Callable[[], object] = lambda: "") -> None:
    """Return as soon as the condition holds; fail with what ``tell`` says if it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"nothing happened within {seconds:g} s: {tell()}"
        time.sleep(POLL_SECONDS)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Return as soon as the condition holds, while the event loop runs on; TimeoutError if it does not in time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(POLL_SECONDS)
