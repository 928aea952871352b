"""What waits for one subscriber: its quality of service, limits of bytes and age, and what it has not acknowledged.

An update is one message of a subscription, or the pages of one; all subscribers share it. A queue has no connection and
no clock, and forgets only from its beginning: what it forgets, and what was lost by that, it says.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ...protocols.dsa import LONG_HEAD
from .connection import covers

NEWEST, WHILE_CONNECTED, DURABLE, PERSISTENT = range(4)
"""The qualities of service."""
DEFAULT_BYTES, DEFAULT_SECONDS = 65_536, 120
MOST_BYTES, MOST_SECONDS = 1_000_000, 86_400
ACK_SECONDS = 30.0
"""A peer that has acknowledged nothing for so long, ever, does not acknowledge at all."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a subscriber asks for, or several of them together."""

    qos: int = NEWEST
    size: int = DEFAULT_BYTES
    seconds: int = DEFAULT_SECONDS
    is_priority: bool = False

    @classmethod
    def of(cls, qos: int | None, size: int | None, seconds: int | None, is_priority: bool = False) -> Wish:
        """Return what headers ask for: the usual where they say nothing, and never too much."""
        size = DEFAULT_BYTES if size is None or size <= 0 else min(size, MOST_BYTES)
        seconds = DEFAULT_SECONDS if seconds is None or seconds <= 0 else min(seconds, MOST_SECONDS)
        return cls(qos or NEWEST, size, seconds, is_priority)

    def joined(self, other: Wish) -> Wish:
        """Return what satisfies both."""
        return Wish(
            max(self.qos, other.qos),
            max(self.size, other.size),
            max(self.seconds, other.seconds),
            self.is_priority or other.is_priority,
        )


@dataclass(slots=True, eq=False)
class Update:
    """``pages`` are headers without status, and body; more of them may come until it is ``is_whole``. An update that is
    ``is_broken`` will never be whole. One without a value only tells a status.
    """

    pages: list[tuple[bytes, bytes]]
    status: int = 0
    """That of its last page."""
    is_whole: bool = True
    is_broken: bool = False
    count: int = 1
    """Pages of the whole."""
    sequence: int | None = None
    """What its pages have in common."""

    @property
    def has_value(self) -> bool:
        return bool(self.pages[0][1])

    @property
    def size(self) -> int:
        """Bytes of its messages, with their status."""
        return sum(LONG_HEAD + 2 + len(head) + len(body) for head, body in self.pages)


@dataclass(slots=True, eq=False)
class Item:
    """An update in the queue. ``sent`` counts its pages; ``ack_id`` and ``sent_at`` are those of the last one."""

    number: int
    update: Update
    at: float
    sent: int = 0
    sent_at: float = 0.0
    ack_id: int = 0


@dataclass(slots=True, eq=False)
class Queue:
    """``waiting`` is unsent, but for pages of the first; ``unacked`` is sent and kept until it is acknowledged. Numbers
    grow; all below ``first`` are forgotten.
    """

    wish: Wish
    waiting: deque[Item] = field(default_factory=deque)
    unacked: deque[Item] = field(default_factory=deque)
    has_lost: bool = False
    """Whether the subscriber has to be told that something was dropped."""
    losses: int = 0
    next_number: int = 1
    _bytes: int = 0
    """Of what waits."""
    _unacked_bytes: int = 0

    @property
    def is_durable(self) -> bool:
        return self.wish.qos >= DURABLE

    @property
    def first(self) -> int:
        """The number of the oldest update that is kept."""
        if self.unacked:
            return self.unacked[0].number
        return self.waiting[0].number if self.waiting else self.next_number

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, so that what comes may be sent at once."""
        return not self.waiting and not self.has_lost

    def put(self, update: Update, now: float) -> Item:
        """Add an update; what is too much or too old is dropped."""
        if self.wish.qos == NEWEST:
            self._replace(update)
        item = Item(self.next_number, update, now)
        self.next_number += 1
        self.waiting.append(item)
        self._bytes += update.size
        self.trim(now)
        return item

    def grow(self, update: Update, added: int, now: float) -> None:
        """A page of the newest update has come."""
        if self.waiting and self.waiting[-1].update is update:
            self._bytes += added
            self.trim(now)

    def next(self) -> Item | None:
        """Return what to send from, if there is a page of it."""
        while self.waiting:
            item = self.waiting[0]
            if not item.update.is_broken:
                return item if item.sent < len(item.update.pages) else None
            self._drop_first(is_loss=False)
        return None

    def page_sent(self, item: Item, ack_id: int, now: float) -> None:
        """The next page of the first is handed over."""
        item.sent += 1
        item.ack_id, item.sent_at = ack_id, now
        if item.sent < len(item.update.pages) or not item.update.is_whole:
            return
        self.waiting.popleft()
        self._bytes -= item.update.size
        if self.is_durable:
            self.unacked.append(item)
            self._unacked_bytes += item.update.size
            while self._unacked_bytes > self.wish.size and len(self.unacked) > 1:
                self._forget_oldest()

    def acked(self, ack_id: int) -> bool:
        """Forget what the peer has; return whether that was something."""
        before = len(self.unacked)
        while self.unacked and covers(ack_id, self.unacked[0].ack_id):
            self._forget_oldest()
        return len(self.unacked) < before

    def disconnected(self, heard_at: float, *, has_acks: bool) -> None:
        """The connection is gone. What is not acknowledged will be sent again, unless the peer never acknowledges: it
        was heard long after that was sent, and has not.
        """
        while self.unacked and not has_acks and heard_at - self.unacked[0].sent_at > ACK_SECONDS:
            self._forget_oldest()
        while self.unacked:
            item = self.unacked.pop()
            self.waiting.appendleft(item)
            self._bytes += item.update.size
        self._unacked_bytes = 0
        for item in self.waiting:
            item.sent = 0
        if not self.is_durable:
            self.clear()

    def clear(self) -> None:
        self.waiting.clear()
        self.unacked.clear()
        self._bytes = self._unacked_bytes = 0
        self.has_lost = False

    def change(self, wish: Wish, now: float) -> None:
        """The subscriber wants something else."""
        self.wish = wish
        if not self.is_durable:
            self.unacked.clear()
            self._unacked_bytes = 0
        if wish.qos == NEWEST:
            while len(self.waiting) > 1 and not self.waiting[0].sent:
                self._drop_first(is_loss=False)
        self.trim(now)

    def trim(self, now: float) -> None:
        """Drop what is too much: all but the last, and what is being sent. Drop what is too old, never the last."""
        oldest = now - self.wish.seconds
        while len(self.waiting) > 1 and self.waiting[0].at < oldest:
            self._drop_first(is_loss=True)
        if self._bytes <= self.wish.size or len(self.waiting) < 2:
            return
        last = self.waiting[-1]
        kept = self.waiting[0] if self.waiting[0].sent else None
        while self.waiting[0] is not last:
            self._drop_first(is_loss=self.waiting[0] is not kept)
        if kept is not None:
            self.waiting.appendleft(kept)
            self._bytes += kept.update.size

    def restore(self, number: int, update: Update, at: float) -> None:
        """Put back what was stored, oldest first."""
        self.waiting.append(Item(number, update, at))
        self._bytes += update.size
        self.next_number = number + 1

    def _replace(self, update: Update) -> None:
        """Of unsent updates only the newest counts; a status alone replaces no value."""
        while self.waiting and not self.waiting[-1].sent:
            if self.waiting[-1].update.has_value and not update.has_value:
                break
            self._bytes -= self.waiting.pop().update.size

    def _drop_first(self, *, is_loss: bool) -> None:
        self._bytes -= self.waiting.popleft().update.size
        if is_loss:
            self.has_lost = True
            self.losses += 1

    def _forget_oldest(self) -> None:
        self._unacked_bytes -= self.unacked.popleft().update.size
