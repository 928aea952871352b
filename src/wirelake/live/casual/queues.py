"""Enqueue and dequeue, for peers and for our own application. Messages are in the store, waiting dequeues are here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import structs

from ...protocols import casual
from ...protocols.casual import Dequeued as DequeuedMessage
from ..core.effects import Done, Result, Store
from ..core.link import Link
from .branches import Branch
from .connections import Inbound
from .store import NIL, Dequeue, Dequeued, Enqueue, Enqueued, QueueMessage, QueueSettings, Ready, StoredMessage
from .store import error_queue as error_queue_of
from .waiters import Waiter, Waiters, selector_of
from .wire import MOST_TIME, NULL_XID, XA_RBROLLBACK, Units, Xid, is_null

if TYPE_CHECKING:
    from .session import CasualSession

POLL_SECONDS, SHARED_POLL_SECONDS = 5.0, 0.2
"""How often waiting dequeues look for messages of which nobody told us: somebody else may use the store."""

POLLED = 64
"""How many selectors look at a time."""

Got = Callable[[StoredMessage | None, float], None]
Put = Callable[[Enqueued, float], None]


class Queues:
    """The queues of this domain. ``retries`` has all of them, error queues too."""

    def __init__(self, session: CasualSession, settings: Iterable[QueueSettings]) -> None:
        self.session = session
        self.retries: dict[str, int] = {}
        for one in settings:
            self.retries[one.name] = one.retries
            self.retries.setdefault(error_queue_of(one.name), 0)
        self.waiters = Waiters()
        self.poll_seconds = POLL_SECONDS
        self._is_polling = False

    # --- enqueue

    def enqueue_asked(self, connection: Inbound, message: casual.QueueEnqueueRequest, now: float) -> None:
        if not connection.begin(message.correlation, len(message.message.payload)):
            return

        def put(result: Enqueued, now: float) -> None:
            connection.end(message.correlation)
            connection.send(casual.QueueEnqueueReply(message.correlation, message.execution, result.id))

        if message.xid.format == NULL_XID.format:  # nearly all that come are in no transaction
            self._enqueue(self._given(connection, message, None, now), None, put, now, connection.link)
        elif message.name in self.retries and self.session.branches.is_new(message.xid):
            self._enqueue_first(connection, message, put, now)
        else:

            def go_on(branch: Branch | None, now: float) -> None:
                xid = None if branch is None else message.xid
                self._enqueue(self._given(connection, message, xid, now), branch, put, now, connection.link)

            self._with_branch(connection, message, go_on, lambda now: put(Enqueued(NIL), now), now)

    def _given(self, connection: Inbound, message: casual.QueueEnqueueRequest, xid: Xid | None, now: float) -> Enqueue:
        """Return what the store is asked for, for a message as it came."""
        given, time = message.message, self.session.time(now)
        is_unique = given.id == NIL
        new = QueueMessage(
            self.session.ids.message(time) if is_unique else given.id,
            given.properties,
            given.reply,
            connection.units.time(given.available) if given.available else 0,
            given.type,
            given.payload,
        )
        return Enqueue(message.name, new, xid, time, is_unique)

    def _enqueue_first(self, connection: Inbound, message: casual.QueueEnqueueRequest, put: Put, now: float) -> None:
        """Begin a branch with a message. If the store knows the branch it may refuse, and only then has to be asked."""
        session = self.session
        branch = session.branches.make(message.xid)
        branch.execution = message.execution

        def refused(done: Enqueued, now: float) -> None:
            session.branches.enter(connection, branch, now)
            put(done, now)

        def stored(result: Result, now: float) -> None:
            done = self._stored(result)
            if done.id == NIL:
                branch.after.insert(0, lambda now: refused(done, now))
                session.branches.look_up(branch)
                return
            branch.work = 1
            session.branches.enter(connection, branch, now)
            if branch.state == "unknown":  # its connection is gone
                branch.state = "active"
                session.resource.abandon(branch, XA_RBROLLBACK, now)
            put(done, now)
            session.branches.known(branch, now)

        request = self._given(connection, message, message.xid, now)
        session.want_then(Store(request, link=connection.link), stored)

    def _stored(self, result: Result) -> Enqueued:
        done: Enqueued = result.value if type(result) is Done else Enqueued(NIL, (), "the store takes no more")
        self.session.counts["enqueued" if done.id != NIL else "enqueues_refused"] += 1
        return done

    def _with_branch(
        self,
        connection: Inbound,
        message: Any,
        go_on: Callable[[Branch | None, float], None],
        refuse: Callable[[float], None],
        now: float,
    ) -> None:
        """Go on in the branch of a request, if it has one and that takes work."""
        if is_null(message.xid):
            go_on(None, now)
            return

        def joined(branch: Branch, now: float) -> None:
            if branch.takes_work:
                branch.execution = message.execution
                go_on(branch, now)
            else:
                refuse(now)

        self.session.branches.join(connection, message.xid, joined, now)

    def enqueue(self, queue: str, message: QueueMessage, branch: Branch | None, put: Put, now: float) -> None:
        """Store a message; ``put`` hears of it when it is stored, or refused."""
        time, is_unique = self.session.time(now), message.id == NIL
        if is_unique:
            message = structs.replace(message, id=self.session.ids.message(time))
        xid = None if branch is None else branch.xid
        self._enqueue(Enqueue(queue, message, xid, time, is_unique), branch, put, now, None)

    def _enqueue(self, request: Enqueue, branch: Branch | None, put: Put, now: float, link: Link | None) -> None:
        if request.queue not in self.retries:
            put(Enqueued(NIL, (), "there is no such queue"), now)
            return
        if branch is not None:
            if not branch.takes_work:
                put(Enqueued(NIL, (), "the transaction takes no more work"), now)
                return
            branch.begin()

        def stored(result: Result, now: float) -> None:
            done = self._stored(result)
            if branch is not None:
                branch.work += done.id != NIL
            put(done, now)
            for ready in done.ready:
                if ready.queue in self.waiters.by_queue:
                    self.offer(ready, now)
            if branch is not None:
                branch.end(now)

        self.session.want_then(Store(request, link=link), stored)

    # --- dequeue

    def dequeue_asked(self, connection: Inbound, message: casual.QueueDequeueRequest, now: float) -> None:
        if not connection.begin(message.correlation, 0):
            return

        def got(stored: StoredMessage | None, now: float) -> None:
            connection.end(message.correlation)
            found = () if stored is None else (_shown(stored, connection.units),)
            connection.send(casual.QueueDequeueReply(message.correlation, message.execution, found))

        def go_on(branch: Branch | None, now: float) -> None:
            blocks = message.block and connection.waiting < connection.limits.dequeues
            selector = message.selector
            self.dequeue(message.name, selector.id, selector.properties, branch, got, now, blocks, connection)

        self._with_branch(connection, message, go_on, lambda now: got(None, now), now)

    def dequeue(
        self,
        queue: str,
        message_id: bytes,
        properties: str,
        branch: Branch | None,
        got: Got,
        now: float,
        blocks: bool = False,
        connection: Inbound | None = None,
    ) -> Waiter | None:
        """Take a message; ``got`` gets it, or None. Return what ``cancel`` takes back."""
        if queue not in self.retries or (branch is not None and not branch.takes_work):
            got(None, now)
            return None
        waiter = Waiter(selector_of(queue, message_id, properties), branch, blocks, got, self._try, connection)
        if branch is not None:
            branch.on_rollback[waiter] = lambda now: self.cancel(waiter, now)
        if connection is not None:
            connection.waiters[waiter] = None
        self._try(waiter, now)
        return waiter

    def _try(self, waiter: Waiter, now: float, woken_by: Ready | None = None) -> None:
        if waiter.is_over or waiter.is_trying:
            return
        if waiter.branch is not None and not waiter.branch.takes_work:
            self.cancel(waiter, now)
            return
        waiter.is_trying, waiter.woken_by = True, woken_by
        session, branch = self.session, waiter.branch
        xid = None if branch is None else branch.xid
        if branch is not None:
            branch.begin()
        request = Dequeue(*waiter.selector, xid, session.time(now))
        link = waiter.connection.link if waiter.connection is not None else None
        session.want_then(Store(request, link=link), lambda result, now: self._tried(waiter, result, now))

    def _tried(self, waiter: Waiter, result: Result, now: float) -> None:
        waiter.is_trying = False
        done: Dequeued = result.value if isinstance(result, Done) else Dequeued(None)
        woken_by, branch = waiter.woken_by, waiter.branch
        if done.message is not None:
            self._took(waiter, done.message, now)
            if woken_by is not None and woken_by.id != done.message.id:
                self.offer(woken_by, now)
        elif not waiter.blocks:
            self._end(waiter, None, now)
        elif not waiter.is_over:
            self._wait(waiter, done.next_available, now)
        if branch is not None:
            branch.end(now)

    def _took(self, waiter: Waiter, message: StoredMessage, now: float) -> None:
        branch = waiter.branch
        self.session.counts["dequeued"] += 1
        if branch is not None:
            branch.work += 1
        if waiter.is_over and branch is None:
            self._put_back(waiter.selector[0], message, now)
        elif not waiter.is_over:
            self._end(waiter, message, now)

    def _put_back(self, queue: str, message: StoredMessage, now: float) -> None:
        """Whoever asked for it is gone, and has not got it."""
        again = QueueMessage(
            message.id, message.properties, message.reply, message.available, message.type, message.payload
        )
        self.enqueue(queue, again, None, lambda result, now: None, now)

    def _wait(self, waiter: Waiter, next_available: int | None, now: float) -> None:
        if not waiter.is_waiting and waiter.connection is not None:
            waiter.connection.wait(1)
        self.waiters.add(waiter)
        if next_available is not None:
            self.session.timers.set(waiter, self.session.moment(next_available))
        self._poll_later(now)

    def _end(self, waiter: Waiter, message: StoredMessage | None, now: float) -> None:
        if waiter.is_over:
            return
        if waiter.is_waiting and waiter.connection is not None:
            waiter.connection.wait(-1)
        self.waiters.remove(waiter)
        self.session.timers.drop(waiter)
        if waiter.branch is not None:
            waiter.branch.on_rollback.pop(waiter, None)
        if waiter.connection is not None:
            waiter.connection.waiters.pop(waiter, None)
        waiter.got(message, now)

    def cancel(self, waiter: Waiter, now: float) -> None:
        """End a dequeue without a message. One that is just found goes back, or is rolled back with its branch."""
        self._end(waiter, None, now)

    def lost(self, connection: Inbound, now: float) -> None:
        """The dequeues of a connection end with it."""
        for waiter in list(connection.waiters):
            self.cancel(waiter, now)

    def offer(self, ready: Ready, now: float) -> None:
        """A message may be taken by anybody: the first in line for it tries."""
        if not self.waiters.has_any(ready.queue):
            return
        if ready.available > self.session.time(now):
            self.session.at(self.session.moment(ready.available), lambda now: self.offer(ready, now))
            return
        waiter = self.waiters.first(ready)
        while waiter is not None and waiter.branch is not None and not waiter.branch.takes_work:
            self.cancel(waiter, now)
            waiter = self.waiters.first(ready)
        if waiter is not None:
            self._try(waiter, now, ready)

    def _poll_later(self, now: float) -> None:
        if not self._is_polling:
            self._is_polling = True
            self.session.at(now + self.poll_seconds, self._poll)

    def _poll(self, now: float) -> None:
        self._is_polling = False
        for waiter in self.waiters.heads(POLLED):
            self._try(waiter, now)
        if len(self.waiters):
            self._poll_later(now)


def _shown(message: StoredMessage, units: Units) -> DequeuedMessage:
    return DequeuedMessage(
        message.id,
        message.properties,
        message.reply,
        units.raw_time(message.available),
        message.type,
        message.payload,
        min(message.redelivered, MOST_TIME),
        units.raw_time(message.timestamp),
    )
