"""Clients: publish, subscribe, request, respond over one connection that is kept.

>>> import asyncio, wirelake
>>> async def main():
...     async with wirelake.connect("mb://127.0.0.1:3001", name="billing") as client:
...         await client.publish("invoice.paid", {"number": 17})
"""

from __future__ import annotations

import asyncio
import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from ...codec.topics import TopicError, match_topic
from ...protocols import load
from ..core.errors import ConnectionLost, LiveError
from ..core.link import Framing
from ..core.log import log
from ..core.session import CLIENT, Session
from ..records import LIVE
from .connection import Connection, Dial, Reconnect
from .endpoint import Endpoint
from .inbox import MOST, Inbox
from .pipe import Pipe
from .responder import SIDE_BY_SIDE, Handler, Responder
from .urls import Target, parse_url, tls_context

M = TypeVar("M")
"""A message, as a subscription gives it."""
Q = TypeVar("Q")
"""A request, as a handler gets it."""
ClientT = TypeVar("ClientT", bound="Opened")
Token = Any

CLOSED = "the client is closed"
ROUTES = 10_000
"""Topics whose receivers are remembered."""


class Opened(Protocol):
    """What ``connect`` returns in the end: a client of any protocol."""

    async def open(self) -> None:
        """Connect. What goes wrong is raised, and it is over."""
        ...

    async def close(self) -> None: ...


class Subscription(Generic[M]):
    """Messages of some patterns: ``async with client.subscribe("a.#") as messages: async for message in messages``.

    A message that several of the patterns match comes once. Messages that come while nobody takes them wait here, at
    most about ``limit``; then, with ``overflow="wait"``, nothing more is read from the connection until the application
    has caught up, and with ``overflow="drop"`` the oldest are lost, and counted in ``dropped``.
    """

    def __init__(
        self, client: Client[M, Any], patterns: tuple[str, ...], limit: int, overflow: str, **more: Any
    ) -> None:
        if not patterns:
            raise ValueError("a subscription needs a pattern")
        if overflow not in ("wait", "drop"):
            raise ValueError('overflow is "wait" or "drop"')
        self.patterns = patterns
        self._client = client
        self._more = more
        self._inbox: Inbox[M] = Inbox(client._connection.flow, limit, drops=overflow == "drop")
        self._is_begun = False

    @property
    def waiting(self) -> int:
        """How many messages have come and were not taken yet."""
        return len(self._inbox)

    @property
    def dropped(self) -> int:
        return self._inbox.dropped

    async def __aenter__(self) -> Subscription[M]:
        if self._is_begun:
            raise RuntimeError("a subscription can be used once: make another one")
        self._is_begun = True
        await self._client._begin(self, **self._more)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._inbox.discard()
        await self._client._agreed(self._client._end(self))

    def __aiter__(self) -> AsyncIterator[M]:
        return self

    async def __anext__(self) -> M:
        if not self._is_begun:
            raise RuntimeError("a subscription begins with async with")
        return await self._inbox.get()

    async def get(self, timeout: float | None = None) -> M:
        """The next message; TimeoutError if none comes in time, ConnectionLost if none will come any more."""
        try:
            async with asyncio.timeout(timeout):
                return await anext(self)
        except StopAsyncIteration:
            raise ConnectionLost(CLOSED) from None


class Client(ABC, Generic[M, Q]):
    """What the clients of all protocols have in common. Made by ``wirelake.connect``."""

    protocol: str
    framing: Framing
    is_text: bool
    max_message: int

    def __init__(self, dial: Dial, session: Session) -> None:
        self.target = dial.target
        self.timeout = dial.timeout
        self._topics = load(dial.target.protocol)
        self._connection = Connection(dial, session, self)
        session.is_deaf = lambda: self._connection.flow.is_stopped
        self._open: dict[Token, asyncio.Future[Any]] = {}
        self._subscriptions: list[Subscription[M]] = []
        self._responders: list[Responder[Q]] = []
        self._routes: dict[str, tuple[Inbox[M], ...]] = {}
        self.unclaimed = 0
        """Messages that came and matched no subscription."""

    def __repr__(self) -> str:
        state = "closed" if self._connection.error else "connected" if self.is_connected else "not connected"
        return f"<{type(self).__name__} {self.target} {state}>"

    def _pipe(self, endpoint: Endpoint) -> Pipe:
        if not self.target.is_websocket:
            return Pipe(endpoint, CLIENT)
        from .websocket import ClientWebSocketPipe, WebSocketFraming  # needs a library that plain connections do not

        framing = WebSocketFraming(self.is_text, is_masked=True)
        return ClientWebSocketPipe(endpoint, framing, self.target.websocket_url, self.max_message)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection right now. While there is none, calls wait for it, up to ``timeout``."""
        return self._connection.is_ready

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        await self._connection.open()

    async def close(self) -> None:
        """Close the connection. Subscriptions end; open requests fail with ConnectionLost."""
        for responder in self._responders:
            await responder.stop()
        await self._connection.close()

    async def wait_closed(self) -> None:
        """Waits until it is closed, or lost for good: then ConnectionLost, or Refused, is raised."""
        await self._connection.over.wait()
        if not self._connection.is_closing and self._connection.error is not None:
            raise copy.copy(self._connection.error)

    def _lost(self, reason: str) -> None:
        """Open requests fail: nobody knows what became of them."""
        error = ConnectionLost(f"the connection to {self.target} was lost: {reason}")
        for future in list(self._open.values()):
            if not future.done():
                future.set_exception(error)
        self._open.clear()

    def _over(self, error: LiveError) -> None:
        self._lost(error.detail)
        end = None if self._connection.is_closing else error
        for subscription in self._subscriptions:
            subscription._inbox.end(end)

    @abstractmethod
    def _handle(self, events: list[Any]) -> None:
        """What the session has to tell."""

    @abstractmethod
    async def publish(self, topic: str, payload: Any) -> Any:
        """Send to all subscribers of the topic. Waits while the connection is full."""

    @abstractmethod
    async def request(self, topic: str, payload: Any = ..., *, timeout: float | None = None) -> Any:
        """Send a request, and return its reply."""

    async def _answer_to(self, token: Token, cancel: Callable[[Token], None]) -> Any:
        """Waits for what the session says about this. Nothing of it is left behind, whatever happens."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[token] = future
        self._connection.flow.settle()
        try:
            return await future
        finally:
            if self._open.pop(token, None) is not None:
                cancel(token)
            self._connection.flow.settle()

    def _settle(self, token: Token, result: Any = None, error: Exception | None = None) -> None:
        """The answer has come; perhaps nobody waits for it any more."""
        future = self._open.pop(token, None)
        if future is not None and not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

    def subscribe(self, *patterns: str, limit: int = MOST, overflow: str = "wait") -> Subscription[M]:
        """Subscribe to topics or patterns, from the beginning of the ``async with`` block to its end."""
        return Subscription(self, patterns, limit, overflow)

    async def _begin(self, subscription: Subscription[M], **more: Any) -> None:
        self._subscriptions.append(subscription)
        self._routes.clear()
        try:
            await self._subscribe(subscription.patterns, **more)
        except BaseException:
            self._end(subscription)
            raise

    def _end(self, subscription: Subscription[M]) -> Iterable[Token]:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._routes.clear()
            kept = {self._canonical(pattern) for other in self._subscriptions for pattern in other.patterns}
            left = tuple(pattern for pattern in subscription.patterns if self._canonical(pattern) not in kept)
            if left and self._connection.error is None:
                return self._unsubscribe(left) or ()
        return ()

    @abstractmethod
    async def _subscribe(self, patterns: tuple[str, ...]) -> None: ...

    @abstractmethod
    def _unsubscribe(self, patterns: tuple[str, ...]) -> Iterable[Token] | None:
        """End them. Returns what to wait for, where the server says that it has done so."""

    def _end_refused(self, patterns: set[str], error: LiveError) -> None:
        """Tell those who subscribed one of these."""
        log.warning(error.detail)
        for subscription in self._subscriptions:
            if patterns & set(map(self._canonical, subscription.patterns)):
                subscription._inbox.end(error)

    async def _agreed(self, tokens: Iterable[Token]) -> None:
        """Waits until the server has ended subscriptions."""

    def _canonical(self, pattern: str) -> str:
        return pattern

    def _matches(self, pattern: str, topic: str) -> bool:
        try:
            return match_topic(self._topics, pattern, topic)
        except TopicError:
            return False

    def _deliver(self, topic: str, message: M, size: int) -> None:
        inboxes = self._routes.get(topic)
        if inboxes is None:
            inboxes = self._route(topic)
        if not inboxes:
            self.unclaimed += 1
        for inbox in inboxes:
            inbox.put(message, size)

    def _route(self, topic: str) -> tuple[Inbox[M], ...]:
        if len(self._routes) >= ROUTES:
            self._routes.clear()
        inboxes = tuple(
            sub._inbox for sub in self._subscriptions if any(self._matches(pattern, topic) for pattern in sub.patterns)
        )
        self._routes[topic] = inboxes
        return inboxes

    async def respond(
        self, pattern: str, handler: Handler[Q], *, priority: float = 0, concurrency: int = SIDE_BY_SIDE
    ) -> Responder[Q]:
        """Reply to requests with what the handler returns, a plain function or a coroutine function.

        A plain function blocks everything else while it runs. An AnswerError that it raises is the reply; any other
        exception is logged and becomes an error reply. Ends when the responder or the client is closed; the responder
        can also be used in ``async with``.
        """
        if self._canonical(pattern) in (self._canonical(other.pattern) for other in self._responders):
            raise ValueError(f"{pattern} is answered by this client already")
        responder: Responder[Q] = Responder(self, pattern, handler, priority=priority, concurrency=concurrency)
        self._responders.append(responder)
        try:
            await self._serve(pattern, priority)
        except BaseException:
            self._responders.remove(responder)
            raise
        return responder

    def _retire(self, responder: Responder[Q]) -> None:
        if responder in self._responders:
            self._responders.remove(responder)
            if self._connection.error is None:
                self._unserve(responder.pattern)

    @abstractmethod
    async def _serve(self, pattern: str, priority: float) -> None: ...

    @abstractmethod
    def _unserve(self, pattern: str) -> None: ...

    @abstractmethod
    def _answer(self, asked: Q, result: Any, error: Exception | None) -> None: ...

    def _hand_to_responder(self, asked: Q, topic: str, size: int) -> bool:
        """Return whether there is one for this request."""
        fitting = [responder for responder in self._responders if self._matches(responder.pattern, topic)]
        if fitting:
            max(fitting, key=lambda responder: responder.priority).take(asked, size)
        return bool(fitting)


class Opening(AbstractAsyncContextManager[ClientT], Awaitable[ClientT], Generic[ClientT]):
    """A client to be: ``async with connect(…) as client`` closes it, ``client = await connect(…)`` leaves it open."""

    def __init__(self, make: Callable[[], ClientT]) -> None:
        self._make = make
        self._client: ClientT

    def __await__(self) -> Generator[Any, Any, ClientT]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> ClientT:
        self._client = self._make()
        await self._client.open()
        return self._client

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


def dial(
    protocol: str,
    url: str | Target,
    *,
    timeout: float,
    reconnect: bool | Reconnect,
    usual: Reconnect,
    verify: bool,
    **files: str | Path | None,
) -> Dial:
    """Return where to connect, and how; ``files`` are those of TLS, ``usual`` is how to reconnect by default."""
    target = url if isinstance(url, Target) else parse_url(url, None if "://" in url else protocol)
    if target.protocol != protocol:
        raise ValueError(f"{target} is not a URL of {protocol}")
    context = None
    if target.is_tls:
        context = tls_context(**files, verify=verify)
    elif any(file is not None for file in files.values()):
        raise ValueError(f"{target} has no TLS: write {protocol}+{'wss' if target.is_websocket else 'tls'}://…")
    policy = reconnect if isinstance(reconnect, Reconnect) else usual if reconnect else None
    return Dial(target, context, timeout, policy)


def connect(url: str, **options: Any) -> Opening[Any]:
    """Connect to a server of the protocol that the URL names: ``mb://host:port``, ``ceda://user:password@host:port``.

    ``+tls``, ``+ws`` and ``+wss`` behind the protocol choose the transport. The options are those of ``connect`` in the
    package of the protocol, such as ``wirelake.live.mb.connect``, whose result has a precise type.
    """
    return LIVE[parse_url(url).protocol].connect(url, **options)
