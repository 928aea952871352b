"""Who carries out what is to be stored: the event loop itself while the disk is quick, and else a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tests.live.toy import run
from wirelake.live.core.effects import Done, Effect, Result, Store
from wirelake.live.drive import writer as writer_module
from wirelake.live.drive.writer import QUICK_BATCHES, Writer


class Seen:
    """A storage that notes its batches, and whether each came in the thread of the event loop."""

    def __init__(self, *, is_local: bool = True) -> None:
        self.is_local = is_local
        self.batches: list[list[Any]] = []
        self.is_here: list[bool] = []

    def run(self, requests: Sequence[Any]) -> list[Done]:
        self.batches.append(list(requests))
        self.is_here.append(threading.current_thread() is threading.main_thread())
        return [Done(request) for request in requests]

    def run_at_once(self, requests: Sequence[Any]) -> list[Done] | None:
        return self.run(requests) if self.is_local else None

    def close(self) -> None:
        self.batches.append(["closed"])


async def ended(writer: Writer, *stores: Store) -> list[Any]:
    """Submit stores, and return their results when they have ended."""
    results: list[tuple[Effect, Result]] = []
    writer.submit(stores, results.extend)
    await writer._idle.wait()
    return [result for _, result in results]


@pytest.fixture(autouse=True)
def any_disk_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "QUICK_SECONDS", 60.0)


def test_a_quick_disk_needs_no_thread() -> None:
    async def main() -> None:
        storage = Seen()
        writer = Writer(storage)
        for number in range(QUICK_BATCHES + 3):
            assert await ended(writer, Store(number)) == [Done(number)]
        await writer.close()
        assert storage.is_here == [False] * QUICK_BATCHES + [True] * 3

    run(main)


def test_a_disk_that_is_slow_once_has_to_be_quick_for_a_while_before_others_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        storage = Seen()
        writer = Writer(storage)
        for number in range(QUICK_BATCHES):
            await ended(writer, Store(number))
        monkeypatch.setattr(writer_module, "QUICK_SECONDS", 0.0)
        await ended(writer, Store("slow"))
        monkeypatch.setattr(writer_module, "QUICK_SECONDS", 60.0)
        for number in range(QUICK_BATCHES + 1):
            await ended(writer, Store(number))
        await writer.close()
        assert storage.is_here[QUICK_BATCHES:] == [True, *[False] * QUICK_BATCHES, True]

    run(main)


def test_what_takes_long_has_the_thread_however_quick_the_disk_is() -> None:
    async def main() -> None:
        storage = Seen()
        writer = Writer(storage)
        for number in range(QUICK_BATCHES):
            await ended(writer, Store(number))
        assert await ended(writer, Store("short"), Store("long", is_long=True)) == [Done("short"), Done("long")]
        await writer.close()
        assert storage.is_here[QUICK_BATCHES:] == [False]

    run(main)


def test_a_storage_that_is_elsewhere_always_has_the_thread() -> None:
    async def main() -> None:
        storage = Seen(is_local=False)
        writer = Writer(storage)
        for number in range(QUICK_BATCHES * 2):
            await ended(writer, Store(number))
        await writer.close()
        assert not any(storage.is_here)

    run(main)


def test_what_is_wanted_when_a_batch_ends_and_what_comes_meanwhile_are_the_next_batch() -> None:
    async def main() -> None:
        storage = Seen()
        writer = Writer(storage)
        for number in range(QUICK_BATCHES):
            await ended(writer, Store(number))
        storage.batches.clear()
        loop = asyncio.get_running_loop()

        def finish(stores: Sequence[tuple[Store, Result]]) -> None:
            writer.submit([Store("follows")], lambda ended: None)
            loop.call_soon(lambda: writer.submit([Store("comes")], lambda ended: None))

        writer.submit([Store("first")], finish)
        await writer.close()
        assert storage.batches == [["first"], ["follows", "comes"], ["closed"]]

    run(main)
