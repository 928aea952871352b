"""Carries out what a session wants of the world, and tells it how that ended: exactly once for each effect.

Stores go to the writer, which takes all that is ready at once. Functions run in tasks if they are coroutine functions,
and in a few threads if they are not. Connections are made by the endpoint of the session. Nothing here waits for a
link: a session bounds what it wants, and the endpoint reads no more from a link that wants too much.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import types
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..core.address import show_address
from ..core.effects import Authenticate, Call, Cancel, Cancelled, Dial, Done, Effect, Failed, Result, Store
from ..core.errors import ConnectionFailed
from ..core.link import Link
from ..core.session import CLIENT
from .failures import explain
from .pipe import Pipe
from .writer import Finish, Writer

if TYPE_CHECKING:
    from .endpoint import Endpoint

THREADS = 8
"""Functions that are no coroutine functions and run at the same time; logins have as many of their own."""
DIAL_SECONDS = 10.0
CANCEL_SECONDS = 1.0
"""How long what is cancelled may take to end."""

Function = Callable[[Any], Any]


class Effects:
    """Carries out the effects of an endpoint's session. ``writer`` is for Store, ``authenticate`` for Authenticate: a
    function of the attempt, which returns True, or what to tell those who may not come in.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.writer: Writer | None = None
        self.authenticate: Function | None = None
        self._endpoint = endpoint
        self._loop = endpoint.loop
        self._open: dict[Effect, asyncio.Future[Any] | Future[Any] | None] = {}
        self._complete: asyncio.Event | None = None
        self._is_closed = False
        self._threads: dict[type[Effect], ThreadPoolExecutor] = {}
        self._ended_now: list[tuple[Effect, Result]] = []
        self._calls: deque[tuple[Effect, Coroutine[Any, Any, Any]]] = deque()
        """Coroutines that have not begun."""
        self._is_taken_up = False
        """Whether a task is about to begin with them."""
        self._stored: Finish = self._finish
        """The same object each time: the writer collects what is finished by it."""

    def begin(self) -> None:
        wanted = self._endpoint.session.effects
        only = wanted[0] if len(wanted) == 1 else None
        if type(only) is Store and self.writer is not None and not self._is_closed:
            wanted.clear()  # nearly every time, where messages are stored
            self._open[only] = None
            self.writer.submit((only,), self._stored)
            return
        effects = wanted[:]
        wanted.clear()
        stores: list[Store] = []
        for effect in effects:
            if type(effect) is Store and self.writer is not None and not self._is_closed:
                self._open[effect] = None
                stores.append(effect)
            elif isinstance(effect, Cancel):
                self._submit(stores)  # it may be one of them that is taken back
                self._cancel(effect.effect)
            else:
                self._open[effect] = None
                self._begin(effect)
        self._submit(stores)

    def _submit(self, stores: list[Store]) -> None:
        if stores and self.writer is not None:
            self.writer.submit(stores, self._stored)
            stores.clear()

    def _begin(self, effect: Effect) -> None:
        match effect:
            case _ if self._is_closed or (isinstance(effect, Dial) and self._endpoint.is_closing):
                result: Result = Cancelled()
            case Call(handler=handler, request=request):
                return self._call(effect, handler, request)
            case Authenticate(attempt=attempt) if self.authenticate is not None:
                return self._call(effect, self.authenticate, attempt)
            case Dial():
                return self._start(effect, self._dial(effect))
            case _:
                result = Failed(LookupError(f"nothing carries out {type(effect).__name__} here"))
        self._loop.call_soon(self._finish, [(effect, result)])

    def _call(self, effect: Effect, function: Function, argument: Any) -> None:
        if _is_coroutine_function(function):
            self._calls.append((effect, function(argument)))
            if not self._is_taken_up:
                self._take_up()
            return
        kind = type(effect)
        if kind not in self._threads:
            self._threads[kind] = ThreadPoolExecutor(THREADS, f"wirelake-{kind.__name__.lower()}")
        future = self._open[effect] = self._threads[kind].submit(function, argument)
        future.add_done_callback(lambda done: self._ended_in_thread(effect, done))

    def _ended_in_thread(self, effect: Effect, future: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop is closed: everything was completed before
            self._loop.call_soon_threadsafe(self._ended, effect, _result_of(future))

    def _take_up(self) -> None:
        self._is_taken_up = bool(self._calls)
        if self._calls:
            self._loop.create_task(self._run_calls())
            self._loop.call_soon(self._take_up)  # when that task has to wait, or has taken all

    async def _run_calls(self) -> None:
        """Run coroutines one after the other: most need not wait, and a task for each would cost as much as they do.

        One that waits keeps this task: what it does with it, such as a timeout or its cancelling, concerns nobody else.
        """
        task = asyncio.current_task()
        while self._calls and task is not None and not task.cancelling():
            effect, coroutine = self._calls.popleft()
            self._open[effect] = task
            try:
                result: Result = Done(await _apart(coroutine))
            except asyncio.CancelledError:
                result = Cancelled()
            except Exception as error:
                result = Failed(error)
            self._open[effect] = None
            self._ended(effect, result)
        if not self._is_taken_up:
            self._take_up()

    def _start(self, effect: Effect, awaitable: Awaitable[Any]) -> None:
        future = self._open[effect] = asyncio.ensure_future(awaitable, loop=self._loop)
        future.add_done_callback(lambda done: self._ended(effect, _result_of(done)))

    def _ended(self, effect: Effect, result: Result) -> None:
        if isinstance(result, Done) and hasattr(type(result.value), "__await__"):
            self._start(effect, result.value)
            return
        if not self._ended_now:
            self._loop.call_soon(self._finish_ended)  # with all that ends in this turn: their replies are one write
        self._ended_now.append((effect, result))

    def _finish_ended(self) -> None:
        ended, self._ended_now = self._ended_now, []
        self._finish(ended)

    async def _dial(self, effect: Dial) -> Link:
        pipe = Pipe(self._endpoint, CLIENT, on_known=lambda link: self._finish([(effect, Done(link))]))
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                transport, _ = await self._loop.create_connection(lambda: pipe, *effect.address)
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except TimeoutError:
            raise ConnectionFailed(f"{show_address(effect.address)} does not reply within {DIAL_SECONDS:g} s") from None
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {show_address(effect.address)}: {explain(error)}") from None
        if not pipe.is_known:
            raise ConnectionFailed(f"connected to {show_address(effect.address)} only when all was closed")
        return pipe.link

    def _cancel(self, effect: Effect) -> None:
        """Take it back, if that is still possible. A function that runs in a thread goes on to its end."""
        if isinstance(effect, Store) and self.writer is not None:
            self.writer.cancel(effect)
        elif (future := self._open.get(effect)) is not None:
            future.cancel()
        elif (call := next((call for call in self._calls if call[0] is effect), None)) is not None:
            self._calls.remove(call)
            call[1].close()
            self._ended(effect, Cancelled())

    def _finish(self, ended: Sequence[tuple[Effect, Result]]) -> None:
        now = self._loop.time()
        complete, outstanding = self._endpoint.complete, self._open
        for effect, result in ended:
            if effect in outstanding:
                del outstanding[effect]
                complete(effect, result, now)
        self._endpoint.settle()
        if self._complete is not None and not self._open:
            self._complete.set()

    async def drain(self, seconds: float) -> bool:
        """Wait for what is outstanding; return whether all of it completed in time. No connection is made any more."""
        for effect in [effect for effect in self._open if isinstance(effect, Dial)]:
            self._cancel(effect)
        if self._open:
            self._complete = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._complete.wait(), seconds)
        return not self._open

    async def close(self) -> None:
        """Wait for stores, cancel everything else. A function that still runs in a thread counts as cancelled."""
        self._is_closed = True
        for effect in list(self._open):
            if not isinstance(effect, Store):
                self._cancel(effect)
        while not await self.drain(CANCEL_SECONDS) and any(isinstance(effect, Store) for effect in self._open):
            pass
        self._finish([(effect, Cancelled()) for effect in self._open])
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)


_is_coroutine_function = lru_cache(maxsize=1024)(inspect.iscoroutinefunction)
"""To find out costs as much as to call a short one."""


@types.coroutine
def _apart(coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await a coroutine in a context of its own."""
    run, send, throw = copy_context().run, coroutine.send, coroutine.throw
    error: BaseException | None = None
    while True:
        try:
            awaited = run(send, None) if error is None else run(throw, error)
        except StopIteration as stop:
            return stop.value
        try:
            yield awaited
            error = None
        except BaseException as thrown:
            error = thrown


def _result_of(future: asyncio.Future[Any] | Future[Any]) -> Result:
    if future.cancelled():
        return Cancelled()
    error = future.exception()
    if error is None:
        return Done(future.result())
    return Failed(error if isinstance(error, Exception) else RuntimeError(repr(error)))
