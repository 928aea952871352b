"""Peers of dsa that break its rules.

Valid messages out of sequence: something too early on a connection, and things that go wrong later. All of it is noted
in ``Truth.violations``; requests among it are exchanges like all others, since the wire shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generate.simulation import Process
from . import messages as p
from .conduct import CLOSED

if TYPE_CHECKING:
    from .traffic import Play, Wire


def too_early(wire: Wire) -> None:
    """A request before the handshake; nobody replies to it."""
    rid = wire.next_rid("to_server")
    message = wire.make("to_server", p.ListRequest, rid, p.Headers(target_path="sys"))
    exchange = wire.link.ask("to_server", message, "sys", str(rid))
    wire.link.breach("state", "to_server", exchange.request, message)


def later(play: Play, wire: Wire) -> Process:
    yield from play.stage.pick((_reply_to_nothing, _reply_again, _page_left_out))(play, wire)


def _reply_to_nothing(play: Play, wire: Wire) -> Process:
    rid = 0x40000000 + play.rng.getrandbits(20)
    message = wire.make("to_client", p.SetResponse, rid, p.Headers(status=CLOSED))
    wire.link.violate("unexpected_reply", "to_client", message)
    yield from ()


def _reply_again(play: Play, wire: Wire) -> Process:
    exchange, rid, _ = play.ask(wire, None, p.SetRequest, "sys/quarantine/enabled", {}, value_meta={}, value=True)
    yield play.stage.delay(700)
    play.reply(wire, exchange, p.SetResponse, rid, {"status": CLOSED})
    yield play.stage.delay(400)
    message = wire.make("to_client", p.SetResponse, rid, p.Headers(status=CLOSED))
    wire.link.violate("duplicate_reply", "to_client", message)


def _page_left_out(play: Play, wire: Wire) -> Process:
    """A result in three pages, without the second."""
    exchange, rid, _ = play.ask(wire, None, p.InvokeRequest, "sys/export", {}, value={"limit": 9})
    yield play.stage.delay(5_000)
    first, _, last = play.pages(max(play.large, key=len))
    play.reply(wire, exchange, p.InvokeResponse, rid, first.headers, body=first.body)
    yield play.stage.delay(1_000)
    event = play.reply(wire, exchange, p.InvokeResponse, rid, last.headers, body=last.body)
    wire.link.breach("page_order", "to_client", event, p.InvokeResponse)
