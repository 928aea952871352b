"""Subscribers: each has a queue of its own, which may outlive its connection and this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocols import dsa as p
from .queues import DURABLE, Queue, Update, Wish
from .store import Append, DropQueue, Forget, OpenQueue
from .wire import Outgoing, Received, is_closed

if TYPE_CHECKING:
    from .connection import Connection
    from .desk import Desk
    from .peers import Peer
    from .values import Values

OK, INITIALIZING, DROPPED, CLOSED = 0x00, 0x01, 0x10, 0x20
STATUS_HEADS = [bytes((0, status)) for status in range(256)]
"""Dynamic headers with a status alone."""


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


class Subscriber:
    """A subscription of one peer. It is a stream of its requester, and a source of messages to it.

    ``key`` names its queue in the storage, if it is to outlive the connection.
    """

    __slots__ = (
        "is_attached",
        "is_once",
        "is_priority",
        "is_quick",
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
        self.is_quick = wish.qos < DURABLE and not is_once
        """Whether an update may be sent without being queued, where nothing waits before it."""
        self.is_attached = True
        """Whether its peer is connected and has asked for it on this connection."""
        self.key = ""
        self.values: Values | None = None

    def put(self, update: Update, hold: Hold | None = None) -> None:
        """Queue an update, and have it sent in its turn."""
        peer, queue = self.peer, self.queue
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
            if self.is_once and not is_closed(status) and status != INITIALIZING:
                status = CLOSED
        queue.page_sent(item, ack_id, now)
        if is_closed(status):
            self.end()
        is_kept = queue.is_durable and not is_closed(status)
        return Outgoing(p.SUB_R, self.request_id, STATUS_HEADS[status] + head, body, is_kept)

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
        self.queue.disconnected(self.peer.heard_at, has_acks=has_acks)
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
            self.is_quick = wish.qos < DURABLE and not self.is_once
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
        desk, key = self.peer.desk, self.key
        request = Append(key, number, desk.now + desk.epoch, update.pages)
        done = hold.done if hold is not None else None
        desk.keep(request, done, lambda: self.key == key and self.queue.first <= number)

    def _forget(self) -> None:
        if self.key:
            self.peer.desk.keep(Forget(self.key, self.queue.first), None)
