"""Services and brokers of mb that break its rules.

Valid messages out of sequence: something too early on a connection, and things that go wrong later. All of it is noted
in ``Truth.violations``; requests among it are exchanges like all others, since the wire shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generate.simulation import Link, Process
from . import messages as p
from .conduct import HEARTBEAT

if TYPE_CHECKING:
    from .traffic import Play


def later(play: Play, link: Link) -> Process:
    yield from play.stage.pick((_broker_reply_to_nothing, _service_reply_to_nothing, _reply_again))(play, link)


def _broker_reply_to_nothing(play: Play, link: Link) -> Process:
    message = p.Response(topic="users.get", version="1.0.0", request_id=play.new_id(), payload=b'{"result":1}')
    link.violate("unexpected_reply", "to_client", message)
    yield from ()


def _service_reply_to_nothing(play: Play, link: Link) -> Process:
    """The broker refuses it; that reply is no breach."""
    rid = play.new_id()
    message = p.Response(topic="users.get", version="1.0.0", request_id=rid, payload=b'{"result":1}')
    link.violate("unexpected_reply", "to_server", message)
    yield play.stage.delay(250)
    link.send("to_client", play.error("users.get", "1.0.0", rid, "INVALID_REQUEST_ID", "nobody waits for this"))


def _reply_again(play: Play, link: Link) -> Process:
    exchange = play.ask_system(link, HEARTBEAT, {})
    yield play.stage.delay(300)
    play.reply(link, exchange, b'{"status":"success"}')
    yield play.stage.delay(300)
    message = p.Response(
        topic=HEARTBEAT, version="1.0.0", request_id=exchange.correlation, payload=b'{"status":"success"}'
    )
    link.violate("duplicate_reply", "to_client", message)
