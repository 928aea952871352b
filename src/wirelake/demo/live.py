"""The live part: a hub, a tap in front of it, and scenes that are played through the tap.

It runs in a thread with its own event loop, so that Spark can start meanwhile and the part can be stopped at any
moment; it leaves no connection, no port and no half-written file behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from ..live.core.address import parse_address, show_address
from ..live.hub.hub import Hub, HubSettings, read_settings
from ..live.tap.proxy import Proxy
from ..live.tap.recorder import Recorder
from .scenes import SCENES
from .stage import Stage

DRAIN_SECONDS = 1.0
BEGIN_SECONDS = 2.0
"""A thread that has not begun by then never will: its start was interrupted."""


class Played(NamedTuple):
    """When it began, and what the tap recorded."""

    began_us: int
    seconds: float
    connections: int
    recorded: int


def hub_settings() -> HubSettings:
    """Return settings with every listener on a free port of loopback."""
    tables: dict[str, Any] = {
        **{name: {"tcp": "127.0.0.1:0", **scene.hub_settings} for name, scene in SCENES.items()},
        "shutdown": {"drain_seconds": DRAIN_SECONDS},
    }
    return read_settings(tables, "demo", Path())


async def perform(recorder: Recorder, *, messages: int, seconds: float, seed: int, begun: Callable[[], None]) -> Played:
    """Play all scenes at the same time, and record them."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(Hub(hub_settings()))
        proxies: list[Proxy] = []

        async def tap(name: str, address: str) -> str:
            proxy = Proxy(("127.0.0.1", 0), parse_address(address), recorder, protocol=name)
            await proxy.start()
            stack.push_async_callback(proxy.stop, DRAIN_SECONDS)
            proxies.append(proxy)
            return f"{name}://{show_address(proxy.listening[0])}"

        urls = {name: await tap(name, hub.listening[name]) for name in SCENES}
        began_us = time.time_ns() // 1000
        begun()
        async with asyncio.TaskGroup() as group:
            for name, scene in SCENES.items():
                for number, part in enumerate(scene.parts):
                    share = messages // len(SCENES)
                    stage = Stage(urls[name], share, seconds, f"{seed} {name} {number}", partial(tap, name))
                    group.create_task(part(stage))
    took = time.time_ns() / 1e9 - began_us / 1e6
    return Played(began_us, took, sum(proxy.counts["connections"] for proxy in proxies), recorder.recorded)


class Live:
    """The live part in a thread: ``start``, then ``wait`` until it is over, or ``stop`` it.

    ``is_repeated``: play it again and again, each time with the next seed.
    """

    def __init__(self, directory: Path, *, messages: int, seconds: float, seed: int, is_repeated: bool = False) -> None:
        self._perform = partial(perform, messages=messages, seconds=seconds, begun=self._begin)
        self._directory, self._seed, self._is_repeated = directory, seed, is_repeated
        self._began = 0.0
        self._is_started = False
        self._begun, self._has_task = Event(), Event()
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[Played] | None = None
        self._result: Future[Played] = Future()
        self._thread = Thread(target=self._run, name="wirelake-demo-live", daemon=True)

    @property
    def passed(self) -> float:
        """Seconds since the first scene began."""
        return time.monotonic() - self._began if self._began else 0.0

    def start(self) -> None:
        self._is_started = True
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; return whether it is over."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self) -> Played:
        """Return what was played, once it is over; raise what went wrong."""
        return self._result.result()

    def stop(self) -> None:
        """Stop it, and wait until everything is closed."""
        if self._is_started and self._begun.wait(BEGIN_SECONDS):
            self._has_task.wait()
            if self._task is not None:
                with suppress(RuntimeError):  # it has ended meanwhile
                    self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()

    def _run(self) -> None:
        self._begun.set()
        try:
            with asyncio.Runner() as runner:
                self._result.set_result(runner.run(self._main()))
        except BaseException as error:
            self._result.set_exception(_plain(error))
        finally:
            self._has_task.set()

    async def _main(self) -> Played:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._has_task.set()
        recorder = Recorder(self._directory)
        try:
            recorder.start()
            played = await self._perform(recorder, seed=self._seed)
            while self._is_repeated:  # each time with another hub, as if the systems were restarted
                self._seed += 1
                played = await self._perform(recorder, seed=self._seed)
            return played
        finally:
            recorder.end()

    def _begin(self) -> None:
        self._began = time.monotonic()


def _plain(error: BaseException) -> BaseException:
    """Return the first of several concurrent errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
