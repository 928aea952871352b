"""Subscriptions, merged: one at the source of a value, and any number of subscribers with queues of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ...protocols import dsa as p
from ...protocols.dsa import Headers
from .queues import DURABLE, Update, Wish
from .subscribers import STATUS_HEADS, Hold, Subscriber
from .wire import Received, is_closed, plain_status, write_headers

if TYPE_CHECKING:
    from .connection import Connection
    from .desk import Desk

NOT_AVAILABLE = 0x0E
_PLAIN_HEADER = p.LONG_HEAD + 2
"""The length of a header with a status alone."""


class ValueSource(Protocol):
    """Where the values come from: a link, or a node of ours."""

    desk: Desk

    def ask_values(self, values: Values) -> None:
        """Have values sent, with the wish of ``values``; again if that has changed."""
        ...

    def end_values(self, values: Values) -> None:
        """Nobody wants these values any more."""
        ...


class Values:
    """One subscription at its source. ``is_offline``: the source is not there."""

    reply_method = p.SUB_R
    __slots__ = (
        "_group",
        "_hold",
        "_is_renewed",
        "desk",
        "is_offline",
        "last",
        "path",
        "request_id",
        "source",
        "subscribers",
        "wish",
    )

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
        self._is_renewed = False
        """Whether the source was asked again, so that it will tell the current value again."""

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
            self._is_renewed = not is_first
            self.source.ask_values(self)

    # --- what the source sends

    def receive(self, message: Received, connection: Connection | None) -> bool:
        """Hand on a message of the source; return whether the subscription has ended with it."""
        headers = message.headers
        status = plain_status(headers.status or 0)
        page = headers.page_id or 0
        self.is_offline = False
        is_renewed, self._is_renewed = self._is_renewed, False
        if not page:
            self._break_group()
            if is_renewed and self.last is not None and self.last.pages == [(b"", message.body)] and not status:
                return False  # the current value once more, because we have asked once more
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
        """Give an update to all subscribers. What they get at once is put together once for all of them."""
        hold = None
        if ack_id and self.wish.qos >= DURABLE:
            hold = Hold(connection, self.desk)
            hold.add(ack_id)
            hold.begin()
        now, status = self.desk.now, update.status
        is_last = is_closed(status)
        tail = STATUS_HEADS[status] + update.pages[0][1]
        for subscriber in tuple(self.subscribers) if is_last else self.subscribers:
            link, queue = subscriber.peer.connection, subscriber.queue
            if (
                link is None
                or not subscriber.is_quick
                or queue.waiting
                or queue.has_lost
                or is_last
                or not link.forward(p.SUB_R, subscriber.request_id, _PLAIN_HEADER, tail, now)
            ):
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


def _status_only(status: int) -> Update:
    return Update([(b"", b"")], status)


def _page_head(headers: Headers) -> bytes:
    return write_headers(Headers(sequence_id=headers.sequence_id, page_id=headers.page_id))
