"""Clients of MB brokers.

>>> from wirelake.live import mb
>>> async def main():
...     async with mb.connect("mb://127.0.0.1:3001", name="billing") as client:
...         answer = await client.request("math.add", {"x": 1, "y": 2}, timeout=2)
...         print(answer.json()["sum"])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ...errors import EncodeError
from ...protocols.mb import MAX_PAYLOAD, MAX_RECEIVED
from ..core.errors import AnswerError, ConnectionFailed, ConnectionLost, Refused
from ..core.log import log
from ..core.session import Answered
from ..drive.client import Client, Opening, dial
from ..drive.connection import Dial, Reconnect, unpredictable
from ..drive.responder import Responder
from ..drive.urls import Target
from . import events as event
from .client import MbClient as MbSession
from .events import Message, Request
from .options import ClientOptions
from .wire import MB_TCP, REQUEST, VERSION

Payload = Any
"""bytes as they are, str as UTF-8, anything else as JSON: dicts, lists, numbers, dataclasses, datetimes, …"""
RECONNECT = Reconnect(seconds=1.0, most_seconds=30.0)


class MbClient(Client[Message, Request]):
    """A service of a broker. ``wirelake.connect("mb://…")`` returns one."""

    protocol = "mb"
    framing = MB_TCP
    is_text = True
    max_message = MAX_RECEIVED

    def __init__(self, dial: Dial, options: ClientOptions) -> None:
        self._session = MbSession(options=options, chance=unpredictable())
        super().__init__(dial, self._session)
        self.refused = 0
        """Publishes without ``confirm`` that the broker refused, mostly because nobody had subscribed their topics."""

    async def publish(
        self, topic: str, payload: Payload, *, confirm: bool = False, version: str = VERSION, parent: str | None = None
    ) -> None:
        """Send to all subscribers of the topic. Waits while the connection is full.

        With ``confirm``, wait until the broker has delivered the message; AnswerError (NO_ROUTE_FOUND) if it has no
        subscriber. ``parent`` is the id of the message that caused this one.
        """
        data = to_payload(payload)
        call = partial(self._session.publish, topic, data, version=version, confirm=confirm, parent=parent)
        if not confirm:
            await self._connection.send(call)
            return
        await self._connection.usable()
        await self._answer_to(self._connection.do(call), self._session.forget)

    async def request(
        self,
        topic: str,
        payload: Payload = msgspec.UNSET,
        *,
        timeout: float | None = None,
        version: str = VERSION,
        parent: str | None = None,
    ) -> Message:
        """Send a request, and return its reply; ``timeout`` is 5 s by default, as that of brokers.

        Raises AnswerError if the reply is an error, RequestTimeout if none comes, ConnectionLost if the connection is
        lost. The payload is ``{}`` by default. System topics work in the same way: ``system.service.list``.
        """
        data = b"{}" if payload is msgspec.UNSET else to_payload(payload)
        milliseconds = None if timeout is None else max(1, round(timeout * 1000))
        await self._connection.usable()
        token = self._connection.do(lambda now: self._session.request(topic, data, now, milliseconds, version, parent))
        answer = await self._answer_to(token, self._session.forget)
        return Message(topic, answer, version, token)

    def _handle(self, events: list[Any]) -> None:
        for happened in events:
            match happened:
                case Request(topic=topic, payload=payload):
                    if not self._hand_to_responder(happened, topic, len(payload)):
                        gone = AnswerError("SERVICE_UNAVAILABLE", "this service does not answer that any more")
                        self._answer(happened, None, gone)
                case Message(topic=topic, payload=payload):
                    self._deliver(topic, happened, len(payload))
                case Answered(token, payload, error):
                    self._settle(token, payload, error)
                case event.Ready():
                    self._connection.ready()
                case event.Refused():
                    self._refused(happened)
                case _:
                    pass

    def _refused(self, refused: event.Refused) -> None:
        error = refused.error
        refusal = Refused(f"{refused.what} of {refused.topic} was refused: {error.detail}")
        match refused.what:
            case "registration":
                is_word = isinstance(error, AnswerError)  # the broker's own
                self._connection.fail(refusal if is_word else ConnectionFailed(f"{self.target}: {refusal.detail}"))
            case "subscription":
                self._end_refused({refused.topic}, refusal)
            case _:
                self.refused += 1
                log.info("a message was refused", topic=refused.topic, reason=error.detail)

    def _canonical(self, pattern: str) -> str:
        return pattern.lower()

    def _matches(self, pattern: str, topic: str) -> bool:
        if topic.lower().startswith("system."):
            return pattern.lower() == topic.lower()
        return super()._matches(pattern, topic)

    async def _subscribe(self, patterns: tuple[str, ...]) -> None:
        for pattern in patterns:
            await self._in_force(partial(self._session.subscribe, pattern))

    def _unsubscribe(self, patterns: tuple[str, ...]) -> list[str]:
        tokens = [self._connection.do(partial(self._session.unsubscribe, pattern)) for pattern in patterns]
        return [token for token in tokens if token is not None]

    async def _agreed(self, tokens: Iterable[str]) -> None:
        """Whatever the broker says, and if it says nothing in time, there is nothing to be done about it."""
        waits = [self._answer_to(token, self._session.forget) for token in tokens]
        await asyncio.gather(*waits, return_exceptions=True)

    async def _serve(self, pattern: str, priority: float) -> None:
        try:
            await self._in_force(lambda now: self._session.subscribe(pattern, now, REQUEST, priority))
        except BaseException:
            self._unserve(pattern)
            raise

    def _unserve(self, pattern: str) -> None:
        self._connection.do(lambda now: self._session.unsubscribe(pattern, now, REQUEST))

    async def _in_force(self, call: Callable[[float], str | None]) -> None:
        """Waits until the broker has agreed. After a loss the session asks again by itself."""
        await self._connection.usable()
        token = self._connection.do(call)
        try:
            if token is not None:
                await self._answer_to(token, self._session.forget)
        except AnswerError as error:
            raise Refused(f"the broker refused it: {error.detail}") from None
        except ConnectionLost:
            pass
        await self._connection.usable()

    def _answer(self, asked: Request, result: Any, error: Exception | None) -> None:
        if error is None:
            data = b"{}" if result is None else to_payload(result)
            self._connection.do(lambda now: self._session.answer(asked, data, now))
            return
        if not isinstance(error, AnswerError):
            log.error("a handler failed", exc_info=error, topic=asked.topic)
            error = AnswerError("INTERNAL_ERROR", f"the handler failed: {type(error).__name__}: {error}"[:1000])
        code, message, details = error.code, error.message or error.code, error.details
        self._connection.do(lambda now: self._session.answer_error(asked, code, message, now, details))


def to_payload(value: Payload) -> bytes:
    if isinstance(value, bytes):
        data = value
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogateescape")
    elif isinstance(value, bytearray | memoryview):
        data = bytes(value)
    else:
        try:
            data = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise EncodeError(f"cannot be written as JSON: {error}", rule="payload_json", path="payload") from None
    if len(data) > MAX_PAYLOAD:
        raise EncodeError(f"{len(data)} bytes, at most {MAX_PAYLOAD}", rule="payload_too_large", path="payload")
    return data


def connect(
    url: str | Target,
    *,
    name: str = "",
    description: str = "",
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    verify: bool = True,
    timeout: float = 10.0,
    reconnect: bool | Reconnect = True,
) -> Opening[MbClient]:
    """Connect to the broker at ``mb://host:port``; ``mb+tls``, ``mb+ws`` and ``mb+wss`` are the other transports.

    The client registers with ``name`` and ``description``; without a name it does not register. TLS: ``ca`` are the
    authorities to trust instead of the system's, ``cert`` and ``key`` the client's own. ``timeout``: seconds to
    connect, and to wait for a lost connection to come back. ``reconnect``: how to reconnect (after 1 s, then at growing
    intervals, forever), or False.
    """
    where = dial(
        "mb", url, timeout=timeout, reconnect=reconnect, usual=RECONNECT, verify=verify, ca=ca, cert=cert, key=key
    )
    options = ClientOptions(name=name, description=description)
    return Opening(lambda: MbClient(where, options))


__all__ = ["AnswerError", "MbClient", "Message", "Request", "Responder", "connect"]
