"""The session behind a dsId: what a peer has asked of us, what we have asked of it, and its connection.

A peer is a link below us, or a broker above us. The session outlives its connection for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...protocols import dsa as p
from ...protocols.dsa import Headers
from .connection import AckIds, Connection
from .desk import Desk
from .forwards import Check, Forward
from .lanes import Lane
from .lists import Lister, Listing
from .local_calls import LocalCall
from .permissions import DEFAULT
from .queues import DEFAULT_BYTES, DEFAULT_SECONDS, DURABLE, WHILE_CONNECTED, Wish
from .streams import RequestIds
from .subscribers import Subscriber
from .values import Values
from .wire import Outgoing, Received, is_closed, status_head, write_headers

Stream = Subscriber | Lister | Forward | LocalCall
Request = Values | Listing | Forward | Check
BUSY = 0x48


@dataclass(slots=True)
class Client:
    """What is kept of a client. ``name`` is that of its node below ``downstream``, if it ever was a responder."""

    dsid: str
    role: str = DEFAULT
    name: str = ""
    max_session: int = 1
    from_token: str = ""


class Peer:
    """``path`` is where its tree hangs in ours; empty if it has none."""

    def __init__(self, desk: Desk, client: Client, path: str, *, is_responder: bool = False) -> None:
        self.desk = desk
        self.client = client
        self.path = path
        self.is_responder = is_responder
        self.is_quarantined = False
        self.is_trusted = False
        """Whether it is part of this process."""
        self.takes_details = desk.options.detail_headers
        """Whether it may be sent Error Detail and Audit Log."""
        self.connection: Connection | None = None
        self.ack_ids = AckIds()
        self.newest: int | None = None
        """The highest ack id that came on connections before this one."""
        self.has_acks = False
        self.heard_at = 0.0
        """When something came on its last connection."""
        """Whether it has ever acknowledged anything."""
        self.gone_at = 0.0
        self.streams: dict[tuple[int, bool], Stream] = {}
        """By request id and whether it is a subscription: Java counts these separately."""
        self.requests: dict[int, Request] = {}
        self.values: dict[str, Values] = {}
        self.lists: dict[str, Listing] = {}
        self.waiting: dict[str, list[Subscriber]] = {}
        """Durable subscriptions whose requester has not asked for them since it came back, by path."""
        self.unsent = 0
        """Bytes that wait in its lanes."""
        self._ids = RequestIds()
        self._replies = Lane(self)
        self._asks = Lane(self)

    def __repr__(self) -> str:
        return f"<peer {self.client.dsid} {self.path}>"

    # --- as a requester

    def reply(self, method: int, request_id: int, status: int, body: bytes = b"", detail: str | None = None) -> None:
        """Send a reply that ends its stream, or is not part of one."""
        head = status_head(status)
        if detail and self.takes_details:
            head = write_headers(Headers(status=status, error_detail=detail[:1000]))
        self._replies.put(Outgoing(method, request_id, head, body))

    def open_stream(self, request_id: int, stream: Stream, *, is_subscribe: bool = False) -> None:
        self.streams[request_id, is_subscribe] = stream

    def end_stream(self, request_id: int, *, is_subscribe: bool) -> None:
        self.streams.pop((request_id, is_subscribe), None)

    def close_stream(self, request_id: int) -> bool:
        """The requester closes a stream; return whether there was one."""
        stream = self.streams.get((request_id, False)) or self.streams.get((request_id, True))
        if stream is None:
            return False
        stream.end()
        return True

    def wish_of(self, headers: Headers) -> Wish:
        """Return what a subscription asks for; a client with several sessions cannot have a durable queue."""
        wish = Wish.of(headers.qos, headers.queue_size, headers.queue_duration, headers.priority)
        if wish.qos >= DURABLE and (self.client.max_session != 1 or self.is_trusted):
            wish = Wish(WHILE_CONNECTED, wish.size, wish.seconds, wish.is_priority)
        return wish

    def keep_queue(self, subscriber: Subscriber) -> None:
        """Have the queue of a durable subscription outlive this process; forget that of one that is not any more."""
        wish = subscriber.queue.wish
        if wish.qos >= DURABLE:
            if not subscriber.key:
                subscriber.key = self._queue_key(subscriber.path)
            subscriber.keep([self.client.dsid, subscriber.path, wish.qos, wish.size, wish.seconds, wish.is_priority])
        else:
            subscriber.drop_stored()

    def _queue_key(self, path: str) -> str:
        used = {stream.key for stream in self.streams.values() if isinstance(stream, Subscriber)}
        used |= {one.key for ones in self.waiting.values() for one in ones}
        number = 1
        while (key := f"{self.client.dsid} {number} {path}") in used:
            number += 1
        return key

    # --- as a responder

    @property
    def is_busy(self) -> bool:
        """Whether it leaves too much unread to be sent more requests."""
        return self.unsent > self.desk.options.max_unsent // 2

    @property
    def is_serving(self) -> bool:
        """Whether it is here and answers requests."""
        return self.connection is not None and self.is_responder

    def open_request(self, request: Request) -> int:
        request_id = self._ids.take(self.requests)
        self.requests[request_id] = request
        return request_id

    def values_of(self, path: str) -> Values:
        """Return the merged subscription of a node of its tree."""
        values = self.values.get(path)
        if values is None:
            values = self.values[path] = Values(self, path, is_offline=not self.is_serving)
        return values

    def list_of(self, path: str, fixed: dict[bytes, bytes]) -> Listing:
        listing = self.lists.get(path)
        if listing is None:
            listing = self.lists[path] = Listing(self, path, fixed, is_offline=not self.is_serving)
        return listing

    def ask_values(self, values: Values) -> None:
        if not values.request_id:
            values.request_id = self.open_request(values)
        wish = values.wish
        headers = Headers(
            target_path=values.path,
            qos=wish.qos or None,
            queue_size=wish.size if wish.size != DEFAULT_BYTES else None,
            queue_duration=wish.seconds if wish.seconds != DEFAULT_SECONDS else None,
            priority=wish.is_priority,
        )
        self._ask(p.SUB, values.request_id, headers)

    def end_values(self, values: Values) -> None:
        self._close(values.request_id)
        self.values.pop(values.path, None)

    def ask_list(self, listing: Listing) -> None:
        if not listing.request_id:
            listing.request_id = self.open_request(listing)
        listing.asked()
        self._ask(p.LIST, listing.request_id, Headers(target_path=listing.path))

    def end_list(self, listing: Listing) -> None:
        self._close(listing.request_id)
        self.lists.pop(listing.path, None)

    def ask_check(self, check: Check, headers: Headers) -> None:
        """Ask whether a permission token is good for a path."""
        self._ask(p.PREFLIGHT, self.open_request(check), headers)

    def _ask(self, method: int, request_id: int, headers: Headers) -> None:
        if self.is_serving:
            self._asks.put(Outgoing(method, request_id, write_headers(headers)))

    def _close(self, request_id: int) -> None:
        if self.requests.pop(request_id, None) is not None and self.connection is not None:
            self._asks.put(Outgoing(p.CLOSE, request_id))

    def answered(self, message: Received) -> None:
        """A reply came; one that belongs to nothing is ignored."""
        request = self.requests.get(message.request_id)
        if request is None or request.reply_method != message.method:
            self.desk.counts["replies_unmatched"] += 1
            return
        headers = message.headers
        if headers.error_detail is not None or headers.audit_log is not None:
            self.takes_details = True  # who sends them can read them
        if isinstance(request, Values):
            is_over = request.receive(message, self.connection)
        else:
            is_over = request.receive(message)
        if is_over:
            self.requests.pop(message.request_id, None)
            if isinstance(request, Values):
                self.values.pop(request.path, None)
            elif isinstance(request, Listing):
                self.lists.pop(request.path, None)
                if not is_closed(headers.status or 0):
                    self._asks.put(Outgoing(p.CLOSE, message.request_id))

    def answered_by_close(self, message: Received) -> bool:
        """A Close came that closes no stream of the peer: perhaps it stands for a reply."""
        request = self.requests.get(message.request_id)
        if isinstance(request, Forward | Check):
            del self.requests[message.request_id]
            request.receive_close(message.headers)
            return True
        return False

    # --- connections

    def add_unsent(self, size: int) -> None:
        self.unsent += size
        if self.unsent > self.desk.options.max_unsent and self.connection is not None:
            self.desk.counts["slow_readers_closed"] += 1
            self.connection.link.close("too much is unsent", at_once=True)

    def come(self, connection: Connection) -> None:
        """Its connection is there: ask again for all that is wanted of it."""
        self.connection = connection
        self.unsent = 0
        self._replies, self._asks = Lane(self), Lane(self)
        connection.resume_ack(self.newest)
        if self.is_responder:
            for values in self.values.values():
                values.is_offline = False
                self.ask_values(values)
            for listing in self.lists.values():
                listing.is_offline = False
                self.ask_list(listing)

    def go(self) -> None:
        """Its connection is gone."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        self.newest = connection.newest or self.newest
        self.has_acks |= connection.peer_acks
        self.heard_at = connection.heard
        self.gone_at = self.desk.now
        self.unsent = 0
        for stream in list(self.streams.values()):
            stream.lose(has_acks=self.has_acks)
            if isinstance(stream, Subscriber) and stream.queue.is_durable:
                self.waiting.setdefault(stream.path, []).append(stream)
        self.streams.clear()
        for request in list(self.requests.values()):
            if isinstance(request, Forward | Check):
                request.lost()
        self.requests = {rid: one for rid, one in self.requests.items() if isinstance(one, Values | Listing)}
        for values in list(self.values.values()):
            values.go_offline()
        for listing in list(self.lists.values()):
            listing.go_offline()

    def forget_waiting(self) -> None:
        """Nobody will ask for the durable queues that still wait."""
        waiting, self.waiting = self.waiting, {}
        for subscribers in waiting.values():
            for subscriber in subscribers:
                self.desk.counts["queues_discarded"] += 1
                subscriber.discard()

    def end(self, status: int) -> None:
        """The peer is no part of this broker any more."""
        self.go()
        self.forget_waiting()
        for values in list(self.values.values()):
            values.end(status)
        for listing in list(self.lists.values()):
            listing.end(status)
        self.values.clear()
        self.lists.clear()
        self.requests.clear()

    @property
    def facts(self) -> dict[str, Any]:
        """For the log."""
        return {"dsid": self.client.dsid, "path": self.path}
