"""Services and brokers of mb that break its rules: valid messages out of sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generate.simulation import Link, Process
from . import messages as p
from .conduct import HEARTBEAT

if TYPE_CHECKING:
    from .traffic import Play


def _broker_reply_to_nothing(play: Play, link: Link) -> None:
    message = p.Response(topic="users.get", version="1.0.0", request_id=play.uuid(), payload=b'{"result":1}')
    link.violate("unexpected_reply", "to_client", message)


def _service_reply_to_nothing(play: Play, link: Link) -> Process:
    """The broker refuses it; that reply is no breach."""
    rid = play.uuid()
    message = p.Response(topic="users.get", version="1.0.0", request_id=rid, payload=b'{"result":1}')
    link.violate("unexpected_reply", "to_server", message)
    yield play.stage.delay(250)
    link.send("to_client", play.error("users.get", "1.0.0", rid, "INVALID_REQUEST_ID", "nobody waits for this"))


def _reply_again(play: Play, link: Link) -> Process:
    exchange = play.ask_system(link, HEARTBEAT, {})
    yield play.stage.delay(300)
    play.reply(link, exchange)
    yield play.stage.delay(300)
    link.violate("duplicate_reply", "to_client", play.response(exchange))


FAULTS = (_broker_reply_to_nothing, _service_reply_to_nothing, _reply_again)
