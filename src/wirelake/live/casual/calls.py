"""Service calls: run by a handler here, or passed on to the domain that offers the service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocols import casual
from ...protocols.casual import Call as CallResult
from ...protocols.casual import Parent, Service, TransactionState, Xid
from ..core.effects import Call, Cancel, Done, Effect, Failed, Result
from .branches import Branch
from .connections import Inbound
from .discovery import ADMIN
from .events import TransactionEnded
from .handlers import Answer, Invocation, ServiceEntry
from .peers import Peer
from .wire import (
    ACTIVE,
    EMPTY_BUFFER,
    NULL_XID,
    OK,
    ROLLBACK_ONLY,
    TIMEOUT_ROLLBACK_ONLY,
    TPENOENT,
    TPESVCERR,
    TPESVCFAIL,
    TPESYSTEM,
    TPETIME,
    TPETRAN,
    TPNOREPLY,
    TPNOTIME,
    TPNOTRAN,
    XA_RBTIMEOUT,
    Buffer,
    is_null,
)

if TYPE_CHECKING:
    from .session import CasualSession

Respond = Callable[[Answer, float], None]


@dataclass(slots=True, eq=False)
class Running:
    """A call in progress. ``branch`` is the transaction of the caller, ``own`` one that began with the call."""

    calls: Calls
    service: str
    buffer: Buffer
    parent: str
    execution: bytes
    flags: int
    deadline: float | None
    respond: Respond
    branch: Branch | None = None
    own: Branch | None = None
    own_answer: Answer | None = None
    """What the caller hears if ``own`` is committed."""
    effect: Effect | None = None
    is_over: bool = False
    connection: Inbound | None = None
    """Where it came from; None: from our own application."""

    @property
    def caller(self) -> bytes:
        """The domain that called, to which a call is not passed back."""
        return self.connection.domain_id if self.connection is not None else b""

    def due(self, now: float) -> None:
        """Its time is up: the caller hears of it, and what it did is rolled back."""
        if self.branch is not None:
            self.branch.spoil(XA_RBTIMEOUT)
        if self.effect is not None:
            self.calls.session.want(Cancel(self.effect))
        self.end(Answer(TPETIME), now)

    def end(self, answer: Answer, now: float) -> None:
        if not self.is_over:
            self.is_over = True
            if self.deadline is not None:
                self.calls.session.timers.drop(self)
            if answer.status != OK and self.branch is not None:
                self.branch.spoil()
            self.respond(answer, now)


class Calls:
    """Calls that came to us, and calls of our own application."""

    def __init__(self, session: CasualSession) -> None:
        self.session = session

    def called(self, connection: Inbound, message: casual.ServiceCallRequest, now: float) -> None:
        session = self.session
        session.counts["calls"] += 1
        is_new = connection.begin(message.correlation, len(message.buffer.payload))
        timeout = message.service.timeout
        is_limited = timeout > 0 and not message.flags & TPNOTIME
        call = Running(
            self,
            message.service.name,
            message.buffer,
            message.parent.name,
            message.execution,
            message.flags,
            now + connection.units.seconds(timeout) if is_limited else None,
            lambda answer, now: self._reply(connection, message, call, answer),
            connection=connection,
        )
        if not is_new:
            if not message.flags & TPNOREPLY:
                state = ACTIVE if is_null(message.xid) else ROLLBACK_ONLY
                connection.send(_reply_to(message, Answer(TPESYSTEM), state))
        elif is_null(message.xid) or message.flags & (TPNOREPLY | TPNOTRAN):
            self.start(call, now)
        else:
            session.branches.join(connection, message.xid, lambda branch, now: self._joined(call, branch, now), now)

    def _reply(self, connection: Inbound, message: casual.ServiceCallRequest, call: Running, answer: Answer) -> None:
        connection.end(message.correlation)
        if message.flags & TPNOREPLY:
            return
        state = ACTIVE
        if not is_null(message.xid) and (answer.status != OK or (call.branch and call.branch.spoiled)):
            state = TIMEOUT_ROLLBACK_ONLY if answer.status == TPETIME else ROLLBACK_ONLY
        connection.send(_reply_to(message, answer, state))

    def _joined(self, call: Running, branch: Branch, now: float) -> None:
        if not branch.takes_work:
            call.end(Answer(TPETRAN), now)
            return
        branch.execution = call.execution
        call.branch = branch
        self.start(call, now)

    def start(self, call: Running, now: float) -> None:
        """Run a call, here or where its service is."""
        if call.deadline is not None:
            self.session.timers.set(call, call.deadline)
        service = self.session.services.get(call.service)
        if service is None or service.is_conversational:
            self._pass_on(call, now)
        elif service.category == ADMIN and call.connection is not None:
            call.end(Answer(TPENOENT), now)
        else:
            self._run(call, service, now)

    # --- here

    def _run(self, call: Running, service: ServiceEntry, now: float) -> None:
        branch = call.branch if service.transaction in ("auto", "join") else None
        if branch is None and service.transaction in ("auto", "atomic"):
            call.own = branch = self.session.branches.root(lambda ended, now: self._own_ended(call, ended, now))
            branch.execution = call.execution
        if service.timeout and (call.deadline is None or now + service.timeout < call.deadline):
            call.deadline = now + service.timeout
            self.session.timers.set(call, call.deadline)
        if branch is not None:
            branch.calls += 1
        invocation = Invocation(call.service, call.buffer, call.execution, call.deadline, branch, call.connection)
        call.effect = Call(service.run, invocation)
        self.session.want_then(call.effect, lambda result, now: self._ran(call, branch, result, now))

    def _ran(self, call: Running, branch: Branch | None, result: Result, now: float) -> None:
        call.effect = None
        if branch is not None:
            branch.calls -= 1
        if isinstance(result, Done) and isinstance(result.value, Answer):
            answer = result.value
        else:
            answer = Answer(TPESVCERR)
            if isinstance(result, Failed):
                self.session.note("error", "a service failed", service=call.service, reason=repr(result.error))
        if answer.status not in (OK, TPESVCFAIL):
            self.session.counts["calls_failed"] += 1
        if call.own is not None:
            call.own_answer = answer
            self.session.coordinator.end(call.own, now, commits=answer.status == OK and not call.is_over)
        else:
            call.end(answer, now)

    def _own_ended(self, call: Running, ended: TransactionEnded, now: float) -> None:
        """The transaction of the call has its outcome: only now the caller hears of the result."""
        answer = call.own_answer
        assert answer is not None
        if answer.status == OK and ended.outcome != "committed":
            answer = Answer(TPESVCERR)
        call.end(answer, now)

    # --- elsewhere

    def _pass_on(self, call: Running, now: float) -> None:
        found = lambda peer, now: self._found(call, peer, now)  # noqa: E731
        self.session.discovery.find_service(call.service, found, now, execution=call.execution, without=call.caller)

    def _found(self, call: Running, peer: Peer | None, now: float) -> None:
        if call.is_over:
            return
        if peer is None:
            call.end(Answer(TPENOENT), now)
        elif call.branch is not None and not call.branch.takes_work:
            call.end(Answer(TPETRAN), now)
        else:
            self.send(call, peer, now)

    def send(self, call: Running, peer: Peer, now: float) -> None:
        """Send a call to a peer, with the time that is left."""
        session, connection = self.session, peer.connection
        if connection is None or not connection.is_ready:
            call.end(Answer(TPESVCERR), now)
            return
        left = None if call.deadline is None else call.deadline - now
        xid: Xid = NULL_XID
        if call.branch is not None:
            xid = session.branches.involve(call.branch, peer).xid
        service = Service(call.service, connection.units.duration(left))
        correlation, flags = session.ids.uuid(), call.flags
        request = casual.ServiceCallRequest(
            correlation, call.execution, service, Parent(call.parent), xid, flags, call.buffer
        )
        if flags & TPNOREPLY:
            connection.send(request)
            call.end(Answer(OK), now)
            return
        branch = call.branch
        if branch is not None:
            branch.calls += 1

        def replied(reply: Any, now: float) -> None:
            if branch is not None:
                branch.calls -= 1
            self._replied(call, peer, reply, now)

        session.timers.drop(call)
        session.peers.ask(peer, request, (casual.ServiceCallReply,), left, replied, now)

    def _replied(self, call: Running, peer: Peer, reply: Any, now: float) -> None:
        if reply is None:
            is_late = call.deadline is not None and now >= call.deadline
            if is_late and call.branch is not None:
                call.branch.spoil(XA_RBTIMEOUT)
            call.end(Answer(TPETIME if is_late else TPESVCERR), now)
            return
        status = reply.call.status
        if status == TPENOENT:
            peer.services.pop(call.service, None)
        if call.branch is not None and (status != OK or reply.transaction.state != ACTIVE):
            call.branch.spoil()
        has_buffer = status in (OK, TPESVCFAIL)
        call.end(Answer(status, reply.call.code, reply.buffer if has_buffer else EMPTY_BUFFER), now)


def _reply_to(message: casual.ServiceCallRequest, answer: Answer, state: int) -> casual.ServiceCallReply:
    result, xid = CallResult(answer.status, answer.code), message.xid
    return casual.ServiceCallReply(
        message.correlation, message.execution, result, xid, TransactionState(state), answer.buffer
    )
