"""Peers that break the rules of their protocol (``violations``): good bytes at the wrong moment.

For each protocol something that comes too early on a connection, and things that go wrong later. All of it is noted in
``Truth.violations``; requests among it are exchanges like all others, since the wire shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocols.casual import messages as casual
from ..protocols.ceda import messages as ceda
from ..protocols.dsa import messages as dsa
from ..protocols.mb import messages as mb
from ..spec import Cell
from .simulation import Link, Process
from .truth import Exchange

if TYPE_CHECKING:
    from ..protocols.casual.traffic import Peer
    from ..protocols.casual.traffic import Play as CasualPlay
    from ..protocols.ceda.traffic import Client
    from ..protocols.ceda.traffic import Play as CedaPlay
    from ..protocols.dsa.traffic import Play as DsaPlay
    from ..protocols.dsa.traffic import Wire
    from ..protocols.mb.traffic import Play as MbPlay

TPESYSTEM = 12
CLOSED = 0x20
PIECE = 32768


# --- casual


def casual_too_early(play: CasualPlay, link: Link, peer: Peer) -> None:
    """A call before the domains are connected; nobody answers it."""
    request, exchange = _casual_call(play, link, peer, play.uuid())
    link.breach("state", "to_server", exchange.request, request)


def casual_later(play: CasualPlay, link: Link, peer: Peer) -> Process:
    yield from play.stage.pick((_second_connect, _reply_to_nothing, _call_again, _reply_again))(play, link, peer)


def _casual_call(play: CasualPlay, link: Link, peer: Peer, correlation: bytes) -> tuple[Any, Exchange]:
    service = play.stage.pick(peer.server.services).name
    request = casual.ServiceCallRequest(
        correlation=correlation,
        execution=play.uuid(),
        service=casual.Service(service, 0),
        parent=casual.Parent(""),
        xid=casual.NULL_XID,
        flags=0x0008,
        buffer=play.buffer(service),
    )
    return request, link.ask("to_server", request, service, correlation.hex())


def _casual_reply(play: CasualPlay, correlation: bytes, status: int = 0) -> Any:
    return casual.ServiceCallReply(
        correlation=correlation,
        execution=play.uuid(),
        call=casual.Call(status, 0),
        xid=casual.NULL_XID,
        transaction=casual.TransactionState(0),
        buffer=casual.Buffer("", b""),
    )


def _second_connect(play: CasualPlay, link: Link, peer: Peer) -> Process:
    correlation = play.uuid()
    request = casual.DomainConnectRequest(
        correlation=correlation,
        execution=play.uuid(),
        domain=casual.Domain(peer.client.id, peer.client.name),
        protocol=casual.Offer((1000,)),
    )
    exchange = link.ask("to_server", request, "", correlation.hex(), limit_us=10_000_000)
    link.breach("state", "to_server", exchange.request, request)
    yield from ()


def _reply_to_nothing(play: CasualPlay, link: Link, _: Peer) -> Process:
    link.violate("unexpected_reply", "to_client", _casual_reply(play, play.uuid()))
    yield from ()


def _call_again(play: CasualPlay, link: Link, peer: Peer) -> Process:
    """The correlation is in use: the second call is refused, the first one served."""
    correlation = play.uuid()
    _, first = _casual_call(play, link, peer, correlation)
    yield play.stage.delay(500)
    request, second = _casual_call(play, link, peer, correlation)
    link.breach("duplicate_request", "to_server", second.request, request)
    yield play.stage.delay(500)
    link.answer(second, _casual_reply(play, correlation, TPESYSTEM), "error", TPESYSTEM)
    yield play.stage.delay(3_000)
    link.answer(first, _casual_reply(play, correlation), "ok", 0)


def _reply_again(play: CasualPlay, link: Link, peer: Peer) -> Process:
    correlation = play.uuid()
    _, exchange = _casual_call(play, link, peer, correlation)
    yield play.stage.delay(3_000)
    link.answer(exchange, _casual_reply(play, correlation), "ok", 0)
    yield play.stage.delay(1_000)
    link.violate("duplicate_reply", "to_client", _casual_reply(play, correlation))


# --- ceda


def ceda_too_early(play: CedaPlay, client: Client) -> None:
    """A publish before login."""
    message = play.make(client, "to_server", ceda.Publish, topic="ORDERS.EARLY", record=(Cell(4, "INT", 1),))
    client.link.violate("state", "to_server", message)


def ceda_later(play: CedaPlay, client: Client) -> Process:
    yield from play.stage.pick((_ceda_reply_to_nothing, _ceda_reply_again, _piece_left_out))(play, client)


def _ceda_reply_to_nothing(play: CedaPlay, client: Client) -> Process:
    # Session 9: the client's own reply topics are all of session 1.
    topic = f"{client.number}.9.{play.rng.getrandbits(16)}"
    message = ceda.Reply(topic=topic, connection_id=client.number, server_id="MQ", signal_id="", record=())
    client.link.violate("unexpected_reply", "to_client", message)
    yield from ()


def _ceda_reply_again(play: CedaPlay, client: Client) -> Process:
    exchange, names = play.ask(client, "POSITION.GET", (Cell(1, "STRING", "EURUSD"),))

    def reply() -> Any:
        return ceda.Reply(topic=exchange.correlation, record=(Cell(3, "STRING", "ok"),), **names)

    yield play.stage.delay(2_000)
    client.link.answer(exchange, reply())
    yield play.stage.delay(1_000)
    client.link.violate("duplicate_reply", "to_client", reply())


def _piece_left_out(play: CedaPlay, client: Client) -> Process:
    """A publish in three pieces, without the second."""
    first, _, last = play.document_pieces(2 * PIECE + 100)
    client.link.send("to_client", first)
    client.link.violate("group_order", "to_client", last)
    yield from ()


# --- dsa


def dsa_too_early(wire: Wire) -> None:
    """A request before the handshake; nobody answers it."""
    rid = wire.next_rid("to_server")
    message = wire.make("to_server", dsa.ListRequest, rid, dsa.Headers(target_path="sys"))
    exchange = wire.link.ask("to_server", message, "sys", str(rid))
    wire.link.breach("state", "to_server", exchange.request, message)


def dsa_later(play: DsaPlay, wire: Wire) -> Process:
    yield from play.stage.pick((_dsa_reply_to_nothing, _dsa_reply_again, _page_left_out))(play, wire)


def _dsa_reply_to_nothing(play: DsaPlay, wire: Wire) -> Process:
    rid = 0x40000000 + play.rng.getrandbits(20)
    message = wire.make("to_client", dsa.SetResponse, rid, dsa.Headers(status=CLOSED))
    wire.link.violate("unexpected_reply", "to_client", message)
    yield from ()


def _dsa_reply_again(play: DsaPlay, wire: Wire) -> Process:
    exchange, rid, _ = play.ask(wire, None, dsa.SetRequest, "sys/quarantine/enabled", {}, value_meta={}, value=True)
    yield play.stage.delay(700)
    play.answer(wire, exchange, dsa.SetResponse, rid, {"status": CLOSED})
    yield play.stage.delay(400)
    message = wire.make("to_client", dsa.SetResponse, rid, dsa.Headers(status=CLOSED))
    wire.link.violate("duplicate_reply", "to_client", message)


def _page_left_out(play: DsaPlay, wire: Wire) -> Process:
    """A result in three pages, without the second."""
    exchange, rid, _ = play.ask(wire, None, dsa.InvokeRequest, "sys/export", {}, value={"limit": 9})
    yield play.stage.delay(5_000)
    first, _, last = play.pages(max(play.large, key=len))
    play.answer(wire, exchange, dsa.InvokeResponse, rid, first.headers, body=first.body)
    yield play.stage.delay(1_000)
    event = play.answer(wire, exchange, dsa.InvokeResponse, rid, last.headers, body=last.body)
    wire.link.breach("page_order", "to_client", event, dsa.InvokeResponse)


# --- mb


def mb_later(play: MbPlay, link: Link) -> Process:
    yield from play.stage.pick((_mb_broker_reply_to_nothing, _mb_service_reply_to_nothing, _mb_reply_again))(play, link)


def _mb_broker_reply_to_nothing(play: MbPlay, link: Link) -> Process:
    message = mb.Response(topic="users.get", version="1.0.0", request_id=play.new_id(), payload=b'{"result":1}')
    link.violate("unexpected_reply", "to_client", message)
    yield from ()


def _mb_service_reply_to_nothing(play: MbPlay, link: Link) -> Process:
    """The broker refuses it; that answer is no breach."""
    rid = play.new_id()
    message = mb.Response(topic="users.get", version="1.0.0", request_id=rid, payload=b'{"result":1}')
    link.violate("unexpected_reply", "to_server", message)
    yield play.stage.delay(250)
    link.send("to_client", play.error("users.get", "1.0.0", rid, "INVALID_REQUEST_ID", "nobody waits for this"))


def _mb_reply_again(play: MbPlay, link: Link) -> Process:
    exchange = play.ask_system(link, "system.heartbeat", {})
    yield play.stage.delay(300)
    play.answer(link, exchange, b'{"status":"success"}')
    yield play.stage.delay(300)
    message = mb.Response(
        topic="system.heartbeat", version="1.0.0", request_id=exchange.correlation, payload=b'{"status":"success"}'
    )
    link.violate("duplicate_reply", "to_client", message)
