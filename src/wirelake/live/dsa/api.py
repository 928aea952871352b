"""Links: programs that ask DSA brokers, and reply for nodes of their own.

>>> from wirelake.live import dsa
>>> async def main():
...     async with dsa.connect("dsa://127.0.0.1:4120", name="boiler") as link:
...         link.nodes.add("main/temperature", value=21.5, unit="C")
...         async with link.subscribe("downstream/pump/main/speed") as values:
...             async for value in values:
...                 print(value.path, value.value)
"""

from __future__ import annotations

import asyncio
import builtins
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DecodeError, LimitExceeded
from ...protocols.dsa import MAX_TOTAL
from ..core.errors import ConnectionFailed, ConnectionLost, LiveError, Refused, RequestTimeout
from ..drive.client import Client, Opening, Subscription, dial
from ..drive.connection import Dial, Reconnect
from ..drive.inbox import MOST, Inbox
from ..drive.urls import Target
from . import events as event
from .client import DsaLink as DsaSession
from .client import LinkOptions
from .events import ABSENT
from .handlers import Call, Calls, StatusError
from .handshake import Identity
from .key_file import load_identity
from .listing import Listing, Table
from .nodes import Node
from .nodes import Nodes as SessionNodes
from .permissions import level_named
from .requester import CLOSED, DISCONNECTED, Stream
from .wire import DSA_TCP, status_name

RECONNECT = Reconnect(seconds=1.0, most_seconds=60.0, jitter=0.0, step=1.0, settled_seconds=60.0)
REQUEST_SECONDS = 30.0
PERMISSION_DENIED = 0x40


class Nodes(SessionNodes):
    """A tree of nodes, whose values have the time at which they were set. One tree belongs to one link."""

    def __init__(self) -> None:
        super().__init__(time.time)


@dataclass(frozen=True, slots=True)
class Value:
    """An update of a value. ``has_value`` is false if only its status changed: ``not_available`` while its source is
    offline, ``dropped`` if updates before this one were lost.
    """

    path: str
    value: Any
    meta: dict[str, Any]
    status: str
    has_value: bool = True
    error: DecodeError | None = None
    """What is wrong with the value, if it could not be read."""

    @property
    def time(self) -> str | None:
        """When it was measured, as its source says."""
        found = self.meta.get("ts", self.meta.get("timestamp"))
        return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class Result:
    """A result of an action. With ``is_refreshed`` it replaces all results before it."""

    path: str
    value: Any
    is_refreshed: bool = False


class Feed:
    """What comes on one stream, from the beginning of the ``async with`` block to its end."""

    def __init__(self, link: DsaClient, begin: Callable[[float], Stream], limit: int) -> None:
        self._link = link
        self._begin = begin
        self._inbox: Inbox[Any] = Inbox(link._connection.flow, limit)
        self._stream: Stream | None = None

    async def __aenter__(self) -> Any:
        await self._link._connection.usable()
        self._stream = self._link._connection.do(self._begin)
        self._stream.owner = self
        self._link._feeds.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._link._feeds.discard(self)
        self._inbox.discard()
        self._link._close(self._stream)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        return await self._inbox.get()

    def take(self, happened: Any) -> None:
        """Something happened on the stream."""
        if isinstance(happened, event.Ended):
            error = None if happened.status == CLOSED else _error(happened.status, happened.detail)
            self.end(error)

    def end(self, error: Exception | None) -> None:
        self._inbox.end(error)


class Watch(Feed):
    """The list of a node, each time it changed. With ``merge`` the same ``Listing`` comes each time, up to date;
    without, each update as it came, which needs no memory for the whole list.
    """

    def __init__(self, link: DsaClient, path: str, limit: int, *, merge: bool, once: bool = False) -> None:
        super().__init__(link, lambda now: link._session.list(path, now, once=once), limit)
        self._listing = Listing(path) if merge else None

    def take(self, happened: Any) -> None:
        if not isinstance(happened, event.Listed):
            super().take(happened)
        elif self._listing is None:
            self._inbox.put(happened, happened.size)
        else:
            try:
                self._listing.apply(happened)
            except LimitExceeded as error:
                self.end(error)
                self._link._close(self._stream)
                return
            if not happened.is_partial:
                self._inbox.put(self._listing, happened.size)


class Results(Feed):
    """What an action sends, until it ends; ``send`` gives it more input."""

    def __init__(self, link: DsaClient, path: str, limit: int, begin: Callable[[float], Stream]) -> None:
        super().__init__(link, begin, limit)
        self._path = path

    async def send(self, value: Any) -> None:
        """Send more input to the action."""
        stream = self._stream
        assert stream is not None
        await self._link._connection.send(lambda now: self._link._session.feed(stream, value, now))

    async def table(self) -> Table:
        """Wait for the end, and return all results as one table."""
        table = Table()
        async for result in self:
            table.apply(result.value, is_refreshed=result.is_refreshed)
        return table

    def take(self, happened: Any) -> None:
        if isinstance(happened, event.Resulted):
            if happened.error is not None:
                self.end(happened.error)
            elif happened.value is not ABSENT:
                self._inbox.put(Result(self._path, happened.value, happened.is_refreshed), happened.size)
        else:
            super().take(happened)


class _Answer:
    """One reply that somebody waits for: the last value before the end of the stream."""

    def __init__(self, link: DsaClient, stream: Stream) -> None:
        self._link = link
        self._stream = stream
        self._value: Any = None

    def take(self, happened: Any) -> None:
        match happened:
            case event.Valued():
                self._value = _value(happened)
            case event.Resulted(value=value, error=error) if value is not ABSENT or error is not None:
                self._value = value
                if error is not None:
                    self._link._settle(self._stream, None, error)
            case event.Ended(status=status, detail=detail):
                failure = None if status == CLOSED else _error(status, detail)
                self._link._settle(self._stream, self._value, failure)
            case _:
                pass


class DsaClient(Client[Value, Call]):
    """A link that is connected to a broker. ``wirelake.connect("dsa://…")`` returns one."""

    protocol = "dsa"
    framing = DSA_TCP
    is_text = False
    max_message = MAX_TOTAL

    def __init__(self, dial: Dial, identity: Identity, nodes: Nodes, options: LinkOptions) -> None:
        self._session = DsaSession(identity, nodes, options, chance=random.SystemRandom())
        super().__init__(dial, self._session)
        self._session.is_deaf = lambda: self._connection.flow.is_stopped
        self._session.responder.now = asyncio.get_running_loop().time
        self.nodes = nodes
        """What others see of us, below ``downstream/…`` of the broker."""
        nodes.wake = self._wake
        self._calls = Calls(self._connection)
        self._feeds: set[Feed] = set()
        self._streams: dict[Subscription[Value], list[Stream]] = {}

    @property
    def dsid(self) -> str:
        """Our id, which belongs to our key."""
        return self._session.identity.dsid

    @property
    def broker(self) -> str:
        """The dsId of the broker."""
        return "" if self._session.welcome is None else self._session.welcome.dsid

    @property
    def path(self) -> str:
        """Where our nodes are at the broker, empty if they are not seen."""
        return "" if self._session.welcome is None else self._session.welcome.path

    def action(self, path: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare an action of ours: ``@link.action("main/reset")``. The options are those of ``Nodes.action``."""
        return self.nodes.action(path, **options)

    # --- asking

    async def get(self, path: str, *, timeout: float | None = REQUEST_SECONDS) -> Value:
        """Return the value at a path. RequestTimeout if it has none yet."""
        found = await self._ask(lambda now: self._session.subscribe(path, now, once=True), path, timeout)
        if found is None or not found.has_value:
            status = found.status if found is not None else "closed"
            raise StatusError(0x0E, f"{path} has no value now: {status}")
        return found  # type: ignore[no-any-return]

    async def set(
        self, path: str, value: Any, *, attribute: str | None = None, timeout: float | None = REQUEST_SECONDS
    ) -> None:
        """Set the value at a path, or an attribute of it. StatusError if that is refused."""
        await self._ask(lambda now: self._session.set(path, value, now, attribute=attribute), path, timeout)

    async def list(self, path: str = "", *, timeout: float | None = REQUEST_SECONDS) -> Listing:
        """Return what is at a path: metadata, attributes and children."""
        watch = Watch(self, path, MOST, merge=True, once=True)
        async with _limit(timeout, f"no list of {path or 'the root'}"), watch as found:
            async for listing in found:
                return listing  # type: ignore[no-any-return]
        raise ConnectionLost("the list ended before it was complete")

    def watch(self, path: str = "", *, merge: bool = True, limit: int = MOST) -> Watch:
        """Follow what is at a path: ``async with link.watch("downstream") as lists: async for listing in lists``."""
        return Watch(self, path, limit, merge=merge)

    async def invoke(
        self, path: str, params: Any = None, *, permission: str = "", timeout: float | None = REQUEST_SECONDS
    ) -> Any:
        """Run an action until it ends, and return its last result. ``permission`` caps what it may do for us."""
        return await self._ask(self._invoke(path, params, permission), path, timeout)

    def results(self, path: str, params: Any = None, *, permission: str = "", limit: int = MOST) -> Results:
        """Run an action and follow its results: ``async with link.results(path) as results: async for result …``."""
        return Results(self, path, limit, self._invoke(path, params, permission))

    def _invoke(self, path: str, params: Any, permission: str) -> Callable[[float], Stream]:
        cap = level_named(permission) if permission else None
        return lambda now: self._session.invoke(path, params, now, max_permission=cap)

    async def preflight(self, path: str, *, timeout: float | None = REQUEST_SECONDS) -> bool:
        """Return whether we may list a path; StatusError if there is no such node. C++ brokers hang up on this."""
        try:
            await self._ask(lambda now: self._session.preflight(path, now), path, timeout)
        except StatusError as error:
            if error.status != PERMISSION_DENIED:
                raise
            return False
        return True

    async def _ask(self, begin: Callable[[float], Stream], path: str, timeout: float | None) -> Any:
        async with _limit(timeout, f"no reply for {path or 'the root'}"):
            await self._connection.usable()
            stream = self._connection.do(begin)
            stream.owner = _Answer(self, stream)
            return await self._answer_to(stream, self._close)

    async def publish(self, topic: str, payload: Any) -> None:
        """Set the value at a path."""
        await self.set(topic, payload)

    async def request(self, topic: str, payload: Any = None, *, timeout: float | None = REQUEST_SECONDS) -> Any:
        """Run an action, and return its last result."""
        return await self.invoke(topic, payload, timeout=timeout)

    def subscribe(
        self,
        *patterns: str,
        limit: int = MOST,
        overflow: str = "wait",
        qos: int = 0,
        queue_size: int | None = None,
        queue_seconds: int | None = None,
        priority: bool = False,
    ) -> Subscription[Value]:
        """Subscribe to the values at some paths, from the beginning of the ``async with`` block to its end.

        ``qos``: 0 is the newest value, 1 all values while we are connected, 2 also those while we are not, 3 also those
        while the broker is down. ``queue_size`` is in bytes.
        """
        return Subscription(
            self, patterns, limit, overflow, qos=qos, queue_size=queue_size, queue_seconds=queue_seconds,
            priority=priority,
        )  # fmt: skip

    async def _begin(self, subscription: Subscription[Value], **more: Any) -> None:
        await self._connection.usable()
        taker = _Values(subscription)
        self._subscriptions.append(subscription)
        streams = self._streams[subscription] = []
        try:
            for path in subscription.patterns:
                stream = self._connection.do(lambda now, path=path: self._session.subscribe(path, now, **more))  # type: ignore[misc]
                stream.owner = taker
                streams.append(stream)
        except BaseException:
            self._end(subscription)
            raise

    def _end(self, subscription: Subscription[Value]) -> Iterable[Any]:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        for stream in self._streams.pop(subscription, ()):
            self._close(stream)
        return ()

    async def _subscribe(self, patterns: tuple[str, ...]) -> None:
        raise AssertionError("subscriptions begin stream by stream")

    def _unsubscribe(self, patterns: tuple[str, ...]) -> None:
        raise AssertionError("subscriptions end stream by stream")

    def _close(self, stream: Stream | None) -> None:
        if stream is not None and stream.is_open and self._connection.error is None:
            self._connection.do(lambda now: self._session.close(stream, now))

    # --- replying

    async def _serve(self, pattern: str, priority: float) -> None:
        raise ValueError("a link replies by actions: declare them with @link.action")

    def _unserve(self, pattern: str) -> None:
        pass

    def _answer(self, asked: Call, result: Any, error: Exception | None) -> None:
        raise AssertionError("actions reply themselves")

    def _wake(self) -> None:
        if self._connection.error is None:
            self._connection.do(self._session.flush)

    # --- what happens

    def _handle(self, events: builtins.list[Any]) -> None:
        for happened in events:
            match happened:
                case event.Valued() | event.Listed() | event.Resulted() | event.Ended():
                    if happened.stream.owner is not None:
                        happened.stream.owner.take(happened)
                case event.Invoked(invocation=invocation):
                    self._calls.invoke(invocation)
                case event.Fed(invocation=invocation, value=value):
                    invocation.owner.feed(value)
                case event.Aborted(invocation=invocation):
                    self._calls.abort(invocation)
                case event.SetWanted(request=request):
                    self._calls.set(request)
                case event.Ready():
                    self._connection.ready()
                case event.Denied(reason=reason, is_final=is_final):
                    kind = Refused if is_final else ConnectionFailed
                    self._connection.fail(kind(f"{self.target}: {reason}"))
                case _:
                    pass

    def _over(self, error: LiveError) -> None:
        super()._over(error)
        for feed in list(self._feeds):
            feed.end(None if self._connection.is_closing else error)

    async def close(self) -> None:
        """Close the connection. Subscriptions end; open requests fail with ConnectionLost; actions are cancelled."""
        await self._calls.stop()
        await super().close()


class _Values:
    """What the streams of one subscription bring."""

    def __init__(self, subscription: Subscription[Value]) -> None:
        self._inbox = subscription._inbox

    def take(self, happened: Any) -> None:
        if isinstance(happened, event.Valued):
            self._inbox.put(_value(happened), happened.size)
        elif isinstance(happened, event.Ended):
            detail = f"{happened.stream.path}: {happened.detail}".rstrip(": ")
            self._inbox.end(StatusError(happened.status, detail))


def _value(happened: event.Valued) -> Value:
    has_value = happened.value is not ABSENT
    value = happened.value if has_value else None
    status = "ok" if has_value and happened.status == CLOSED else status_name(happened.status)
    return Value(happened.stream.path, value, happened.meta, status, has_value, happened.error)


def _error(status: int, detail: str) -> LiveError:
    """Return what is raised for a stream that ended so."""
    if status == DISCONNECTED and detail:
        return ConnectionLost(detail)
    return StatusError(status, detail)


class _limit:
    """Time that a request may take; RequestTimeout when it is over."""

    def __init__(self, seconds: float | None, text: str) -> None:
        self._seconds, self._text = seconds, text
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *raised: Any) -> None:
        try:
            await self._timeout.__aexit__(*raised)
        except TimeoutError:
            raise RequestTimeout(f"{self._text} within {self._seconds:g} s") from None


def connect(
    url: str | Target,
    *,
    name: str = "wirelake",
    key_file: str | Path | None = None,
    token: str = "",
    nodes: Nodes | None = None,
    responder: bool = True,
    detail_headers: bool | None = None,
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    verify: bool = True,
    timeout: float = 15.0,
    reconnect: bool | Reconnect = True,
) -> Opening[DsaClient]:
    """Connect to the broker at ``dsa://host:port``; ``dsas`` is TLS, ``dsa+ws`` and ``dsa+wss`` are WebSocket.

    ``name`` is the readable part of the link's id. ``key_file`` holds its private key, and is made on first use;
    without one the link has another identity each time. ``token`` admits it at a broker that asks for one. ``nodes`` is
    the tree that others see; with ``responder=False`` nobody does. ``detail_headers``: whether errors are explained to
    the broker; by default unless it is one that hangs up then. TLS: ``ca`` are the authorities to trust instead of the
    system's, ``cert`` and ``key`` the client's own. ``timeout``: seconds to connect, and to wait for a lost connection
    to come back. ``reconnect``: how to reconnect (after 1 s, then 2 s, and so on up to 60 s), or False.
    """
    where = dial(
        "dsa", url, timeout=timeout, reconnect=reconnect, usual=RECONNECT, verify=verify, ca=ca, cert=cert, key=key
    )
    prefix = f"{name}-"
    if key_file is not None:
        identity = load_identity(Path(key_file), prefix)
    else:
        identity = Identity.make(random.SystemRandom(), prefix)
    options = LinkOptions(token, responder, detail_headers)
    return Opening(lambda: DsaClient(where, identity, Nodes() if nodes is None else nodes, options))


__all__ = ["Call", "DsaClient", "Listing", "Node", "Nodes", "Result", "StatusError", "Table", "Value", "connect"]
