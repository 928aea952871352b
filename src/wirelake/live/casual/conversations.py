"""Conversations: two ends, of which one at a time may send. Ours are initiators, services, or both ends of a bridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.effects import Call, Cancel, Done, Effect, Result
from . import events
from .branches import Branch
from .connections import Connection, Inbound, Outbound
from .conversation_wire import (
    CONNECTS,
    DISCONNECTS,
    REPLIES,
    SENDS,
    Said,
    Ways,
    read_opening,
    read_send,
    reply_status,
    service_ended,
    ways_of,
    write_disconnect,
    write_opening,
    write_reply,
    write_send,
)
from .discovery import ADMIN
from .handlers import Answer, Invocation, ServiceEntry
from .peers import Peer
from .wire import (
    MAX_SERVICE_NAME,
    NULL_XID,
    OK,
    TPEINVAL,
    TPELIMIT,
    TPENOENT,
    TPESVCERR,
    TPETRAN,
    Buffer,
    check_name,
    is_null,
)

if TYPE_CHECKING:
    from .session import CasualSession


@dataclass(slots=True, eq=False)
class Conversation:
    """One end. ``opened``, ``heard`` and ``ended`` are told to whoever uses it; ``ended`` comes once."""

    conversations: Conversations
    connection: Connection
    correlation: bytes
    execution: bytes
    ways: Ways
    is_initiator: bool
    has_control: bool
    branch: Branch | None
    opened: Callable[[int, float], None]
    heard: Callable[[Said, float], None]
    ended: Callable[[Said, float], None]
    is_open: bool = False
    is_over: bool = False

    def send(self, said: Said, now: float) -> bool:
        """Send something; tell whether we may."""
        if self.is_over or not self.is_open or not (self.has_control or said.is_end):
            return False
        self.connection.send(write_send(self.ways, self.correlation, self.execution, said))
        if said.passes_control:
            self.has_control = False
        if said.is_end:
            self.close(said.status)
        return True

    def disconnect(self, now: float) -> None:
        """End it at once, as its initiator."""
        if not self.is_over:
            self.connection.send(write_disconnect(self.ways, self.correlation, self.execution))
            self.close(TPESVCERR)

    def hear(self, said: Said, now: float) -> None:
        """The other end sent something."""
        if self.has_control and not said.is_end:
            self._fault(now)  # it must not
        elif said.is_end and not self.is_initiator:
            self._fault(now)  # an initiator disconnects; only a service has an outcome
        elif said.is_end:
            self.close(said.status)
            self.ended(said, now)
        else:
            self.has_control = said.passes_control
            self.heard(said, now)

    def _fault(self, now: float) -> None:
        self.conversations.session.counts["conversation_faults"] += 1
        if self.is_initiator:
            self.disconnect(now)
        elif not self.send(service_ended(TPESVCERR), now):
            self.close(TPESVCERR)
        self.ended(service_ended(TPESVCERR), now)

    def close(self, status: int) -> None:
        """It is over, on this end."""
        self.is_over = True
        self.connection.conversations.pop(self.correlation, None)
        self.conversations.session.timers.drop(self)
        if self.branch is not None:
            self.branch.calls -= 1
            if status != OK:
                self.branch.spoil()

    def break_off(self, now: float) -> None:
        """The other end is gone."""
        if not self.is_over:
            self.close(TPESVCERR)
            if self.is_initiator and not self.is_open:
                self.opened(TPESVCERR, now)
            else:
                self.ended(service_ended(TPESVCERR), now)

    def due(self, now: float) -> None:
        """Its time is up."""
        if not self.is_over:
            if self.is_initiator:
                self.disconnect(now)
            else:
                self.send(service_ended(TPESVCERR), now)
            self.ended(service_ended(TPESVCERR), now)


def _nothing(*_: Any) -> None:
    """Nobody wants to hear it."""


class Conversations:
    """All conversations of a domain, which are found by connection and correlation."""

    def __init__(self, session: CasualSession) -> None:
        self.session = session
        self._ours: dict[int, Conversation] = {}
        """Those that our application uses, by token."""
        self._count = 0

    def _token(self) -> int:
        self._count -= 1  # requests of the application count upwards
        return self._count

    # --- messages

    def served(self, connection: Inbound, message: Any, now: float) -> bool:
        """A peer that asks sent something; tell whether it is part of a conversation."""
        if isinstance(message, CONNECTS):
            self._connect(connection, message, now)
            return True
        return self._follow(connection, message, now)

    def heard(self, connection: Outbound, message: Any, now: float) -> bool:
        """A peer that serves us sent something; tell whether it is part of a conversation."""
        if not isinstance(message, REPLIES):
            return self._follow(connection, message, now)
        found = connection.conversations.get(message.correlation)
        if found is None or found.is_open:
            return False
        self._opened(found, message, now)
        return True

    def _follow(self, connection: Connection, message: Any, now: float) -> bool:
        found = connection.conversations.get(message.correlation)
        if found is None:
            return isinstance(message, DISCONNECTS)  # both ends may end it at the same time
        if isinstance(message, SENDS):
            found.hear(read_send(message), now)
        elif isinstance(message, DISCONNECTS):
            found.break_off(now)
        else:
            return False
        return True

    def lost(self, connection: Connection, now: float) -> None:
        for conversation in list(connection.conversations.values()):
            conversation.break_off(now)

    # --- we serve

    def _connect(self, connection: Inbound, message: Any, now: float) -> None:
        ways = ways_of(connection, self.session.ids.node(), message)
        opening = read_opening(message)

        def refuse(status: int, branch: Branch | None = None) -> None:
            if branch is not None:
                branch.spoil()
            connection.send(write_reply(ways, message, status))

        def go_on(branch: Branch | None, now: float) -> None:
            if connection.is_open(message.correlation):
                return
            if branch is not None and not branch.takes_work:
                refuse(TPETRAN)
                return
            if branch is not None:
                branch.execution = message.execution
                branch.calls += 1
            made = Conversation(
                self,
                connection,
                message.correlation,
                message.execution,
                ways,
                False,
                not opening.initiator_sends,
                branch,
                _nothing,
                _nothing,
                _nothing,
            )
            connection.conversations[message.correlation] = made
            self._find_service(made, message, now)

        if connection.is_open(message.correlation):
            return
        if not opening.is_valid:
            refuse(TPEINVAL)
        elif len(connection.conversations) >= connection.limits.conversations:
            refuse(TPELIMIT)
        elif is_null(message.xid):
            go_on(None, now)
        else:
            self.session.branches.join(connection, message.xid, go_on, now)

    def _find_service(self, made: Conversation, message: Any, now: float) -> None:
        seconds = made.connection.units.seconds(message.service.timeout) if message.service.timeout > 0 else None
        deadline = None if seconds is None else now + seconds
        if deadline is not None:
            self.session.timers.set(made, deadline)
        service = self.session.services.get(message.service.name)
        if service is not None and service.category != ADMIN:
            self._accept(made, message, OK)
            self._run(made, service, message, deadline, now)
            return
        found = lambda peer, now: self._bridge(made, peer, message, deadline, now)  # noqa: E731
        asker = made.connection.domain_id
        self.session.discovery.find_service(
            message.service.name, found, now, execution=message.execution, without=asker
        )

    def _accept(self, made: Conversation, message: Any, status: int) -> None:
        if made.is_over:
            return
        made.connection.send(write_reply(made.ways, message, status))
        made.is_open = status == OK
        if status != OK:
            made.close(status)

    def _run(self, made: Conversation, service: ServiceEntry, message: Any, deadline: float | None, now: float) -> None:
        if service.is_conversational:
            token = self._adopt(made)
            self._call(made, service, message.buffer, deadline, token)
        elif made.has_control:
            self._call(made, service, message.buffer, deadline)
        else:
            self._call_later(made, service, deadline)

    def _call_later(self, made: Conversation, service: ServiceEntry, deadline: float | None) -> None:
        """A service that does not converse is called with what passes control to it."""

        def heard(said: Said, now: float) -> None:
            if made.has_control:
                self._call(made, service, said.buffer, deadline)

        made.heard = heard

    def _call(
        self, made: Conversation, service: ServiceEntry, buffer: Buffer, deadline: float | None, token: int = 0
    ) -> None:
        branch = made.branch if service.transaction in ("auto", "join") else None
        own: Branch | None = None
        answer = Answer(TPESVCERR)
        if branch is None and service.transaction in ("auto", "atomic"):
            own = branch = self.session.branches.root(lambda ended, now: self._own_ended(made, answer, ended, now))
            own.execution = made.execution
        talk = (token, made.has_control) if token else None
        invocation = Invocation(service.name, buffer, made.execution, deadline, branch, conversation=talk)
        effect: Effect = Call(service.run, invocation)
        tell = made.ended

        def ended(said: Said, now: float) -> None:
            self.session.want(Cancel(effect))
            tell(said, now)

        def ran(result: Result, now: float) -> None:
            nonlocal answer
            self._ours.pop(token, None)
            answer = self._answer(made, result)
            if own is None:
                made.send(service_ended(answer.status, answer.code, answer.buffer), now)
            else:
                self.session.coordinator.end(own, now, commits=answer.status == OK and not made.is_over)

        made.ended = ended
        self.session.want_then(effect, ran)

    def _answer(self, made: Conversation, result: Result) -> Answer:
        if isinstance(result, Done) and isinstance(result.value, Answer):
            return result.value
        if not made.is_over:
            self.session.note("error", "a conversation failed", reason=repr(result))
        return Answer(TPESVCERR)

    def _own_ended(self, made: Conversation, answer: Answer, ended: events.TransactionEnded, now: float) -> None:
        """The transaction of the service has its outcome: only now the initiator hears of the result."""
        if answer.status == OK and ended.outcome != "committed":
            answer = Answer(TPESVCERR)
        made.send(service_ended(answer.status, answer.code, answer.buffer), now)

    # --- between two peers

    def _bridge(self, made: Conversation, peer: Peer | None, message: Any, deadline: float | None, now: float) -> None:
        if made.is_over:
            return
        if peer is None or not peer.is_ready:
            self._accept(made, message, TPENOENT)
            return
        left = None if deadline is None else max(deadline - now, 0.0)
        other = self._begin(
            peer, message.service.name, message.buffer, left, made.branch, message.execution, not made.has_control, now
        )
        other.opened = lambda status, now: self._accept(made, message, status)
        other.heard = lambda said, now: _pass(said, made, now)
        other.ended = lambda said, now: _pass(said, made, now)
        made.heard = lambda said, now: _pass(said, other, now)
        made.ended = lambda said, now: other.disconnect(now)

    # --- we begin

    def open(
        self,
        service: str,
        buffer: Buffer,
        now: float,
        *,
        receives: bool = False,
        timeout: float | None = None,
        branch: Branch | None = None,
        peer: str | None = None,
    ) -> int:
        """Open a conversation for our application; ConversationOpened tells whether there is one."""
        check_name(service, MAX_SERVICE_NAME, "service.name")
        token = self._token()

        def found(peer: Peer | None, now: float) -> None:
            if peer is None or not peer.is_ready:
                status = TPENOENT if peer is None else TPESVCERR
                self.session.events.append(events.ConversationOpened(token, status))
                return
            execution = branch.execution if branch is not None and any(branch.execution) else self.session.ids.uuid()
            made = self._begin(peer, service, buffer, timeout, branch, execution, not receives, now)
            self._adopt(made, token)
            if timeout is not None:
                self.session.timers.set(made, now + timeout)

        if peer is not None:
            found(self.session.peers.by_name.get(peer), now)
        else:
            self.session.discovery.find_service(service, found, now)
        return token

    def _begin(
        self,
        peer: Peer,
        service: str,
        buffer: Buffer,
        seconds: float | None,
        branch: Branch | None,
        execution: bytes,
        initiator_sends: bool,
        now: float,
    ) -> Conversation:
        session, connection = self.session, peer.connection
        assert connection is not None
        correlation, ways = session.ids.uuid(), ways_of(connection, session.ids.node())
        xid = NULL_XID
        if branch is not None:
            xid = session.branches.involve(branch, peer).xid
            branch.calls += 1
        made = Conversation(
            self,
            connection,
            correlation,
            execution,
            ways,
            True,
            initiator_sends,
            branch,
            _nothing,
            _nothing,
            _nothing,
        )
        connection.conversations[correlation] = made
        request = write_opening(
            ways,
            connection,
            correlation,
            execution,
            service,
            seconds,
            xid,
            buffer,
            initiator_sends=initiator_sends,
        )
        connection.send(request)
        return made

    def _opened(self, made: Conversation, message: Any, now: float) -> None:
        status = reply_status(message)
        if status == OK:
            made.is_open = True
            if not made.ways.is_late:
                made.ways.route = message.recording.nodes
        else:
            made.close(status)
        made.opened(status, now)

    # --- our application

    def _adopt(self, made: Conversation, token: int = 0) -> int:
        """Let our application use it."""
        token = token or self._token()
        self._ours[token] = made
        tell = self.session.events.append

        def ended(said: Said, now: float) -> None:
            self._ours.pop(token, None)
            tell(events.ConversationEnded(token, said.status, said.code, said.buffer))

        def opened(status: int, now: float) -> None:
            if status != OK:
                self._ours.pop(token, None)
            tell(events.ConversationOpened(token, status))

        made.opened = opened
        made.heard = lambda said, now: tell(events.ConversationHeard(token, said.buffer, said.passes_control))
        made.ended = ended
        return token

    def send(self, token: int, buffer: Buffer, now: float, *, passes_control: bool = False) -> bool:
        """Send to the other end; tell whether we may."""
        made = self._ours.get(token)
        return made is not None and made.send(Said(buffer, passes_control, False), now)

    def disconnect(self, token: int, now: float) -> None:
        made = self._ours.pop(token, None)
        if made is not None:
            made.disconnect(now)


def _pass(said: Said, to: Conversation, now: float) -> None:
    """Pass on what one end said, to the end of the other peer."""
    if not said.is_end:
        to.has_control = True
    to.send(said, now)
