"""What the application in a CEDA server's own process can do: it takes part like a client that needs no connection."""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec.structs import replace

from ...errors import EncodeError
from ..core.session import Session
from .broker import APPLICATION, Broker
from .data import Blob, Data, check_blob, names, payloads
from .events import Answered, Delivered
from .options import CedaServerOptions
from .records import Record, write_record
from .wire import CEDA4_WS, JAVA_NAME_BYTES, P2P, PUBLISH, REPLY, REQUEST, java_warning, warn_once


class CedaService(Session):
    """The verbs of the application, around a broker."""

    def __init__(self, options: CedaServerOptions, *, epoch: float, chance: random.Random | None) -> None:
        super().__init__(epoch=epoch, chance=chance)
        self.options = options
        self._charset = options.charset
        self._counter = 0
        self._warned: set[str] = set()
        self._broker = Broker(self, options)

    def listen(self, patterns: Iterable[str]) -> None:
        """The application wants these topics: publishes come as Delivered, requests as Asked."""
        for pattern in patterns:
            self._broker.subscriptions.add(self._broker.application, pattern)

    def unlisten(self, patterns: Iterable[str]) -> None:
        for pattern in patterns:
            self._broker.subscriptions.remove(self._broker.application, pattern)

    def publish(
        self, topic: str, record: Record, now: float, *, blob: Blob | None = None, cache: bool | None = None
    ) -> None:
        """To everybody who subscribed the topic; ``cache`` keeps it for those who will."""
        message = self._made(Data(PUBLISH, topic, write_record(record, self._charset), blob=blob))
        self._broker.publish(message, now, cache=self.options.cache if cache is None else cache)

    def request(
        self,
        topic: str,
        record: Record,
        now: float,
        *,
        timeout: float | None = 30.0,
        server_id: str = "MQ",
        signal_id: str = "",
        blob: Blob | None = None,
    ) -> int:
        """Asks one of the services among the clients; Answered comes with this token."""
        self._counter += 1
        reply_topic = f"{APPLICATION}.1.{self._counter}"
        body = write_record(record, self._charset)
        message = self._made(Data(REQUEST, topic, body, APPLICATION, server_id, signal_id, reply_topic, blob))
        token = self._broker.requests.open(reply_topic, None if timeout is None else now + timeout)
        if not self._broker.ask(self._broker.application, message, now):
            self._broker.requests.close(reply_topic)
            self.events.append(Answered(token, None, "nobody serves this topic"))
        return token

    def reply(self, asked: Delivered, record: Record, now: float, *, blob: Blob | None = None) -> None:
        """Answers a request, or a p2p with another one."""
        message = answer_to(asked.message, write_record(record, self._charset), blob)
        if message is None:
            self.note("warn", "a request without a reply topic cannot be answered", topic=asked.topic)
            return
        target = self._broker.connections.get(message.connection_id)
        if target is None or not target.is_ready:
            self.counts["replies_dropped"] += 1
        elif target is self._broker.application:
            self._broker.close_request(self._made(message))
        else:
            self._broker.deliver(self._made(message), (target,), now)

    def p2p(
        self,
        connection_id: int,
        topic: str,
        record: Record,
        now: float,
        *,
        server_id: str = "",
        signal_id: str = "",
        blob: Blob | None = None,
    ) -> bool:
        """To one client; whether it is there."""
        target = self._broker.connections.get(connection_id)
        if target is None or not target.is_ready or target is self._broker.application:
            return False
        body = write_record(record, self._charset)
        message = Data(P2P, topic, body, connection_id, server_id, signal_id, blob=blob)
        self._broker.deliver(self._made(message), (target,), now)
        return True

    def _made(self, message: Data) -> Data:
        """A message of the application, if it can be sent at all."""
        if not message.topic:
            raise EncodeError("a topic must not be empty", rule="text_empty", path="topic")
        if message.blob is not None:
            check_blob(message.blob, self.options.limits.groups.blob)
        else:
            (payload,) = payloads(message, self.options.dialect)
            if self.options.dialect == CEDA4_WS:
                warning = java_warning(payload, names(message) if len(payload) > JAVA_NAME_BYTES else ())
                warn_once(self, self._warned, warning)
        return replace(message, charset=self.options.charset, errors=self.options.errors)


def answer_to(asked: Data, body: bytes, blob: Blob | None) -> Data | None:
    """The reply to a request, or the p2p that answers one; None if it cannot be answered."""
    if asked.code == P2P:
        return Data(P2P, asked.topic, body, asked.connection_id, asked.server_id, asked.signal_id, blob=blob)
    if not asked.reply_topic:
        return None
    return Data(REPLY, asked.reply_topic, body, asked.connection_id, asked.server_id, asked.signal_id, blob=blob)
