"""Peers of casual that break its rules: valid messages out of sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...generate.simulation import Link, Process
from ...generate.truth import Exchange
from . import messages as p
from .conduct import CONNECT_LIMIT_US, TPNOTRAN

if TYPE_CHECKING:
    from .traffic import Peer, Play

TPESYSTEM = p.XATMI_ERROR.code("TPESYSTEM")


def call_too_early(play: Play, link: Link, peer: Peer) -> None:
    """A call before the domains are connected; nobody replies to it."""
    _call(play, link, peer, play.uuid(), breaks="state")


def _call(play: Play, link: Link, peer: Peer, correlation: bytes, **how: Any) -> Exchange:
    service = play.stage.pick(peer.server.services).name
    request = p.ServiceCallRequest(
        correlation=correlation,
        execution=play.uuid(),
        service=p.Service(service, 0),
        parent=p.Parent(""),
        xid=p.NULL_XID,
        flags=TPNOTRAN,
        buffer=play.buffer(service),
    )
    return play.ask(link, request, service, **how)


def _reply(play: Play, correlation: bytes, status: int = 0) -> Any:
    return p.ServiceCallReply(
        correlation=correlation,
        execution=play.uuid(),
        call=p.Call(status, 0),
        xid=p.NULL_XID,
        transaction=p.TransactionState(0),
        buffer=p.Buffer("", b""),
    )


def _second_connect(play: Play, link: Link, peer: Peer) -> None:
    domain = p.Domain(peer.client.id, peer.client.name)
    request = p.DomainConnectRequest(**play.ids(), domain=domain, protocol=p.Offer((1000,)))
    play.ask(link, request, limit_us=CONNECT_LIMIT_US, breaks="state")


def _reply_to_nothing(play: Play, link: Link, _: Peer) -> None:
    link.violate("unexpected_reply", "to_client", _reply(play, play.uuid()))


def _call_again(play: Play, link: Link, peer: Peer) -> Process:
    """The correlation is in use: the second call is refused, the first one served."""
    correlation = play.uuid()
    first = _call(play, link, peer, correlation)
    yield play.stage.delay(500)
    second = _call(play, link, peer, correlation, breaks="duplicate_request")
    yield play.stage.delay(500)
    link.reply(second, _reply(play, correlation, TPESYSTEM), "error", TPESYSTEM)
    yield play.stage.delay(3_000)
    link.reply(first, _reply(play, correlation), "ok", 0)


def _reply_again(play: Play, link: Link, peer: Peer) -> Process:
    correlation = play.uuid()
    exchange = _call(play, link, peer, correlation)
    yield play.stage.delay(3_000)
    link.reply(exchange, _reply(play, correlation), "ok", 0)
    yield play.stage.delay(1_000)
    link.violate("duplicate_reply", "to_client", _reply(play, correlation))


FAULTS = (_second_connect, _reply_to_nothing, _call_again, _reply_again)
