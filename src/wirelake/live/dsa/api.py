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
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from ...protocols.dsa import MAX_TOTAL
from ..core.errors import ConnectionFailed, ConnectionLost, LiveError, Refused, RequestTimeout
from ..drive.client import Client, Opening, Subscription, dial
from ..drive.connection import Dial, Reconnect
from ..drive.inbox import MOST
from ..drive.urls import Target
from . import events as event
from .client import DsaLink as DsaSession
from .client import LinkOptions
from .feeds import Answer, Result, Results, Value, Values, Watch, Wire
from .handlers import Call, Calls, StatusError
from .handshake import Identity
from .key_file import load_identity
from .listing import Listing, Table
from .nodes import Node
from .nodes import Nodes as SessionNodes
from .permissions import level_named
from .requester import Stream
from .wire import DSA_TCP

RECONNECT = Reconnect(seconds=1.0, most_seconds=60.0, jitter=0.0, step=1.0, settled_seconds=60.0)
REQUEST_SECONDS = 30.0
PERMISSION_DENIED = 0x40


class Nodes(SessionNodes):
    """A tree of nodes, whose values have the time at which they were set. One tree belongs to one link."""

    def __init__(self) -> None:
        super().__init__(time.time)


class DsaClient(Client[Value, Call]):
    """A link that is connected to a broker. ``wirelake.connect("dsa://…")`` returns one."""

    protocol = "dsa"
    framing = DSA_TCP
    is_text = False
    max_message = MAX_TOTAL

    def __init__(self, dial: Dial, identity: Identity, nodes: Nodes, options: LinkOptions) -> None:
        self._session = DsaSession(identity, nodes, options, chance=random.SystemRandom())
        super().__init__(dial, self._session)
        self._session.responder.now = asyncio.get_running_loop().time
        self.nodes = nodes
        """What others see of us, below ``downstream/…`` of the broker."""
        nodes.wake = self._wake
        self._calls = Calls(self._connection)
        self._wire = Wire(self._connection, self._session)
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
        watch = Watch(self._wire, path, MOST, merge=True, once=True)
        async with _limit(timeout, f"no list of {path or 'the root'}"), watch as found:
            async for listing in found:
                return listing  # type: ignore[no-any-return]
        raise ConnectionLost("the list ended before it was complete")

    def watch(self, path: str = "", *, merge: bool = True, limit: int = MOST) -> Watch:
        """Follow what is at a path: ``async with link.watch("downstream") as lists: async for listing in lists``."""
        return Watch(self._wire, path, limit, merge=merge)

    async def invoke(
        self, path: str, params: Any = None, *, permission: str = "", timeout: float | None = REQUEST_SECONDS
    ) -> Any:
        """Run an action until it ends, and return its last result. ``permission`` caps what it may do for us."""
        return await self._ask(self._invoke(path, params, permission), path, timeout)

    def results(self, path: str, params: Any = None, *, permission: str = "", limit: int = MOST) -> Results:
        """Run an action and follow its results: ``async with link.results(path) as results: async for result …``."""
        return Results(self._wire, path, limit, self._invoke(path, params, permission))

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
            stream.owner = Answer(partial(self._settle, stream))
            return await self._answer_to(stream, self._wire.close)

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
        taker = Values(subscription._inbox)
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
            self._wire.close(stream)
        return ()

    async def _subscribe(self, patterns: tuple[str, ...]) -> None:
        raise AssertionError("subscriptions begin stream by stream")

    def _unsubscribe(self, patterns: tuple[str, ...]) -> None:
        raise AssertionError("subscriptions end stream by stream")

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
        for feed in list(self._wire.feeds):
            feed.end(None if self._connection.is_closing else error)

    async def close(self) -> None:
        """Close the connection. Subscriptions end; open requests fail with ConnectionLost; actions are cancelled."""
        await self._calls.stop()
        await super().close()


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
