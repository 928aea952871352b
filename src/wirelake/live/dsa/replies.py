"""Streams that others opened with a request to us: the list of a node, its value, an action that runs, a set.

Lists and subscriptions are sources of a connection, which are asked for one message at a time. A list is made piece by
piece, when there is room to send it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...codec.content import write_msgpack
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from . import wire
from .events import ABSENT
from .nodes import Node
from .queues import Queue, Update, Wish
from .streams import Joiner, MessageQueue
from .wire import Outgoing

if TYPE_CHECKING:
    from .responder import Responder

CLOSED, DENIED, NOT_SUPPORTED, INVALID_MESSAGE, INVALID_PARAMETER, BUSY, INTERNAL = (
    0x20, 0x40, 0x41, 0x44, 0x45, 0x48, 0x50,
)  # fmt: skip
INITIALIZING, DROPPED = 0x01, 0x10

Key = tuple[int, bool]
"""A request id, and whether it is that of a subscription: Java counts these apart."""


class ListReply:
    """The list of one node: first everything, then what changes."""

    __slots__ = ("_at", "_changed", "_initial", "_is_first", "_responder", "is_priority", "key", "no_stream", "node")

    def __init__(self, responder: Responder, key: Key, node: Node, headers: Headers) -> None:
        self._responder = responder
        self.key = key
        self.node = node
        self.is_priority = headers.priority
        self.no_stream = headers.no_stream
        self._initial: list[str] | None = node.keys()
        self._at = 0
        self._is_first = True
        self._changed: dict[str, None] = {}

    def changed(self, key: str) -> None:
        if not key.startswith("$$$"):
            self._changed[key] = None
            self._responder.ready(self)

    def valued(self, update: Update) -> None:
        pass

    def removed(self) -> None:
        self._responder.finish(self.key, NOT_SUPPORTED)

    def acked(self, ack_id: int) -> None:
        pass

    def leave(self) -> None:
        self.node.listers.pop(self, None)

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        if self._initial is None and not self._changed:
            return None
        body = self._fill()
        is_done = self._initial is None
        status = 0 if is_done else INITIALIZING
        if is_done and self.no_stream:
            status = CLOSED
            self._responder.forget(self.key)
        head = bytes((0, status))
        if self._is_first:
            self._is_first = False
            pub = self._responder.pub_path
            head = wire.write_headers(Headers(status=status, refreshed=True, pub_path=pub))
        return Outgoing(p.LIST_R, self.key[0], head, body)

    def _fill(self) -> bytes:
        """Whole pairs, as many as fit into a message; the values are those of now."""
        parts: list[bytes] = []
        size = 0
        while (key := self._next()) is not None:
            pair = wire.write_pair(wire.encode_text(key), self.node.packed(key))
            if size + len(pair) > p.MAX_BODY:
                break
            self._advance(key)
            parts.append(pair)
            size += len(pair)
        return b"".join(parts)

    def _next(self) -> str | None:
        if self._initial is not None:
            if self._at < len(self._initial):
                return self._initial[self._at]
            self._initial = None
        return next(iter(self._changed), None)

    def _advance(self, key: str) -> None:
        if self._initial is not None:
            self._at += 1
        else:
            del self._changed[key]


class Subscription:
    """The value of one node, for one subscriber."""

    __slots__ = ("_responder", "is_priority", "key", "no_stream", "node", "path", "queue")

    def __init__(self, responder: Responder, key: Key, node: Node, path: str, wish: Wish, no_stream: bool) -> None:
        self._responder = responder
        self.key = key
        self.node = node
        self.path = path
        self.queue = Queue(wish)
        self.is_priority = wish.is_priority
        self.no_stream = no_stream

    def changed(self, key: str) -> None:
        pass

    def valued(self, update: Update) -> None:
        self.queue.put(update, self._responder.now())
        self._responder.ready(self)

    def removed(self) -> None:
        self._responder.finish(self.key, NOT_SUPPORTED)

    def acked(self, ack_id: int) -> None:
        self.queue.acked(ack_id)

    def leave(self) -> None:
        self.node.subscribers.pop(self, None)

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        queue = self.queue
        queue.trim(now)
        item = queue.next()
        if item is None:
            return None
        pages = item.update.pages
        head, body = pages[item.sent]
        status = 0
        if item.sent + 1 == len(pages):
            if queue.has_lost:
                queue.has_lost, status = False, DROPPED
            if self.no_stream:
                status = CLOSED
                self._responder.forget(self.key)
        queue.page_sent(item, ack_id, now)
        return Outgoing(p.SUB_R, self.key[0], bytes((0, status)) + head, body, queue.is_durable)


class Invocation:
    """An action that somebody runs. ``owner`` is the application's."""

    __slots__ = ("_responder", "headers", "is_open", "joiner", "key", "node", "owner", "queue", "value")

    def __init__(self, responder: Responder, key: Key, node: Node, headers: Headers, joiner: Joiner) -> None:
        self._responder = responder
        self.key = key
        self.node = node
        self.headers = headers
        self.joiner = joiner
        self.queue = MessageQueue(is_priority=headers.priority)
        self.is_open = True
        self.value: Any = None
        """The parameters."""
        self.owner: Any = None

    def __repr__(self) -> str:
        return f"<invocation of {self.node.path!r}>"

    def send(self, value: Any, *, is_refreshed: bool = False, is_skippable: bool = False) -> None:
        """Send a result; more may follow, unless the caller wants only one."""
        if self.is_open:
            body = write_msgpack(value)
            if self.headers.no_stream:
                self._responder.end_invocation(self, CLOSED, body)
            else:
                headers = Headers(status=0, refreshed=is_refreshed, skippable=is_skippable)
                self._responder.reply(self, headers, body)

    def end(self, value: Any = ABSENT, status: int = CLOSED, detail: str = "") -> None:
        """Send the last result, if there is one, and end."""
        if self.is_open:
            body = b"" if value is ABSENT else write_msgpack(value)
            self._responder.end_invocation(self, status, body, detail)

    def leave(self) -> None:
        self.is_open = False
        self.joiner.drop()


class SetRequest:
    """A value that somebody wants a node to have."""

    __slots__ = ("_responder", "headers", "is_open", "joiner", "key", "meta", "node", "value")

    def __init__(self, responder: Responder, key: Key, node: Node, headers: Headers, joiner: Joiner) -> None:
        self._responder = responder
        self.key = key
        self.node = node
        self.headers = headers
        self.joiner = joiner
        self.is_open = True
        self.value: Any = None
        self.meta: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<set of {self.node.path!r}>"

    def end(self, status: int = CLOSED, detail: str = "") -> None:
        if self.is_open:
            self._responder.finish(self.key, status, detail)

    def leave(self) -> None:
        self.is_open = False
        self.joiner.drop()
