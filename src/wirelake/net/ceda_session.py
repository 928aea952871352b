"""The session of a CEDA client that has an application behind it."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..sessions.base import CLIENT
from ..sessions.ceda_client import SESSION, CedaClient
from ..sessions.ceda_login import CedaLogin
from ..sessions.ceda_options import CedaClientOptions
from ..sessions.ceda_wire import HEARTBEAT
from ..sessions.links import Link


@dataclass(frozen=True, slots=True)
class Echo:
    """Heartbeats came."""

    count: int


class ClientSession(CedaClient):
    """What a client with an application adds: that may give up waiting, and may be too slow to read."""

    def __init__(self, is_stopped: Callable[[], bool], login: CedaLogin, options: CedaClientOptions) -> None:
        super().__init__(login, options, chance=random.Random(secrets.randbits(256)))
        self._is_stopped = is_stopped

    @property
    def last_reply_topic(self) -> str:
        return f"{self.connection_id}.{SESSION}.{self._counter}"

    def forget(self, reply_topic: str) -> None:
        """Nobody waits for this reply any more."""
        self._requests.close(reply_topic)

    def beat(self, now: float) -> None:
        """A heartbeat out of turn."""
        if self.is_ready:
            self._states.sends(CLIENT, "heartbeat", is_us=True)
            self._say(bytes((HEARTBEAT,)))

    def receive(self, link: Link, data: bytes, now: float) -> None:
        before = self.counts["heartbeats"]
        super().receive(link, data, now)
        self._tell_echoes(before)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        before = self.counts["heartbeats"]
        super().receive_messages(link, bodies, now)
        self._tell_echoes(before)

    def _tell_echoes(self, before: int) -> None:
        count = self.counts["heartbeats"] - before
        if count:
            self.events.append(Echo(count))

    def tick(self, now: float) -> None:
        """While nothing is read, nothing can be heard: that is no sign of death. Heartbeats show that we live."""
        if self._is_stopped():
            self._missed = 0
        super().tick(now)
