"""Clients of CEDA servers.

>>> from wirelake.live import ceda
>>> async def main():
...     async with ceda.connect("ceda://me:secret@127.0.0.1:8088") as client:
...         async with client.subscribe("FX.SPOT.*") as messages:
...             async for message in messages:
...                 print(message.topic, message.record[1])
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...protocols.ceda import MAX_PAYLOAD
from ...spec.declare import Cell
from ..core.errors import AnswerError, ConnectionLost, Refused
from ..core.log import log
from ..core.session import Answered
from ..drive.client import Client, Opening, Subscription, dial
from ..drive.connection import Dial, Reconnect, unpredictable
from ..drive.inbox import MOST
from ..drive.urls import Target
from . import events as event
from .client import REQUEST_SECONDS
from .client import CedaClient as CedaSession
from .data import Blob, Message, Record
from .images import refused_topics
from .logins import CedaLogin
from .options import CedaClientOptions
from .wire import CEDA_TCP

Request = Message
RECONNECT = Reconnect(seconds=5.0, most_seconds=5.0, attempts=3)
ECHO_SECONDS = 5.0
"""How long we wait for a server to show that it has read a subscription."""
OK: dict[int, Any] = {1: 1}
"""What is replied for a handler that gives nothing."""


class CedaClient(Client[Message, Message]):
    """A client that is logged in to a server. ``wirelake.connect("ceda://…")`` returns one."""

    protocol = "ceda"
    framing = CEDA_TCP
    is_text = False
    max_message = MAX_PAYLOAD

    def __init__(self, dial: Dial, login: CedaLogin, options: CedaClientOptions) -> None:
        self._session = CedaSession(login, options, chance=unpredictable())
        super().__init__(dial, self._session)

    @property
    def connection_id(self) -> int:
        """What the server calls this connection; another one after each loss."""
        return self._session.connection_id

    async def publish(self, topic: str, record: Record, *, blob: Blob | None = None) -> None:
        """Send to all subscribers of the topic. Waits while the connection is full.

        The record is values by number, or cells where the exact types matter. A ``blob`` is one field of up to
        10 240 000 bytes.
        """
        await self._connection.send(lambda now: self._session.publish(topic, record, now, blob=blob))

    async def request(
        self,
        topic: str,
        record: Record | None = None,
        *,
        timeout: float | None = REQUEST_SECONDS,
        server_id: str = "MQ",
        signal_id: str = "",
        blob: Blob | None = None,
    ) -> Message:
        """Send a request, and return its reply. ``server_id`` is the name of the service to ask; MQ is any.

        Raises RequestTimeout if no reply comes in time, also when nobody serves the topic: servers do not report it.
        There are no error replies either: errors are in the record, as the application writes them.
        """
        await self._connection.usable()
        token = self._connection.do(
            lambda now: self._session.request(
                topic, {} if record is None else record, now,
                timeout=timeout, server_id=server_id, signal_id=signal_id, blob=blob,
            )
        )  # fmt: skip
        reply: Message = await self._answer_to(token, self._session.forget)
        return reply

    async def p2p(
        self, topic: str, record: Record, *, server_id: str, signal_id: str = "", blob: Blob | None = None
    ) -> None:
        """Send to one service, by its name."""
        await self._connection.send(
            lambda now: self._session.p2p(topic, record, now, server_id=server_id, signal_id=signal_id, blob=blob)
        )

    async def reply(self, message: Message, record: Record, *, blob: Blob | None = None) -> None:
        """Reply to a p2p that came with another one."""
        await self._connection.send(lambda now: self._session.reply(message, record, now, blob=blob))

    def _handle(self, events: list[Any]) -> None:
        for happened in events:
            match happened:
                case event.Asked(message=message):
                    asked = replace(message, generation=self._connection.generation)
                    self.unclaimed += not self._hand_to_responder(asked, asked.topic, asked.size)
                case event.Delivered(message=message):
                    self._deliver(message.topic, message, message.size)
                case Answered(token, reply, error):
                    self._settle(token, reply, error)
                case event.Ready():
                    self._connection.ready()
                case event.Refused(reason=reason):
                    self._connection.fail(Refused(f"{self.target} refused the login: {reason}"))
                case event.TopicsRefused(topics=topics):
                    log.warning("the service refused topics of an image", topics=list(topics))
                case event.SubscriptionResult(topics=wanted, ok=False, reason=reason, is_unsubscribe=False):
                    error = Refused(f"the subscription of {wanted} was refused: {reason}")
                    self._end_refused({wanted, *wanted.split("|")}, error)
                case _:
                    pass

    def subscribe(
        self,
        *patterns: str,
        limit: int = MOST,
        overflow: str = "wait",
        image: bool = False,
        image_from: str | None = None,
    ) -> Subscription[Message]:
        """Subscribe to topics or patterns, from the beginning of the ``async with`` block to its end.

        With ``image``, ask the server for the last values first, if it keeps them; with ``image_from``, ask a service
        by its name, or any with ``""``: it says which topics we get.
        """
        return Subscription(self, patterns, limit, overflow, image=image, image_from=image_from)

    async def _subscribe(self, patterns: tuple[str, ...], image: bool = False, image_from: str | None = None) -> None:
        await self._connection.usable()
        if image_from is not None:
            asked = self._connection.do(lambda now: self._session.request_image(patterns, now, server_id=image_from))
            refused = refused_topics(await self._answer_to(asked, self._session.forget))
            if set(patterns) <= set(refused):
                raise Refused(f"the service refused {', '.join(patterns)}")
            return
        self._connection.do(lambda now: self._session.subscribe(patterns, now, image=image))
        # Servers do not answer subscriptions, but heartbeats, and everything in turn: so we know when it holds.
        token = self._connection.do(self._session.beat)
        with suppress(TimeoutError, ConnectionLost):
            async with asyncio.timeout(ECHO_SECONDS):
                await self._answer_to(token, self._session.forget)

    def _unsubscribe(self, patterns: tuple[str, ...]) -> None:
        left = [pattern for pattern in patterns if all(pattern != responder.pattern for responder in self._responders)]
        if left:
            self._connection.do(lambda now: self._session.unsubscribe(left, now))

    async def _serve(self, pattern: str, priority: float) -> None:
        if priority:
            raise ValueError("ceda has no priorities")
        await self._subscribe((pattern,))

    def _unserve(self, pattern: str) -> None:
        if not any(pattern in subscription.patterns for subscription in self._subscriptions):
            self._connection.do(lambda now: self._session.unsubscribe([pattern], now))

    def _answer(self, asked: Request, result: Any, error: Exception | None) -> None:
        record, blob = _answer_record(asked, result, error)
        if self._connection.is_ready and asked.generation == self._connection.generation:
            self._connection.do(lambda now: self._session.reply(asked, record, now, blob=blob))


def _answer_record(asked: Request, result: Any, error: Exception | None) -> tuple[Record, Blob | None]:
    """Return what to reply. An error is said as servers refuse a login: field 1 is 0, and 4 is the reason."""
    if isinstance(error, AnswerError):
        return {1: 0, 4: error.detail}, None
    if error is not None:
        log.error("a handler failed", exc_info=error, topic=asked.topic)
        return {1: 0, 4: f"the handler failed: {type(error).__name__}: {error}"[:1000]}, None
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Blob):
        return result
    if result is None:
        return OK, None
    if not isinstance(result, Mapping | Iterable) or isinstance(result, str | bytes):
        raise TypeError(f"a handler of ceda gives a record, not {type(result).__name__}")
    return result, None


def connect(
    url: str | Target,
    *,
    user: str | None = None,
    password: str | None = None,
    client_id: str = "",
    session_id: str = "",
    login_record: Record | None = None,
    heartbeat: float = 15.0,
    dialect: str = "ceda4-ws",
    charset: str = "utf-8",
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    verify: bool = True,
    timeout: float = 15.0,
    reconnect: bool | Reconnect = True,
) -> Opening[CedaClient]:
    """Connect to the server at ``ceda://user:password@host:port``; ``ceda+tls``, ``ceda+ws`` and ``ceda+wss`` are the
    other transports.

    ``user`` and ``password`` may be given here instead; a ``session_id`` or a ``login_record`` of the application's own
    log in without them. After ``heartbeat`` seconds of silence the client asks the server for a sign of life; after
    four times that without one the connection is lost. The client writes ``dialect`` until the server shows another
    one: ``ceda4-ws`` as deployed, ``ceda4`` as in the document. TLS: ``ca`` are the authorities to trust instead of the
    system's, ``cert`` and ``key`` the client's own. ``timeout``: seconds to connect and log in, and to wait for a lost
    connection to come back. ``reconnect``: how to reconnect (three attempts, 5 s apart), or False.
    """
    where = dial(
        "ceda", url, timeout=timeout, reconnect=reconnect, usual=RECONNECT, verify=verify, ca=ca, cert=cert, key=key
    )
    user = where.target.user if user is None else user
    password = where.target.password if password is None else password
    login = CedaLogin(user, password, client_id, session_id, login_record)
    options = CedaClientOptions(dialect=dialect, charset=charset, heartbeat_seconds=heartbeat, login_seconds=timeout)
    return Opening(lambda: CedaClient(where, login, options))


__all__ = ["Blob", "CedaClient", "Cell", "Message", "Request", "connect"]
