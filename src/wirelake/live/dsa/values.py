"""Subscriptions, merged: one at the source of a value, and any number of subscribers with queues of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ...protocols import dsa as p
from ...protocols.dsa import Headers
from .queues import Queue, Update, Wish
from .store import Append, DropQueue, Forget, OpenQueue
from .wire import Outgoing, Received, is_closed, plain_status, write_headers

if TYPE_CHECKING:
    from .connection import Connection
    from .desk import Desk
    from .peers import Peer

OK, NOT_AVAILABLE, DROPPED, CLOSED = 0x00, 0x0E, 0x10, 0x20


class ValueSource(Protocol):
    """Where the values come from: a link, or a node of ours."""

    desk: Desk

    def ask_values(self, values: Values) -> None:
        """Have values sent, with the wish of ``values``; again if that has changed."""
        ...

    def end_values(self, values: Values) -> None:
        """Nobody wants these values any more."""
        ...


class Hold:
    """Messages that are acknowledged to their sender when all of what they brought is stored."""

    __slots__ = ("_ack_ids", "_connection", "_desk", "_open")

    def __init__(self, connection: Connection | None, desk: Desk) -> None:
        self._connection = connection
        self._desk = desk
        self._ack_ids: list[int] = []
        self._open = 0

    def add(self, ack_id: int) -> None:
        if self._connection is not None:
            self._connection.hold_ack(ack_id)
            self._ack_ids.append(ack_id)

    def begin(self) -> None:
        self._open += 1

    def done(self) -> None:
        self._open -= 1
        if self._open <= 0:
            self.release()

    def release(self) -> None:
        if self._connection is not None:
            for ack_id in self._ack_ids:
                self._connection.release_ack(ack_id)
            self._ack_ids.clear()
            self._desk.touch(self._connection)


class Values:
    """One subscription at its source. ``is_offline``: the source is not there."""

    reply_method = p.SUB_R
    __slots__ = ("_group", "_hold", "desk", "is_offline", "last", "path", "request_id", "source", "subscribers", "wish")

    def __init__(self, source: ValueSource, path: str, *, is_offline: bool = False) -> None:
        self.source = source
        self.desk = source.desk
        self.path = path
        self.request_id = 0
        """At the source."""
        self.subscribers: dict[Subscriber, None] = {}
        self.wish = Wish()
        self.last: Update | None = None
        self.is_offline = is_offline
        self._group: Update | None = None
        """An update whose pages have not all come."""
        self._hold: Hold | None = None

    # --- subscribers

    def add(self, subscriber: Subscriber) -> None:
        """Have a subscriber get the current value at once, and all later ones."""
        self.resume(subscriber)
        self.tell_current(subscriber)

    def resume(self, subscriber: Subscriber) -> None:
        """Have a subscriber whose queue was restored get all later values."""
        is_first = not self.subscribers
        self.subscribers[subscriber] = None
        subscriber.values = self
        self.renew(is_first=is_first)

    def tell_current(self, subscriber: Subscriber) -> None:
        if self.is_offline:
            subscriber.put(_status_only(NOT_AVAILABLE))
        elif self.last is not None:
            subscriber.put(Update(self.last.pages))

    def remove(self, subscriber: Subscriber) -> None:
        if self.subscribers.pop(subscriber, subscriber) is None:
            subscriber.values = None
            if self.subscribers:
                self.renew()
            else:
                self.source.end_values(self)

    def renew(self, *, is_first: bool = False) -> None:
        """Ask the source again if all subscribers together want something else now."""
        wish = Wish(0, 0, 0)
        for subscriber in self.subscribers:
            wish = wish.joined(subscriber.queue.wish)
        if wish != self.wish or is_first:
            self.wish = wish
            self.source.ask_values(self)

    # --- what the source sends

    def receive(self, message: Received, connection: Connection | None) -> bool:
        """Hand on a message of the source; return whether the subscription has ended with it."""
        headers = message.headers
        status = plain_status(headers.status or 0)
        page = headers.page_id or 0
        self.is_offline = False
        if not page:
            self._break_group()
            update = Update([(b"", message.body)], status)
            self._hand_on(update, message.ack_id, connection)
        else:
            update = self._add_page(message, page, status, connection)
        if update.is_whole and update.has_value and not is_closed(status):
            self.last = update
        if is_closed(status):
            self._let_go()
            return True
        return False

    def push(self, body: bytes) -> None:
        """A node of ours has another value."""
        self.last = Update([(b"", body)])
        self._hand_on(self.last, 0, None)

    def go_offline(self) -> None:
        """The source is gone for now."""
        self._break_group()
        if not self.is_offline:
            self.is_offline = True
            self.last = None
            for subscriber in list(self.subscribers):
                subscriber.put(_status_only(NOT_AVAILABLE))

    def end(self, status: int) -> None:
        """There will be no values any more."""
        self._break_group()
        for subscriber in list(self.subscribers):
            subscriber.put(_status_only(status))
        self._let_go()

    def _let_go(self) -> None:
        for subscriber in self.subscribers:
            subscriber.values = None
        self.subscribers.clear()

    def _hand_on(self, update: Update, ack_id: int, connection: Connection | None) -> None:
        hold = None
        if ack_id and self.wish.qos > 1:
            hold = Hold(connection, self.desk)
            hold.add(ack_id)
            hold.begin()
        for subscriber in tuple(self.subscribers) if is_closed(update.status) else self.subscribers:
            subscriber.put(update, hold)
        if hold is not None:
            hold.done()

    def _add_page(self, message: Received, page: int, status: int, connection: Connection | None) -> Update:
        group = self._group
        head = _page_head(message.headers)
        if page < 0:
            self._break_group()
            sequence = message.headers.sequence_id
            group = Update([(head, message.body)], status, page == -1, count=-page, sequence=sequence)
            self._group = None if group.is_whole else group
            if message.ack_id and self.wish.qos > 1 and not group.is_whole:
                self._hold = Hold(connection, self.desk)
                self._hold.add(message.ack_id)
                self._hold.begin()
            for subscriber in tuple(self.subscribers):
                subscriber.put(group, self._hold)
        elif group is None or page != len(group.pages) or message.headers.sequence_id != group.sequence:
            self._break_group()
            group = Update([(b"", b"")], status, is_whole=False)  # a page that belongs to nothing
        else:
            self._go_on(group, message, head, status)
        if is_closed(status) and not group.is_whole:
            self._break_group()
            for subscriber in tuple(self.subscribers):
                subscriber.put(_status_only(status))
        return group

    def _go_on(self, group: Update, message: Received, head: bytes, status: int) -> None:
        added = group.size
        group.pages.append((head, message.body))
        group.status = status
        group.is_whole = len(group.pages) == group.count
        added = group.size - added
        hold = self._hold
        if hold is not None and message.ack_id:
            hold.add(message.ack_id)
        for subscriber in tuple(self.subscribers):
            subscriber.grow(group, added, hold)
        if group.is_whole:
            self._group = self._hold = None
            if hold is not None:
                hold.done()

    def _break_group(self) -> None:
        """The rest of a group will not come."""
        if self._group is not None:
            self._group.is_broken = True
            self._group = None
            for subscriber in self.subscribers:
                subscriber.wake()
        if self._hold is not None:
            self._hold.release()
            self._hold = None


class Subscriber:
    """A subscription of one peer. It is a stream of its requester, and a source of messages to it.

    ``key`` names its queue in the storage, if it is to outlive the connection.
    """

    __slots__ = (
        "is_attached",
        "is_once",
        "is_priority",
        "key",
        "path",
        "peer",
        "queue",
        "request_id",
        "values",
    )

    def __init__(self, peer: Peer, request_id: int, path: str, wish: Wish, *, is_once: bool = False) -> None:
        self.peer = peer
        self.request_id = request_id
        self.path = path
        """As the peer named it: by that it finds its queue again."""
        self.queue = Queue(wish)
        self.is_priority = wish.is_priority
        self.is_once = is_once
        self.is_attached = True
        """Whether its peer is connected and has asked for it on this connection."""
        self.key = ""
        self.values: Values | None = None

    def put(self, update: Update, hold: Hold | None = None) -> None:
        peer, queue = self.peer, self.queue
        connection = peer.connection
        if (
            queue.wish.qos < 2
            and connection is not None
            and queue.is_idle
            and update.is_whole
            and len(update.pages) == 1
            and connection.is_clear
            and not self.is_once
        ):
            connection.now = peer.desk.now
            head, body = update.pages[0]
            connection.write(Outgoing(p.SUB_R, self.request_id, _STATUS_HEADS[update.status] + head, body))
            if is_closed(update.status):
                peer.end_stream(self.request_id, is_subscribe=True)
            return
        losses = queue.losses
        item = queue.put(update, peer.desk.now)
        if queue.losses != losses:
            peer.desk.counts["values_dropped"] += queue.losses - losses
            self._forget()
        if self.key and update.is_whole and update.has_value:
            self._store(item.number, update, hold)
        self.wake()

    def grow(self, update: Update, added: int, hold: Hold | None) -> None:
        """The newest update has one more page."""
        self.queue.grow(update, added, self.peer.desk.now)
        if self.key and update.is_whole and self.queue.waiting and self.queue.waiting[-1].update is update:
            self._store(self.queue.waiting[-1].number, update, hold)
        self.wake()

    def wake(self) -> None:
        """Have what waits sent."""
        connection = self.peer.connection
        if self.is_attached and connection is not None and (self.queue.waiting or self.is_once):
            connection.ready(self)
            self.peer.desk.touch(connection)

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        queue = self.queue
        queue.trim(now)
        item = queue.next()
        if item is None or not self.is_attached:
            return None
        update = item.update
        head, body = update.pages[item.sent]
        status = OK
        if update.is_whole and item.sent == len(update.pages) - 1:
            status = update.status
            if queue.has_lost and status == OK:
                status, queue.has_lost = DROPPED, False
            if self.is_once and not is_closed(status) and status != 0x01:
                status = CLOSED
        queue.page_sent(item, ack_id)
        if is_closed(status):
            self.end()
        is_kept = queue.is_durable and not is_closed(status)
        return Outgoing(p.SUB_R, self.request_id, _STATUS_HEADS[status] + head, body, is_kept)

    def acked(self, ack_id: int) -> None:
        if self.queue.acked(ack_id):
            self._forget()

    # --- as a stream of its requester

    def renew(self, message: Received) -> None:
        """The requester asks again, perhaps with other options: it gets the current value."""
        self._change(self.peer.wish_of(message.headers))
        if self.values is not None and self.queue.is_idle:
            self.values.tell_current(self)

    def end(self) -> None:
        """The subscription is over, because of the requester or of the source."""
        self.peer.end_stream(self.request_id, is_subscribe=True)
        self.detach()
        self.discard()

    def discard(self) -> None:
        """Forget the queue and leave the values."""
        self.queue.clear()
        self.drop_stored()
        if self.values is not None:
            self.values.remove(self)

    def drop_stored(self) -> None:
        """Have the queue no longer outlive the process."""
        if self.key:
            self.peer.desk.keep(DropQueue(self.key), None)
            self.key = ""

    def detach(self) -> None:
        """Its connection is gone, or its stream is."""
        self.is_attached = False

    def lose(self, *, has_acks: bool) -> None:
        """The connection of the requester is gone: a durable queue stays, and collects."""
        self.detach()
        self.queue.disconnected(self.peer.desk.now, has_acks=has_acks)
        if not self.queue.is_durable:
            self.discard()
        else:
            self._forget()

    def attach(self, request_id: int, wish: Wish) -> None:
        """The requester is back and asks for what it had."""
        self.request_id = request_id
        self.is_attached = True
        self._change(wish)
        if self.queue.waiting:
            self.wake()
        elif self.values is not None:
            self.values.tell_current(self)

    def _change(self, wish: Wish) -> None:
        if wish != self.queue.wish:
            self.is_priority = wish.is_priority
            self.queue.change(wish, self.peer.desk.now)
            self.peer.keep_queue(self)
            if self.values is not None:
                self.values.renew()

    # --- storage

    def keep(self, record: Any) -> None:
        """Have the queue outlive the process."""
        self.peer.desk.keep(OpenQueue(self.key, record), None)

    def _store(self, number: int, update: Update, hold: Hold | None) -> None:
        if hold is not None:
            hold.begin()
        at = self.peer.desk.now + self.peer.desk.epoch
        self.peer.desk.keep(Append(self.key, number, at, update.pages), hold.done if hold is not None else None)

    def _forget(self) -> None:
        if self.key:
            self.peer.desk.keep(Forget(self.key, self.queue.first), None)


_STATUS_HEADS = [bytes((0, status)) for status in range(256)]


def _status_only(status: int) -> Update:
    return Update([(b"", b"")], status)


def _page_head(headers: Headers) -> bytes:
    return write_headers(Headers(sequence_id=headers.sequence_id, page_id=headers.page_id))
