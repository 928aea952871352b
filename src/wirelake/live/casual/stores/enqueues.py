"""Adds messages to queues: many with one statement, whose fixed costs are most of what a message costs.

A value that is bound costs more than a row's place in an index. So what most messages leave empty is a default of the
table, and there is a statement for messages that have nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, groupby

from ...storage.database import Database, Row, any_of, in_powers
from ..store import NIL, Enqueue, Enqueued, Ready
from .schema import ADDED, DELAYED, PREPARING, READY, pack_text, pack_xid, selector_of

MOST_ROWS = 128
"""Of one insert."""
IN_USE = Enqueued(NIL, reason="the id is in use")
PLAIN = "queue, id, timestamp, type, payload"
IN_BRANCH = f"{PLAIN}, branch, owner, state"
WHOLE = f"{IN_BRANCH}, available, selector, properties, reply"
"""The columns of messages that have a type and a payload alone, of such in a branch, and of any other."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of the store. ``error`` is the number of its error queue; an error queue has none."""

    number: int
    name: str
    retries: int
    retry_delay: int
    capacity: int
    error: int | None


class Enqueues:
    """``find`` returns a queue by its name, ``is_full`` tells whether it takes no more."""

    def __init__(
        self, database: Database, find: Callable[[str], Queue | None], is_full: Callable[[Queue], bool]
    ) -> None:
        self._database = database
        self._find = find
        self._is_full = is_full

    def enqueue_all(self, requests: Sequence[Enqueue]) -> list[Enqueued]:
        """Add messages in their order."""
        closed = self._closed(requests)
        results: list[Enqueued] = []
        accepted: list[Enqueue] = []
        for request in requests:
            queue = self._find(request.queue)
            if queue is not None and not queue.capacity and request.xid not in closed:
                accepted.append(request)
                continue
            results += self._insert(accepted)  # what came before it counts
            accepted = []
            if queue is None:
                results.append(Enqueued(NIL, reason="no such queue"))
            elif self._is_full(queue):
                results.append(Enqueued(NIL, reason="the queue is full"))
            elif request.xid in closed:
                results.append(Enqueued(NIL, reason="the branch takes no more work"))
            else:
                accepted.append(request)
        return results + self._insert(accepted)

    def _closed(self, requests: Sequence[Enqueue]) -> set[object]:
        """Return the xids of these requests that take no more work: their branches are prepared or finished."""
        named = {pack_xid(request.xid): request.xid for request in requests if request.xid is not None}
        if not named:
            return set()
        marks, values = any_of(named)
        found = self._database.execute(
            f"SELECT xid FROM branches WHERE xid IN ({marks}) AND state <> {PREPARING}", values
        )
        return {named[bytes(row[0])] for row in found}

    def _insert(self, requests: list[Enqueue]) -> list[Enqueued]:
        """Write messages."""
        results: list[Enqueued] = []
        for is_unique, run in groupby(requests, lambda request: request.is_unique):
            some = list(run)
            columns, row = self._shape(some)
            for part in in_powers(some, MOST_ROWS):
                values = list(chain.from_iterable(map(row, part)))
                if is_unique:
                    self._database.execute(_insert_of(columns, len(part)), values)
                    results += map(_enqueued, part)
                else:
                    rows = self._database.execute(_insert_of(columns, len(part), UNLESS_IN_USE), values)
                    results += _of_those(part, {bytes(found[0]) for found in rows})
        return results

    def _shape(self, requests: list[Enqueue]) -> tuple[str, Callable[[Enqueue], Row]]:
        """Return the columns that all of them need, and what gives their values."""
        for request in requests:
            message = request.message
            if message.properties or message.available or message.reply:
                return WHOLE, self._whole
        in_branch = sum(request.xid is not None for request in requests)
        if not in_branch:
            return PLAIN, self._plain
        return (IN_BRANCH, self._in_branch) if in_branch == len(requests) else (WHOLE, self._whole)

    def _plain(self, request: Enqueue) -> Row:
        message, queue = request.message, self._find(request.queue)
        assert queue is not None
        return queue.number, message.id, request.now, pack_text(message.type), message.payload

    def _in_branch(self, request: Enqueue) -> Row:
        assert request.xid is not None
        return *self._plain(request), pack_xid(request.xid), self._database.owner, ADDED

    def _whole(self, request: Enqueue) -> Row:
        message = request.message
        properties = pack_text(message.properties)
        held: Row = (None, None, READY if message.available < request.now else DELAYED)
        if request.xid is not None:
            held = (pack_xid(request.xid), self._database.owner, ADDED)
        selected = (message.available, selector_of(properties), properties, pack_text(message.reply))
        return *self._plain(request), *held, *selected


UNLESS_IN_USE = "ON CONFLICT (id) DO NOTHING RETURNING id"


@cache
def _insert_of(columns: str, rows: int, otherwise: str = "") -> str:
    row = f"({', '.join('?' * len(columns.split(',')))})"
    return f"INSERT INTO messages ({columns}) VALUES {', '.join([row] * rows)} {otherwise}"


def _of_those(requests: Iterable[Enqueue], added: set[bytes]) -> list[Enqueued]:
    """Of several with one id the first was added."""
    results: list[Enqueued] = []
    for request in requests:
        results.append(_enqueued(request) if request.message.id in added else IN_USE)
        added.discard(request.message.id)
    return results


def _enqueued(request: Enqueue) -> Enqueued:
    message = request.message
    if request.xid is not None:
        return Enqueued(message.id)
    return Enqueued(message.id, (Ready(request.queue, message.id, message.properties, message.available),))
