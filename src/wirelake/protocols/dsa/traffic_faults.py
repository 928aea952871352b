"""Peers of dsa that break its rules: valid messages out of sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generate.simulation import Process
from . import messages as p
from .conduct import CLOSED

if TYPE_CHECKING:
    from .traffic import Play, Wire


def request_too_early(wire: Wire) -> None:
    """A request before the handshake; nobody replies to it."""
    rid = wire.next_rid("to_server")
    message = wire.make("to_server", p.ListRequest, rid, p.Headers(target_path="sys"))
    wire.link.ask("to_server", message, "sys", str(rid), breaks="state")


def _reply_to_nothing(play: Play, wire: Wire) -> None:
    rid = 0x40000000 + play.rng.getrandbits(20)
    message = wire.make("to_client", p.SetResponse, rid, p.Headers(status=CLOSED))
    wire.link.violate("unexpected_reply", "to_client", message)


def _reply_again(play: Play, wire: Wire) -> Process:
    asked = play.ask(wire, None, p.SetRequest, "sys/quarantine/enabled", {}, value_meta={}, value=True)
    yield play.stage.delay(700)
    play.reply(asked, p.SetResponse, {"status": CLOSED})
    yield play.stage.delay(400)
    message = wire.make("to_client", p.SetResponse, asked.rid, p.Headers(status=CLOSED))
    wire.link.violate("duplicate_reply", "to_client", message)


def _page_left_out(play: Play, wire: Wire) -> Process:
    """A result in three pages, without the second."""
    asked = play.ask(wire, None, p.InvokeRequest, "sys/export", {}, value={"limit": 9})
    yield play.stage.delay(5_000)
    first, _, last = play.pages(max(play.large, key=len))
    play.reply(asked, p.InvokeResponse, first.headers, body=first.body)
    yield play.stage.delay(1_000)
    play.reply(asked, p.InvokeResponse, last.headers, breaks="page_order", body=last.body)


FAULTS = (_reply_to_nothing, _reply_again, _page_left_out)
