from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.waiting import until
from wirelake.live.core.effects import Call, Cancelled, Done, Effect, Failed, Result
from wirelake.live.drive.coroutines import Coroutines

VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)


class Running:
    """Coroutines, and how they ended, in that order."""

    def __init__(self) -> None:
        self.ended: list[tuple[Effect, Result]] = []
        self._coroutines = Coroutines(asyncio.get_running_loop(), lambda *ended: self.ended.append(ended))

    def start(self, function: Callable[[], Any]) -> Effect:
        effect = Call(function, None)
        self._coroutines.start(effect, function())
        return effect

    def cancel(self, effect: Effect) -> None:
        self._coroutines.cancel(effect)

    async def results(self, count: int) -> list[Result]:
        await until(lambda: len(self.ended) >= count)
        return [result for _, result in self.ended]


def run(test: Callable[[Running], Awaitable[None]]) -> None:
    async def inside() -> None:
        await test(Running())

    asyncio.run(inside())


def test_those_that_do_not_wait_share_a_task_and_end_in_their_order() -> None:
    async def test(running: Running) -> None:
        async def one() -> Any:
            return asyncio.current_task()

        for _ in range(10):
            running.start(one)
        results = await running.results(10)
        assert len(set(results)) == 1 and isinstance(results[0], Done)

    run(test)


def test_one_that_waits_keeps_nobody_from_running_and_is_alone_in_its_task() -> None:
    async def test(running: Running) -> None:
        go_on = asyncio.Event()

        async def waits() -> Any:
            before = asyncio.current_task()
            await go_on.wait()
            assert asyncio.current_task() is before
            return before

        async def quick() -> str:
            return "quick"

        effects = [running.start(function) for function in (waits, quick, waits, quick)]
        assert await running.results(2) == [Done("quick")] * 2
        go_on.set()
        await running.results(4)
        ended = dict(running.ended)
        assert ended[effects[0]] != ended[effects[2]], "two tasks"

    run(test)


def test_an_error_is_that_of_its_own() -> None:
    async def test(running: Running) -> None:
        error = ValueError("no")

        async def fails() -> None:
            raise error

        async def fine() -> int:
            return 1

        for function in (fine, fails, fine):
            running.start(function)
        assert await running.results(3) == [Done(1), Failed(error), Done(1)]

    run(test)


def test_each_has_a_context_of_its_own_before_and_after_it_waits() -> None:
    async def test(running: Running) -> None:
        async def sets() -> int:
            VARIABLE.set(VARIABLE.get() + 1)
            await asyncio.sleep(0)
            VARIABLE.set(VARIABLE.get() + 1)
            return VARIABLE.get()

        for _ in range(3):
            running.start(sets)
        assert await running.results(3) == [Done(2)] * 3 and VARIABLE.get() == 0

    run(test)


@pytest.mark.parametrize("has_begun", [False, True])
def test_one_is_taken_back_and_no_other(has_begun: bool) -> None:
    async def test(running: Running) -> None:
        begun = asyncio.Event()

        async def waits() -> None:
            begun.set()
            await asyncio.Event().wait()

        async def later() -> str:
            await asyncio.sleep(0)
            return "later"

        effects = [running.start(waits), running.start(later)]
        if has_begun:
            await begun.wait()
        running.cancel(effects[0])
        await running.results(2)
        assert dict(running.ended) == {effects[0]: Cancelled(), effects[1]: Done("later")}

    run(test)


def test_a_cancel_that_comes_too_late_does_not_reach_the_next() -> None:
    async def test(running: Running) -> None:
        effects: list[Effect] = []

        async def takes_itself_back() -> int:
            running.cancel(effects[0])
            return 1

        async def next_one() -> int:
            await asyncio.sleep(0)
            return 2

        effects += [running.start(takes_itself_back), running.start(next_one)]
        assert await running.results(2) == [Done(1), Done(2)]

    run(test)


def test_timeouts_inside_work() -> None:
    async def test(running: Running) -> None:
        async def waits() -> str:
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                return "too long"
            return "never"

        async def after() -> int:
            await asyncio.sleep(0)
            return 1

        for function in (waits, after, waits):
            running.start(function)
        results = await running.results(3)
        assert results.count(Done("too long")) == 2 and results.count(Done(1)) == 1

    run(test)
