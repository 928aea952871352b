"""Dequeues that wait for a message: found in the order of their arrival, among those whose selector fits."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from .branches import Branch
from .connections import Inbound
from .store import NIL, Ready, StoredMessage

Selector = tuple[str, bytes, str]
"""The queue, an id or nil, properties or nothing; the id decides alone."""
SLACK = 64


@dataclass(slots=True, eq=False)
class Waiter:
    """A dequeue. ``got`` is called once: with the message, or None."""

    selector: Selector
    branch: Branch | None
    blocks: bool
    got: Callable[[StoredMessage | None, float], None]
    retry: Callable[[Waiter, float], None]
    connection: Inbound | None = None
    number: int = 0
    is_trying: bool = False
    """Whether the store is asked for it right now."""
    is_listed: bool = False
    is_waiting: bool = False
    is_over: bool = False
    woken_by: Ready | None = None

    def __lt__(self, other: Waiter) -> bool:
        return self.number < other.number

    def due(self, now: float) -> None:
        self.retry(self, now)


@dataclass(slots=True)
class _Line:
    """Those with the same selector, the first to come first. Those that are gone are thrown out now and then."""

    heap: list[Waiter] = field(default_factory=list)
    gone: int = 0

    def first(self) -> Waiter | None:
        while self.heap and (self.heap[0].is_over or self.heap[0].is_trying):
            waiter = heapq.heappop(self.heap)
            waiter.is_listed = False
            self.gone -= waiter.is_over
        return self.heap[0] if self.heap else None

    def clean(self) -> None:
        if self.gone > SLACK + len(self.heap) // 2:
            self.heap = [waiter for waiter in self.heap if not waiter.is_over]
            heapq.heapify(self.heap)
            self.gone = 0


class Waiters:
    """All of them."""

    def __init__(self) -> None:
        self._lines: dict[Selector, _Line] = {}
        self._count = 0
        self.by_queue: dict[str, int] = {}
        """How many wait, of queues for which somebody does."""

    def __len__(self) -> int:
        return sum(self.by_queue.values())

    def has_any(self, queue: str) -> bool:
        return queue in self.by_queue

    def add(self, waiter: Waiter) -> None:
        """It has to wait; one that waited before keeps its place."""
        if not waiter.number:
            self._count += 1
            waiter.number = self._count
        if not waiter.is_waiting:
            waiter.is_waiting = True
            self.by_queue[waiter.selector[0]] = self.by_queue.get(waiter.selector[0], 0) + 1
        if not waiter.is_listed:
            waiter.is_listed = True
            heapq.heappush(self._lines.setdefault(waiter.selector, _Line()).heap, waiter)

    def remove(self, waiter: Waiter) -> None:
        """It waits no more."""
        waiter.is_over = True
        if waiter.is_waiting:
            waiter.is_waiting = False
            queue = waiter.selector[0]
            self.by_queue[queue] -= 1
            if not self.by_queue[queue]:
                del self.by_queue[queue]
        line = self._lines.get(waiter.selector)
        if line is not None:
            line.gone += waiter.is_listed
            line.clean()
            if line.first() is None:
                del self._lines[waiter.selector]

    def first(self, ready: Ready) -> Waiter | None:
        """Return who is first in line for a message."""
        fitting = ((ready.queue, ready.id, ""), (ready.queue, NIL, ready.properties), (ready.queue, NIL, ""))
        lines = (self._lines.get(selector) for selector in dict.fromkeys(fitting))
        found = [waiter for line in lines if line is not None and (waiter := line.first()) is not None]
        return min(found, default=None)

    def heads(self, most: int) -> list[Waiter]:
        """Return the first of some lines, of others the next time."""
        turn = list(islice(self._lines, most))
        for selector in turn:
            self._lines[selector] = self._lines.pop(selector)
        return [waiter for selector in turn if (waiter := self._lines[selector].first()) is not None]


def selector_of(queue: str, message_id: bytes, properties: str) -> Selector:
    return (queue, message_id, "" if message_id != NIL else properties)
