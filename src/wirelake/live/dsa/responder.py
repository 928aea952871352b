"""What others ask of us: lists, subscriptions, actions and sets of a tree of nodes, over one connection at a time.

Subscriptions of quality 2 and 3 outlive a connection, by their path; everything else ends with it. Lists are made when
there is room to send them, piece by piece, so a list of any length needs no more memory than the names in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ...codec.content import read_msgpack
from ...errors import DecodeError, EncodeError, LimitExceeded
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from ..core.timers import Timers
from . import permissions, wire
from .connection import Connection
from .events import Aborted, Fed, Invoked, SetDone, SetWanted
from .nodes import Node, Nodes
from .paths import InvalidPath, check_path
from .queues import DURABLE, PERSISTENT, Wish
from .replies import (
    BUSY,
    CLOSED,
    DENIED,
    INVALID_MESSAGE,
    INVALID_PARAMETER,
    NOT_SUPPORTED,
    Invocation,
    Key,
    ListReply,
    SetRequest,
    Subscription,
)
from .streams import Joiner, MessageQueue, Pool
from .wire import Received

SESSION_SECONDS = 300.0
"""How long a durable subscription waits for the connection to come back."""
RESUME_SECONDS = 60.0
"""How long it waits then to be asked for again."""
MOST_STREAMS = 100_000
MOST_ACTIONS = 1_000
"""Actions that run at the same time."""
PUB = "pub"

Served = ListReply | Subscription | Invocation | SetRequest
_REPLY = {ListReply: p.LIST_R, Subscription: p.SUB_R, Invocation: p.INVOKE_R, SetRequest: p.SET_R}


class Responder:
    """All streams that others opened. ``details``: whether errors are explained, which makes a C++ peer hang up."""

    def __init__(self, nodes: Nodes, events: list[Any], counts: Counter[str], *, details: bool = True) -> None:
        self.nodes = nodes
        self.now: Callable[[], float] = lambda: self._now
        """The time, for values that are set between calls of the session."""
        self.details = details
        self._events = events
        self._counts = counts
        self._streams: dict[Key, Served] = {}
        self._parked: dict[str, Subscription] = {}
        """Durable subscriptions that wait to be asked for again, by path."""
        self._timers: Timers[str] = Timers()
        self._short = MessageQueue()
        """Replies that are only a status."""
        self._pool = Pool()
        self._connection: Connection | None = None
        self._has_acks = False
        """Whether the peer has ever acknowledged anything."""
        self._actions = 0
        self._now = 0.0

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def waiting(self) -> int:
        """Replies that are not sent yet, of streams that are over."""
        return len(self._short)

    @property
    def pub_path(self) -> str | None:
        """Where our profiles are, if there are any."""
        return PUB if (node := self.nodes.root.children.get(PUB)) is not None and node.children else None

    # --- the connection comes and goes

    def attach(self, connection: Connection, now: float) -> None:
        self._connection, self._now = connection, now
        for path in self._parked:
            self._timers.drop(path)
            self._timers.set(path, now + RESUME_SECONDS)

    def detach(self, now: float) -> None:
        """Streams end with their connection, but for durable subscriptions."""
        heard_at = now
        if self._connection is not None:
            self._has_acks |= self._connection.peer_acks
            heard_at = self._connection.heard
        self._connection, self._now = None, now
        self._short.clear()
        streams, self._streams = list(self._streams.values()), {}
        for stream in streams:
            if isinstance(stream, Subscription) and stream.queue.is_durable and not stream.no_stream:
                stream.queue.disconnected(heard_at, has_acks=self._has_acks)
                self._park(stream, now + SESSION_SECONDS)
            else:
                self._leave(stream)
        for path in self._parked:
            self._timers.drop(path)
            self._timers.set(path, now + SESSION_SECONDS)

    def _park(self, stream: Subscription, until: float) -> None:
        before = self._parked.get(stream.path)
        if before is not None:
            before.leave()
        self._parked[stream.path] = stream
        self._timers.set(stream.path, until)

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def tick(self, now: float) -> None:
        self._now = now
        for path in self._timers.due(now):
            parked = self._parked.pop(path, None)
            if parked is not None:
                self._counts["subscriptions_expired"] += 1
                parked.leave()

    # --- requests

    def take(self, message: Received, now: float) -> None:
        """A request came."""
        self._now = now
        method, headers = message.method, message.headers
        if method in (p.INVOKE, p.SET) and self._continue(message):
            return
        key = (message.request_id, method == p.SUB)
        path, status = self._admit(headers)
        node = self.nodes.find(path) if not status else None
        if method == p.PREFLIGHT:
            self._refuse(p.PREFLIGHT_R, key, status or (CLOSED if node is not None else NOT_SUPPORTED))
            return
        if not status and node is None:
            status = NOT_SUPPORTED
        if not status and len(self._streams) >= MOST_STREAMS:
            status = BUSY
        if status or node is None:
            self._refuse(method | 0x80, key, status)
            return
        match method:
            case p.SUB:
                self._subscribe(key, node, path, headers)
            case p.LIST:
                self._list(key, node, headers)
            case p.INVOKE:
                self._invoke(key, node, message)
            case p.SET:
                self._set(key, node, message)

    def take_close(self, message: Received) -> bool:
        """Whether this ends a stream of the peer's: another one before a subscription of the same number."""
        for is_subscription in (False, True):
            stream = self._streams.pop((message.request_id, is_subscription), None)
            if stream is not None:
                if isinstance(stream, Invocation):
                    stream.queue.clear()
                self._leave(stream)
                return True
        return False

    def _admit(self, headers: Headers) -> tuple[str, int]:
        """Return the path of a request, and the status that refuses it, or 0."""
        try:
            path = check_path(headers.target_path or "")
        except InvalidPath:
            return "", INVALID_MESSAGE
        return path, DENIED if headers.permission_token is not None else 0

    def _subscribe(self, key: Key, node: Node, path: str, headers: Headers) -> None:
        if not node.has_value or (headers.qos or 0) > PERSISTENT:
            self._end(key)
            self._refuse(p.SUB_R, key, INVALID_PARAMETER if node.has_value else NOT_SUPPORTED)
            return
        wish = Wish.of(headers.qos, headers.queue_size, headers.queue_duration, headers.priority)
        before = self._streams.get(key)
        parked = self._parked.get(path)
        if isinstance(before, Subscription) and before.node is node:
            stream = before
            stream.queue.change(wish, self._now)
        elif parked is not None and wish.qos >= DURABLE:
            # A broker may want other options by now, for all who subscribe through it: what is kept is for them too.
            stream = parked
            del self._parked[path]
            self._timers.drop(path)
            stream.key = key
            stream.queue.change(wish, self._now)
        else:
            self._end(key)
            stream = Subscription(self, key, node, path, wish, headers.no_stream)
            node.subscribers[stream] = None
        self._streams[key] = stream
        if stream.queue.is_idle and node.update is not None:
            stream.queue.put(node.update, self._now)
        self.ready(stream)

    def _list(self, key: Key, node: Node, headers: Headers) -> None:
        self._end(key)
        stream = ListReply(self, key, node, headers)
        self._streams[key] = stream
        node.listers[stream] = None
        self.ready(stream)

    def _invoke(self, key: Key, node: Node, message: Received) -> None:
        level = node.get("$invokable")
        status = 0
        if node.handler is None or level is None:
            status = NOT_SUPPORTED
        elif permissions.capped(permissions.CONFIG, message.headers.max_permission) < permissions.level_named(level):
            status = DENIED
        elif self._actions >= MOST_ACTIONS:
            status = BUSY
        self._end(key)
        if status:
            self._refuse(p.INVOKE_R, key, status)
            return
        stream = Invocation(self, key, node, message.headers, Joiner(self._pool))
        self._streams[key] = stream
        self._actions += 1
        self._collect(stream, message)

    def _set(self, key: Key, node: Node, message: Received) -> None:
        attribute = message.headers.attribute_field
        self._end(key)
        if attribute is not None and (not attribute.startswith("@") or len(attribute) < 2):
            self._refuse(p.SET_R, key, INVALID_PARAMETER, "only an attribute (@…) can be set so")
            return
        if attribute is None and (not node.has_value or node.get("$writable") is None):
            self._refuse(p.SET_R, key, NOT_SUPPORTED)
            return
        stream = SetRequest(self, key, node, message.headers, Joiner(self._pool))
        self._streams[key] = stream
        self._collect(stream, message)

    def _continue(self, message: Received) -> bool:
        """Whether a message belongs to an action or a set that is known already: a page, or more input."""
        stream = self._streams.get((message.request_id, False))
        if isinstance(stream, Invocation | SetRequest) and _REPLY[type(stream)] == message.method | 0x80:
            if isinstance(stream, SetRequest) and not message.page_id > 0:
                return False
            self._collect(stream, message)
            return True
        if message.page_id > 0:
            self._counts["pages_ignored"] += 1
            return True
        return False

    def _collect(self, stream: Invocation | SetRequest, message: Received) -> None:
        try:
            whole = stream.joiner.take(message)
            if whole is None:
                return
            if isinstance(stream, Invocation):
                self._run(stream, read_msgpack(whole.body) if whole.body else None)
            else:
                stream.value, stream.meta = wire.read_value(whole.body)
                self._apply(stream)
        except LimitExceeded:
            self.finish(stream.key, INVALID_MESSAGE, "the body is too long")
        except DecodeError as error:
            self._counts["body_errors"] += 1
            self.finish(stream.key, INVALID_MESSAGE, f"the body cannot be read: {error.rule}")

    def _run(self, stream: Invocation, value: Any) -> None:
        if stream.value is not None or stream.owner is not None:
            self._events.append(Fed(stream, value))
            return
        stream.value = {} if value is None else value
        self._events.append(Invoked(stream))

    def _apply(self, stream: SetRequest) -> None:
        node, attribute = stream.node, stream.headers.attribute_field
        try:
            if attribute is not None:
                node.put(attribute, stream.value)
            else:
                node.check(stream.value)
                if node.on_set is not None:
                    self._events.append(SetWanted(stream))
                    return
                node.set(stream.value)
        except (TypeError, ValueError, EncodeError) as error:
            stream.end(INVALID_PARAMETER, str(error))
            return
        stream.end()
        self._events.append(SetDone(node, attribute or "", stream.value))

    # --- replies

    def ready(self, source: ListReply | Subscription) -> None:
        """A stream has something to send, if it is not parked."""
        if self._connection is not None and self._streams.get(source.key) is source:
            self._connection.ready(source)

    def reply(self, stream: Invocation, headers: Headers, body: bytes = b"") -> None:
        if self._connection is not None:
            stream.queue.put(p.INVOKE_R, stream.key[0], headers, body)
            self._connection.ready(stream.queue)

    def end_invocation(self, stream: Invocation, status: int, body: bytes = b"", detail: str = "") -> None:
        """Send the last result of an action."""
        self.reply(stream, Headers(status=status, error_detail=self._detail(detail)), body)
        self.forget(stream.key)

    def finish(self, key: Key, status: int, detail: str = "") -> None:
        """End a stream with a status."""
        stream = self.forget(key)
        if isinstance(stream, Invocation):
            self.reply(stream, Headers(status=status, error_detail=self._detail(detail)))
        elif stream is not None:
            self._refuse(_REPLY[type(stream)], key, status, detail)

    def forget(self, key: Key) -> Served | None:
        """A stream is over; what it has to send is still sent."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            stream.leave()
            self._actions -= isinstance(stream, Invocation)
        return stream

    def _end(self, key: Key) -> None:
        """A request id is used anew: what it named before is over."""
        stream = self._streams.pop(key, None)
        if stream is not None:
            self._leave(stream)

    def _leave(self, stream: Served) -> None:
        """Nobody waits for a stream any more."""
        if isinstance(stream, Invocation):
            self._actions -= 1
            if stream.is_open and stream.value is not None:
                self._events.append(Aborted(stream))
        stream.leave()

    def _refuse(self, method: int, key: Key, status: int, detail: str = "") -> None:
        if self._connection is not None:
            can_explain = method in (p.INVOKE_R, p.SET_R)
            headers = Headers(status=status, error_detail=self._detail(detail) if can_explain else None)
            self._short.put(method, key[0], headers)
            self._connection.ready(self._short)

    def _detail(self, detail: str) -> str | None:
        return detail[:1000] if detail and self.details else None
