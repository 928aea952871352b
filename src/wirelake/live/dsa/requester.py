"""What we ask for: streams of subscribe, list, invoke, set and preflight requests, over one connection at a time.

Lists and subscriptions outlive a connection and are asked for again on the next; everything else ends with it. What
happens to a stream is an event. Lists are not merged here: an update is handed on as it came, so that a list of any
length needs no memory.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from msgspec.structs import replace

from ...codec.content import read_msgpack, write_msgpack
from ...errors import DecodeError, EncodeError, LimitExceeded
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from . import wire
from .connection import Connection
from .events import ABSENT, Ended, Listed, Resulted, Valued
from .paths import check_path
from .streams import Joiner, MessageQueue, Pool, RequestIds
from .wire import Received

NOT_AVAILABLE, CLOSED, DISCONNECTED, INTERNAL = 0x0E, 0x20, 0x2E, 0x50
INITIALIZING: Final = 0x01
_LASTING = frozenset((p.SUB, p.LIST))
"""Methods whose streams outlive a connection."""
_ENDED_BY_CLOSE = frozenset((p.INVOKE, p.SET))


class Stream:
    """One request and everything that belongs to it. ``owner`` is the application's."""

    __slots__ = ("headers", "is_open", "joiner", "method", "owner", "queue", "request_id")

    def __init__(self, method: int, headers: Headers, request_id: int, joiner: Joiner) -> None:
        self.method = method
        self.headers = headers
        self.request_id = request_id
        self.joiner = joiner
        self.queue = MessageQueue(is_priority=headers.priority)
        self.is_open = True
        self.owner: Any = None

    def __repr__(self) -> str:
        return f"<{wire.NAMES[self.method]} {self.request_id} of {self.path!r}>"

    @property
    def path(self) -> str:
        return self.headers.target_path or ""


class Requester:
    """All streams that we asked for. ``events`` is where to tell about them."""

    def __init__(self, events: list[Any], counts: Counter[str]) -> None:
        self._events = events
        self._counts = counts
        self._ids = RequestIds()
        self._streams: dict[int, Stream] = {}
        self._pool = Pool()
        self._connection: Connection | None = None

    def __len__(self) -> int:
        return len(self._streams)

    # --- the connection comes and goes

    def attach(self, connection: Connection) -> None:
        """There is a connection: ask again for what lasts."""
        self._connection = connection
        for stream in self._streams.values():
            self._send(stream, stream.headers)

    def detach(self) -> None:
        """There is none any more."""
        self._connection = None
        for stream in list(self._streams.values()):
            stream.queue.clear()
            stream.joiner.drop()
            if stream.method == p.SUB:
                self._events.append(Valued(stream, ABSENT, {}, NOT_AVAILABLE))
            elif stream.method == p.LIST:
                self._events.append(Listed(stream, {}, NOT_AVAILABLE))
            else:
                self._end(stream, DISCONNECTED, "the connection was lost")

    # --- requests

    def open(self, method: int, path: str, body: bytes = b"", **headers: Any) -> Stream:
        """Make a request. ``headers`` are those of the protocol; a leading slash of the path is left out."""
        if self._connection is None and method not in _LASTING:
            raise ConnectionError("there is no connection")
        wanted = Headers(target_path=check_path(path), **headers)
        wire.write_headers(wanted)  # what cannot be written is an error of the caller's
        request_id = self._ids.take(self._streams)
        stream = Stream(method, wanted, request_id, Joiner(self._pool))
        self._streams[request_id] = stream
        if self._connection is not None:
            self._send(stream, wanted, body)
        return stream

    def change(self, stream: Stream, **headers: Any) -> None:
        """Ask for other options of a subscription, on the same stream."""
        if stream.is_open:
            stream.headers = replace(stream.headers, **headers)
            if self._connection is not None:
                self._send(stream, stream.headers)

    def feed(self, stream: Stream, value: Any) -> None:
        """Send more input to an action that runs."""
        if stream.is_open and self._connection is not None:
            self._send(stream, replace(stream.headers, no_stream=False), write_msgpack(value))

    def close(self, stream: Stream) -> None:
        """Nothing more is wanted of a stream. A set cannot be taken back: its reply is ignored."""
        if not stream.is_open:
            return
        self._forget(stream)
        stream.queue.clear()
        if self._connection is not None and stream.method not in (p.SET, p.PREFLIGHT):
            stream.queue.put(p.CLOSE, stream.request_id, Headers())
            self._connection.ready(stream.queue)

    def _send(self, stream: Stream, headers: Headers, body: bytes = b"") -> None:
        assert self._connection is not None
        stream.queue.put(stream.method, stream.request_id, headers, body)
        self._connection.ready(stream.queue)

    # --- replies

    def take(self, message: Received) -> None:
        """A reply came. One that belongs to no stream is ignored: it was under way when we closed it."""
        stream = self._streams.get(message.request_id)
        if stream is None or message.method != stream.method | 0x80:
            self._counts["replies_ignored"] += 1
            return
        headers = message.headers
        if headers.page_id or stream.joiner.is_open:
            try:
                whole = stream.joiner.take(message)
            except LimitExceeded as error:
                self.close(stream)
                self._events.append(Ended(stream, INTERNAL, f"{error.detail}: the stream is closed"))
                return
            if whole is None:
                return
            message = whole
        match message.method:
            case p.SUB_R:
                self._valued(stream, message)
            case p.LIST_R:
                self._listed(stream, message)
            case p.INVOKE_R:
                self._resulted(stream, message)
            case _:
                self._settled(stream, message.headers)

    def take_close(self, message: Received) -> bool:
        """A Close came that ends no stream of the peer's: Java sends it in place of a reply. Whether it was one."""
        stream = self._streams.get(message.request_id)
        if stream is None or stream.method not in _ENDED_BY_CLOSE:
            return False
        self._settled(stream, message.headers)
        return True

    def _valued(self, stream: Stream, message: Received) -> None:
        status = wire.plain_status(message.status)
        value, error = ABSENT, None
        meta: dict[str, Any] = {}
        if message.body:
            try:
                value, meta = wire.read_value(message.body)
            except DecodeError as found:
                error = self._bad(found)
        if message.body or not wire.is_closed(status):
            self._events.append(Valued(stream, value, meta, status, error, len(message.body)))
        self._after(stream, message, status)

    def _listed(self, stream: Stream, message: Received) -> None:
        status = wire.plain_status(message.status)
        entries: dict[str, Any] = {}
        error = None
        try:
            for key, packed in wire.split_pairs(message.body):
                entries[wire.decode_text(key)] = read_msgpack(packed) if packed else ABSENT
        except DecodeError as found:
            error = self._bad(found)
        if message.body or not wire.is_closed(status) or status == CLOSED:
            self._events.append(
                Listed(
                    stream, entries, status, message.headers.refreshed, status == INITIALIZING,
                    message.headers.pub_path, error, len(message.body),
                )
            )  # fmt: skip
        self._after(stream, message, status)

    def _resulted(self, stream: Stream, message: Received) -> None:
        status, detail = _final(message.headers)
        value, error = ABSENT, None
        if message.body:
            try:
                value = read_msgpack(message.body)
            except DecodeError as found:
                error = self._bad(found)
        if message.body or not wire.is_closed(status):
            self._events.append(Resulted(stream, value, status, message.headers.refreshed, error, len(message.body)))
        self._after(stream, message, status, detail)

    def _after(self, stream: Stream, message: Received, status: int, detail: str = "") -> None:
        """End the stream if this was its last message; a peer that ignores No Stream is told."""
        if wire.is_closed(status):
            self._end(stream, status, detail)
        elif stream.headers.no_stream and status != INITIALIZING:
            self.close(stream)
            self._events.append(Ended(stream, CLOSED, detail))

    def _settled(self, stream: Stream, headers: Headers) -> None:
        """A set or a preflight has one reply, which ends it whatever its status."""
        status, detail = _final(headers)
        self._end(stream, status if wire.is_closed(status) else CLOSED, detail)

    def _end(self, stream: Stream, status: int, detail: str) -> None:
        self._forget(stream)
        self._events.append(Ended(stream, status, detail))

    def _forget(self, stream: Stream) -> None:
        stream.is_open = False
        stream.joiner.drop()
        self._streams.pop(stream.request_id, None)

    def _bad(self, error: DecodeError) -> DecodeError:
        self._counts["body_errors"] += 1
        return error.as_value()


def _final(headers: Headers) -> tuple[int, str]:
    """Status and detail of the reply to an action or a set. One with a detail is final, whatever its status is."""
    status, detail = wire.plain_status(headers.status or 0), headers.error_detail
    if detail is not None and not wire.is_closed(status):
        return INTERNAL, detail
    return status, detail or ""


def check_sizes(**sizes: int | None) -> None:
    """Refuse numbers that no header can have."""
    for name, size in sizes.items():
        if size is not None and not 0 <= size <= p.MAX_REQUEST_ID:
            raise EncodeError(f"{size} is not within 0..{p.MAX_REQUEST_ID}", rule="int_range", path=name)
