"""Services in Python: a ``Domain`` collects them, and each becomes something that a session can call.

>>> from wirelake.live.casual import Domain, Reply
>>> domain = Domain()
>>> @domain.service("echo", transaction="join")
... def echo(value):
...     return value
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ...errors import WireError
from .values import to_buffer, to_value
from .wire import EMPTY_BUFFER, MAX_SERVICE_NAME, OK, TPEITYPE, TPEOTYPE, TPESVCFAIL, Buffer

if TYPE_CHECKING:
    from .branches import Branch
    from .connections import Inbound

F = TypeVar("F", bound=Callable[..., Any])
MODES = ("auto", "join", "atomic", "none")
"""How a service takes part in transactions, in the order of their numbers on the wire."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a service returns if a value alone does not say it. ``code`` is the user code; ``failed``: the caller gets
    TPESVCFAIL, with the value; ``type`` is the type of the buffer, that of the request if empty.
    """

    value: Any = None
    code: int = 0
    failed: bool = False
    type: str = ""


class Answer(msgspec.Struct, frozen=True):
    """How a call ended, as its caller hears it."""

    status: int
    code: int = 0
    buffer: Buffer = EMPTY_BUFFER


class Invocation(msgspec.Struct, frozen=True):
    """A call as a service gets it. ``branch`` is the transaction it runs in, ``connection`` where it came from."""

    service: str
    buffer: Buffer
    execution: bytes
    deadline: float | None
    branch: Branch | None
    connection: Inbound | None = None
    conversation: Any = None


@dataclass(frozen=True, slots=True)
class ServiceEntry:
    """A service. ``run`` takes an Invocation and returns an Answer; it is a coroutine function, or runs in a thread."""

    name: str
    run: Callable[[Any], Any]
    transaction: str = "auto"
    timeout: float = 0.0
    category: str = ""
    is_conversational: bool = False


current: contextvars.ContextVar[Invocation | None] = contextvars.ContextVar("casual_invocation", default=None)
"""The call that runs here: what its handler asks of the domain belongs to the same transaction."""


def answer_to(invocation: Invocation, result: Any) -> Answer:
    """Return what the caller gets for what a handler returned."""
    try:
        if not isinstance(result, Reply):
            return Answer(OK, 0, to_buffer(result, invocation.buffer.type))
        buffer = to_buffer(result.value, result.type or invocation.buffer.type)
    except WireError:
        return Answer(TPEOTYPE)
    return Answer(TPESVCFAIL if result.failed else OK, result.code, buffer)


def make_run(handler: Callable[[Any], Any]) -> Callable[[Invocation], Any]:
    """Return what a session calls for a handler; an exception of the handler's is raised."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):

        async def run_async(invocation: Invocation) -> Answer:
            current.set(invocation)
            try:
                value = to_value(invocation.buffer)
            except WireError:
                return Answer(TPEITYPE)
            return answer_to(invocation, await handler(value))

        return run_async

    def run(invocation: Invocation) -> Answer:
        try:
            value = to_value(invocation.buffer)
        except WireError:
            return Answer(TPEITYPE)
        token = current.set(invocation)
        try:
            return answer_to(invocation, handler(value))
        finally:
            current.reset(token)

    return run


class Services:
    """Services by name."""

    def __init__(self) -> None:
        self.services: dict[str, ServiceEntry] = {}

    def service(
        self, name: str, *, transaction: str = "auto", timeout: float = 0.0, category: str = ""
    ) -> Callable[[F], F]:
        """Offer a function as a service. It gets the value of the buffer, and returns a value, or a ``Reply``.

        ``transaction``: ``auto`` joins the transaction of the caller, or runs in a new one; ``join`` joins it, or runs
        without; ``atomic`` always runs in a new one; ``none`` without. ``timeout``: seconds after which the caller gets
        TPETIME. A coroutine function runs in the event loop, any other in a thread.
        """
        if transaction not in MODES:
            raise ValueError(f"transaction is one of {', '.join(MODES)}, not {transaction!r}")

        def add(handler: F) -> F:
            self.add(ServiceEntry(name, make_run(handler), transaction, timeout, category))
            return handler

        return add

    def add(self, entry: ServiceEntry) -> None:
        if not entry.name or len(entry.name.encode()) > MAX_SERVICE_NAME:
            raise ValueError(f"the name of a service has 1 to {MAX_SERVICE_NAME} bytes: {entry.name!r}")
        if entry.name in self.services:
            raise ValueError(f"there is a service {entry.name} already")
        self.services[entry.name] = entry
