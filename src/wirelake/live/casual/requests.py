"""What our own application asks: calls, queues, discovery, transactions; here, or of other domains.

Each request has a token, and ends with one event that has it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...protocols import casual
from ...protocols.casual import Enqueued as EnqueuedMessage
from ...protocols.casual import Selector, Xid
from . import events
from .branches import Branch
from .calls import Running
from .connections import Inbound
from .discovery import Answers
from .handlers import Answer
from .peers import Peer
from .queues import _shown
from .store import NIL, Enqueued, QueueMessage, StoredMessage
from .waiters import Waiter
from .wire import (
    MAX_QUEUE_NAME,
    MAX_SERVICE_NAME,
    NULL_XID,
    TPENOENT,
    TPNOREPLY,
    TPNOTIME,
    TPNOTRAN,
    Buffer,
    Units,
    check_name,
)

if TYPE_CHECKING:
    from .session import CasualSession

NANOSECONDS = Units(1)


@dataclass(slots=True, eq=False)
class _Dequeue:
    """A dequeue of ours that has not ended."""

    waiter: Waiter | None = None


class Requests:
    """Commands of the application. ``peer`` is the name of one; by default the request goes where the service or the
    queue is: here, or to the nearest peer that offers it.
    """

    def __init__(self, session: CasualSession) -> None:
        self.session = session
        self.roots: dict[int, Branch] = {}
        self._count = 0

    def _token(self) -> int:
        self._count += 1
        return self._count

    def _tell(self, event: Any) -> None:
        self.session.events.append(event)

    # --- calls

    def call(
        self,
        service: str,
        buffer: Buffer,
        now: float,
        *,
        timeout: float | None = None,
        branch: Branch | None = None,
        peer: str | None = None,
        no_reply: bool = False,
        parent: str = "",
        execution: bytes | None = None,
    ) -> int:
        """Call a service; CallEnded tells how that went."""
        check_name(service, MAX_SERVICE_NAME, "service.name")
        token = self._token()
        flags = TPNOREPLY | TPNOTRAN if no_reply else 0
        flags |= 0 if timeout is not None else TPNOTIME
        execution = execution or (branch.execution if branch is not None and any(branch.execution) else None)

        def respond(answer: Answer, now: float) -> None:
            self._tell(events.CallEnded(token, answer.status, answer.code, answer.buffer))

        call = Running(
            self.session.calls,
            service,
            buffer,
            parent,
            execution or self.session.ids.uuid(),
            flags,
            None if timeout is None else now + timeout,
            respond,
            branch=None if no_reply else branch,
        )
        if peer is None:
            self.session.calls.start(call, now)
        else:
            self._call_peer(call, peer, now)
        return token

    def _call_peer(self, call: Running, peer: str, now: float) -> None:
        known = self.session.peers.by_name.get(peer)
        if known is None:
            call.end(Answer(TPENOENT), now)
        else:
            self.session.calls.send(call, known, now)

    # --- queues

    def enqueue(
        self, queue: str, message: QueueMessage, now: float, *, branch: Branch | None = None, peer: str | None = None
    ) -> int:
        """Enqueue a message, its times in nanoseconds; EnqueueEnded tells its id."""
        check_name(queue, MAX_QUEUE_NAME, "name")
        token = self._token()

        def put(result: Enqueued, now: float) -> None:
            self._tell(events.EnqueueEnded(token, result.id, reason=result.reason))

        if peer is None and queue in self.session.queues.retries:
            self.session.queues.enqueue(queue, message, branch, put, now)
        else:
            missing = lambda now: put(Enqueued(NIL, (), "no domain offers this queue"), now)  # noqa: E731
            send = lambda found, now: self._send_enqueue(token, queue, message, branch, found, now)  # noqa: E731
            self._at_peer(queue, peer, send, missing, now)
        return token

    def _at_peer(
        self,
        queue: str,
        peer: str | None,
        send: Callable[[Peer, float], None],
        missing: Callable[[float], None],
        now: float,
    ) -> None:
        """Go on with the peer that has a queue."""
        if peer is not None:
            known = self.session.peers.by_name.get(peer)
            send(known, now) if known is not None else missing(now)
            return
        self.session.discovery.find_queue(
            queue, lambda found, now: send(found, now) if found is not None else missing(now), now
        )

    def _begin(self, branch: Branch | None, peer: Peer) -> Xid:
        """Return the xid of a request to a peer."""
        if branch is None:
            return NULL_XID
        branch.calls += 1
        return self.session.branches.involve(branch, peer).xid

    def _end(self, branch: Branch | None, *, is_lost: bool) -> None:
        if branch is not None:
            branch.calls -= 1
            if is_lost:
                branch.spoil()

    def _execution(self, branch: Branch | None) -> bytes:
        return branch.execution if branch is not None and any(branch.execution) else self.session.ids.uuid()

    def _send_enqueue(
        self, token: int, queue: str, message: QueueMessage, branch: Branch | None, peer: Peer, now: float
    ) -> None:
        session = self.session
        if branch is not None and not branch.takes_work:
            self._tell(events.EnqueueEnded(token, NIL, reason="the transaction takes no more work"))
            return
        units = peer.connection.units if peer.connection is not None else NANOSECONDS
        raw = EnqueuedMessage(
            message.id,
            message.properties,
            message.reply,
            units.raw_time(message.available),
            message.type,
            message.payload,
        )
        xid = self._begin(branch, peer)
        request = casual.QueueEnqueueRequest(session.ids.uuid(), self._execution(branch), queue, xid, raw)

        def replied(reply: Any, now: float) -> None:
            self._end(branch, is_lost=reply is None)
            if reply is None:
                self._tell(events.EnqueueEnded(token, NIL, is_lost=True))
            else:
                self._tell(events.EnqueueEnded(token, reply.id, reason="" if any(reply.id) else "the peer refused it"))

        expects = (casual.QueueEnqueueReply,)
        session.peers.ask(peer, request, expects, session.options.queue_seconds, replied, now)

    def dequeue(
        self,
        queue: str,
        now: float,
        *,
        message_id: bytes = NIL,
        properties: str = "",
        blocks: bool = False,
        branch: Branch | None = None,
        peer: str | None = None,
        connection: Inbound | None = None,
    ) -> int:
        """Dequeue a message; DequeueEnded has it, its times in nanoseconds. ``connection``: that of the call for which
        a service dequeues, which is not busy while the service waits.
        """
        check_name(queue, MAX_QUEUE_NAME, "name")
        token = self._token()

        def got(message: StoredMessage | None, now: float) -> None:
            found = () if message is None else (_shown(message, NANOSECONDS),)
            self._tell(events.DequeueEnded(token, found))

        if peer is None and queue in self.session.queues.retries:
            self.session.queues.dequeue(queue, message_id, properties, branch, got, now, blocks, connection)
            return token
        selector = Selector(properties, message_id)
        send = lambda found, now: self._send_dequeue(token, queue, selector, blocks, branch, found, now)  # noqa: E731
        self._at_peer(queue, peer, send, lambda now: got(None, now), now)
        return token

    def _send_dequeue(
        self, token: int, queue: str, selector: Selector, blocks: bool, branch: Branch | None, peer: Peer, now: float
    ) -> None:
        session = self.session
        if branch is not None and not branch.takes_work:
            self._tell(events.DequeueEnded(token, ()))
            return
        units = peer.connection.units if peer.connection is not None else NANOSECONDS
        xid = self._begin(branch, peer)
        request = casual.QueueDequeueRequest(session.ids.uuid(), self._execution(branch), queue, xid, selector, blocks)

        def replied(reply: Any, now: float) -> None:
            self._end(branch, is_lost=reply is None)
            is_refusal = isinstance(reply, casual.QueueEnqueueReply)  # what C++ 2017 sends if it has no queues
            messages = () if reply is None or is_refusal else tuple(_in_nanoseconds(m, units) for m in reply.message)
            self._tell(events.DequeueEnded(token, messages, is_lost=reply is None))

        expects = (casual.QueueDequeueReply, casual.QueueEnqueueReply)
        seconds = None if blocks else session.options.queue_seconds
        session.peers.ask(peer, request, expects, seconds, replied, now)

    # --- discovery

    def discover(
        self, services: tuple[str, ...], queues: tuple[str, ...], now: float, *, peer: str | None = None
    ) -> int:
        """Ask peers what they offer; Discovered has it."""
        token = self._token()

        def done(answers: Answers, now: float) -> None:
            self._tell(events.Discovered(token, tuple(answers.services), tuple(answers.queues)))

        only = None if peer is None else self.session.peers.by_name.get(peer)
        self.session.discovery.ask(services, queues, done, now, only=only)
        return token

    # --- transactions

    def begin(self, now: float) -> tuple[int, Branch]:
        """Begin a transaction: the branch is given to the requests that belong to it."""
        token = self._token()

        def ended(event: events.TransactionEnded, now: float) -> None:
            self.roots.pop(token, None)
            self._tell(replace(event, token=token))

        branch = self.roots[token] = self.session.branches.root(ended)
        branch.execution = self.session.ids.uuid()
        return token, branch

    def end(self, token: int, now: float, *, commits: bool) -> None:
        """Commit or roll back a transaction; TransactionEnded tells how it ended."""
        self.session.coordinator.end(self.roots[token], now, commits=commits)


def _in_nanoseconds(message: Any, units: Units) -> Any:
    return casual.Dequeued(
        message.id,
        message.properties,
        message.reply,
        units.time(message.available),
        message.type,
        message.payload,
        message.redelivered,
        units.time(message.timestamp),
    )
