"""Peers of ceda that break its rules: valid messages out of sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...generate.simulation import Process
from ...spec import Cell
from . import messages as p
from .messages import PIECE

if TYPE_CHECKING:
    from .traffic import Client, Play


def publish_too_early(play: Play, client: Client) -> None:
    """A publish before login."""
    message = play.make(client, "to_server", p.Publish, topic="ORDERS.EARLY", record=(Cell(4, "INT", 1),))
    client.link.violate("state", "to_server", message)


def _reply_to_nothing(play: Play, client: Client) -> None:
    # Session 9: the client's own reply topics are all of session 1.
    topic = f"{client.number}.9.{play.rng.getrandbits(16)}"
    message = p.Reply(topic=topic, connection_id=client.number, server_id="MQ", signal_id="", record=())
    client.link.violate("unexpected_reply", "to_client", message)


def _reply_again(play: Play, client: Client) -> Process:
    exchange, names = play.ask(client, "POSITION.GET", (Cell(1, "STRING", "EURUSD"),))

    def reply() -> Any:
        return p.Reply(topic=exchange.correlation, record=(Cell(3, "STRING", "ok"),), **names)

    yield play.stage.delay(2_000)
    client.link.reply(exchange, reply())
    yield play.stage.delay(1_000)
    client.link.violate("duplicate_reply", "to_client", reply())


def _piece_left_out(play: Play, client: Client) -> None:
    """A publish in three pieces, without the second."""
    first, _, last = play.document_pieces(2 * PIECE + 100)
    client.link.send("to_client", first)
    client.link.violate("group_order", "to_client", last)


FAULTS = (_reply_to_nothing, _reply_again, _piece_left_out)
