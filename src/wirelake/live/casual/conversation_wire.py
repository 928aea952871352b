"""The messages of conversations in both of their forms: 3200 to 3203 of the document, 3210 to 3213 of peers since 2021.

Both say the same: who may send next, and how it ended. ``Said`` is what a message says, whichever form it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...protocols import casual
from ...protocols.casual import Nodes, Outcome, OutcomeAndCode, Parent, Xid
from .connections import Connection
from .wire import (
    ABSENT,
    EMPTY_BUFFER,
    LATE,
    OK,
    TPESVCERR,
    TPESVCFAIL,
    TPEV_DISCONIMM,
    TPEV_SENDONLY,
    TPEV_SVCERR,
    TPEV_SVCFAIL,
    TPEV_SVCSUCC,
    TPRECVONLY,
    TPSENDONLY,
    Buffer,
)

SEND, RECEIVE, TERMINATED = 0, 1, 2
"""What the receiver of a late message may do next."""
CONNECTS = (casual.ConversationConnectRequest, casual.ConversationConnectRequestLate)
REPLIES = (casual.ConversationConnectReply, casual.ConversationConnectReplyLate)
SENDS = (casual.ConversationSend, casual.ConversationSendLate)
DISCONNECTS = (casual.ConversationDisconnect, casual.ConversationDisconnectLate)
ENDS = TPEV_DISCONIMM | TPEV_SVCERR | TPEV_SVCFAIL | TPEV_SVCSUCC


@dataclass(slots=True)
class Ways:
    """How the messages of a conversation find their way. ``route`` is where ours go, ``node`` our own address."""

    is_late: bool
    node: int
    route: tuple[int, ...] = ()
    recorded: tuple[int, ...] = ()
    """The way that the connect request came, which its reply shows."""


@dataclass(frozen=True, slots=True)
class Said:
    """``passes_control``: the receiver may send now. ``is_end``: the service is done, ``status`` says how."""

    buffer: Buffer
    passes_control: bool
    is_end: bool
    status: int = OK
    code: int = 0


@dataclass(frozen=True, slots=True)
class Opening:
    """A connect request. ``is_valid``: it says who may send first."""

    initiator_sends: bool
    is_valid: bool
    has_time_limit: bool


def read_opening(message: Any) -> Opening:
    if isinstance(message, casual.ConversationConnectRequestLate):
        return Opening(message.duplex == RECEIVE, message.duplex in (SEND, RECEIVE), message.service.timeout > 0)
    asked = message.flags & (TPSENDONLY | TPRECVONLY)
    return Opening(asked == TPSENDONLY, asked in (TPSENDONLY, TPRECVONLY), message.service.timeout > 0)


def read_send(message: Any) -> Said:
    if isinstance(message, casual.ConversationSendLate):
        is_end = message.duplex == TERMINATED or message.code.result not in (OK, ABSENT)
        status = OK if message.code.result == ABSENT else message.code.result
        return Said(message.buffer, message.duplex == SEND, is_end, status, message.code.user)
    events = message.events
    status = message.status
    if events & (TPEV_SVCERR | TPEV_DISCONIMM) and status == OK:
        status = TPESVCERR
    elif events & TPEV_SVCFAIL and status == OK:
        status = TPESVCFAIL
    return Said(message.buffer, bool(events & TPEV_SENDONLY), bool(events & ENDS), status)


def reply_status(message: Any) -> int:
    """Return the status of a connect reply."""
    if isinstance(message, casual.ConversationConnectReplyLate):
        return OK if message.code.result == ABSENT else message.code.result
    return message.status  # type: ignore[no-any-return]


def write_opening(
    ways: Ways,
    connection: Connection,
    correlation: bytes,
    execution: bytes,
    service: str,
    seconds: float | None,
    xid: Xid,
    buffer: Buffer,
    *,
    initiator_sends: bool,
    parent: str = "",
) -> Any:
    timeout = connection.units.duration(seconds)
    if ways.is_late:
        late = casual.LateService(service, timeout)
        duplex = RECEIVE if initiator_sends else SEND
        return casual.ConversationConnectRequestLate(correlation, execution, late, Parent(parent), xid, duplex, buffer)
    flags = TPSENDONLY if initiator_sends else TPRECVONLY
    named, nodes = casual.Service(service, timeout), Nodes((*ways.recorded, ways.node))
    return casual.ConversationConnectRequest(correlation, execution, named, Parent(parent), xid, flags, nodes, buffer)


def write_reply(ways: Ways, message: Any, status: int) -> Any:
    """Return the reply to a connect request."""
    if ways.is_late:
        return casual.ConversationConnectReplyLate(message.correlation, message.execution, Outcome(status))
    route, recording = Nodes(ways.recorded), Nodes((ways.node,))
    return casual.ConversationConnectReply(message.correlation, message.execution, route, recording, status)


def write_send(ways: Ways, correlation: bytes, execution: bytes, said: Said) -> Any:
    if ways.is_late:
        duplex = TERMINATED if said.is_end else SEND if said.passes_control else RECEIVE
        codes = OutcomeAndCode(said.status if said.is_end else ABSENT, said.code)
        return casual.ConversationSendLate(correlation, execution, duplex, codes, said.buffer)
    events = TPEV_SENDONLY if said.passes_control else 0
    if said.is_end:
        events = {OK: TPEV_SVCSUCC, TPESVCFAIL: TPEV_SVCFAIL}.get(said.status, TPEV_SVCERR)
    return casual.ConversationSend(correlation, execution, Nodes(ways.route), events, said.status, said.buffer)


def write_disconnect(ways: Ways, correlation: bytes, execution: bytes) -> Any:
    if ways.is_late:
        return casual.ConversationDisconnectLate(correlation, execution)
    return casual.ConversationDisconnect(correlation, execution, Nodes(ways.route), TPEV_DISCONIMM)


def service_ended(status: int, code: int = 0, buffer: Buffer = EMPTY_BUFFER) -> Said:
    return Said(buffer, False, True, status, code)


def ways_of(connection: Connection, node: int, message: Any = None) -> Ways:
    """Return the ways of a conversation: as a connect request asks, or as the connection has them."""
    if message is None:
        return Ways(connection.profile == LATE, node)
    if isinstance(message, casual.ConversationConnectRequestLate):
        return Ways(True, node)
    nodes = message.recording.nodes
    return Ways(False, node, nodes, nodes)
