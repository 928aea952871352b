"""Functions of the application that nodes run: actions, and those that decide about a set."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any

from ..core.errors import AnswerError
from ..core.log import log
from ..drive.connection import Connection
from ..drive.inbox import Inbox
from .events import ABSENT
from .nodes import Node
from .replies import INTERNAL, INVALID_PARAMETER, Invocation, SetRequest
from .wire import status_name


class StatusError(AnswerError):
    """A request ended with a status that is an error. An action or an ``on_set`` raises it to refuse with that status.

    ``code`` is the name of the status, ``message`` what the peer says about it.
    """

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(status_name(status), message)
        self.status = status


class Call:
    """An action that somebody runs: the argument of its function.

    What the function returns is the result, and ends the action. A function that yields sends each result as it comes.
    """

    def __init__(self, invocation: Invocation, connection: Connection) -> None:
        self._invocation = invocation
        self._connection = connection
        self._inputs: Inbox[Any] = Inbox(connection.flow)

    def __repr__(self) -> str:
        return f"<call of {self.node.path!r}>"

    @property
    def node(self) -> Node:
        return self._invocation.node

    @property
    def params(self) -> Any:
        """What the caller sent, usually a dict."""
        return self._invocation.value

    def __getitem__(self, name: str) -> Any:
        """A parameter; the caller is told if it is missing."""
        params = self.params
        if not isinstance(params, dict) or name not in params:
            raise StatusError(INVALID_PARAMETER, f"the parameter {name} is missing")
        return params[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.params.get(name, default) if isinstance(self.params, dict) else default

    @property
    def is_open(self) -> bool:
        """Whether the caller still wants results."""
        return self._invocation.is_open

    async def send(self, value: Any, *, refresh: bool = False, skippable: bool = False) -> None:
        """Send a result; more may follow. With ``refresh`` the caller drops what it got before; a ``skippable`` one
        may be left out if a newer one is there. Waits while the connection is full.
        """
        await self._connection.drained()
        self._connection.do(lambda now: self._invocation.send(value, is_refreshed=refresh, is_skippable=skippable))
        self.node.tree.wake()

    async def inputs(self) -> AsyncIterator[Any]:
        """What the caller sends while the action runs, until it ends."""
        while True:
            try:
                yield await self._inputs.get()
            except StopAsyncIteration:
                return

    def feed(self, value: Any) -> None:
        """More input came."""
        self._inputs.put(value)

    def end(self) -> None:
        self._inputs.end()


class Calls:
    """The functions that run, side by side."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._running: dict[Invocation, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()

    def invoke(self, invocation: Invocation) -> None:
        call = Call(invocation, self._connection)
        invocation.owner = call
        self._running[invocation] = task = asyncio.ensure_future(self._run(call, invocation))
        task.add_done_callback(lambda _: self._running.pop(invocation, None))

    def abort(self, invocation: Invocation) -> None:
        """Nobody waits for it any more."""
        task = self._running.pop(invocation, None)
        if task is not None:
            task.cancel()

    async def _run(self, call: Call, invocation: Invocation) -> None:
        value: Any = ABSENT
        status, detail = 0x20, ""
        try:
            handler = invocation.node.handler
            assert handler is not None
            value = await _results(call, handler(call))
        except Exception as error:
            status, detail = _failure(error, call.node)
        finally:
            call.end()
        await self._connection.drained()
        try:
            invocation.end(value, status, detail)
        except Exception as error:  # a result that cannot be written is a failure of the function
            status, detail = _failure(error, call.node)
            invocation.end(ABSENT, status, detail)
        call.node.tree.wake()

    def set(self, request: SetRequest) -> None:
        task = asyncio.ensure_future(self._set(request))
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _set(self, request: SetRequest) -> None:
        node = request.node
        assert node.on_set is not None
        try:
            result = node.on_set(node, request.value)
            if inspect.isawaitable(result):
                await result
            node.set(request.value)
        except (TypeError, ValueError) as error:
            request.end(INVALID_PARAMETER, str(error))
        except Exception as error:
            request.end(*_failure(error, node))
        else:
            request.end()
        node.tree.wake()

    async def stop(self) -> None:
        """End what runs."""
        tasks = [*self._running.values(), *self._others]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _results(call: Call, result: Any) -> Any:
    """Send what a function yields; return what it returns."""
    if inspect.isasyncgen(result):
        try:
            async for value in result:
                await call.send(value)
        finally:
            await result.aclose()
        return ABSENT
    if inspect.isgenerator(result):
        for value in result:
            await call.send(value)
        return ABSENT
    value = await result if inspect.isawaitable(result) else result
    return ABSENT if value is None else value


def _failure(error: Exception, node: Node) -> tuple[int, str]:
    """Return what the caller is told about an exception."""
    if isinstance(error, StatusError):
        return error.status, error.message
    log.error("a function of a node failed", exc_info=error, node=node.path)
    return INTERNAL, f"{type(error).__name__}: {error}"
