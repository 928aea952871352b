"""The connection of an MB client: introduces itself, keeps the connection alive, remembers what it waits for.

After a loss it may be connected again with a new link: then it registers and subscribes anew by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...codec import encode
from ...protocols.mb import MAX_RECEIVED, Publish, Request, Response
from ...protocols.mb.conduct import DEFAULT_LIMIT_US, HEARTBEAT, INITIALIZE, REGISTER
from ..core.link import Link
from ..core.session import Session
from ..core.timers import Timers
from . import wire
from .events import CONNECTION_LOST, NO_ANSWER, Answered, Event, Lost, Ready, Refused

_SILENCE = "silence"
"""Keys of timers that are no ids."""
_MAX_HEADERS = 2048
_CLASSES: dict[str, Any] = {wire.PUBLISH: Publish, wire.REQUEST: Request, wire.RESPONSE: Response}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Who we are, and how long we wait. Without a name we do not register."""

    name: str = ""
    description: str = ""
    initialize_seconds: float = 5.0
    heartbeat_seconds: float = 20.0
    """Without sending for so long, we ask the broker for a sign of life."""
    answer_seconds: float = 5.0
    """How long that may take before the connection counts as lost."""
    timeout_ms: int = DEFAULT_LIMIT_US // 1000
    """How long a broker lets a request wait that does not say."""
    grace_seconds: float = 2.0
    """How much longer we wait for the broker's own word."""
    max_open: int = 10_000


@dataclass(slots=True)
class Waiting:
    """Something that we asked for: ``subject`` is what it is about where we keep it in force ourselves; ``is_told`` if
    the application has the token.
    """

    topic: str
    subject: tuple[str, str] | None = None
    is_told: bool = True


Kind = tuple[str, str]
"""Action and pattern of a subscription."""


class Talk(Session):
    """What a client does by itself. Whole messages are given to ``_handle``."""

    events: list[Event]

    def __init__(
        self, *, options: ClientOptions | None = None, epoch: float = 0.0, chance: random.Random | None = None
    ) -> None:
        super().__init__(epoch=epoch, chance=chance)
        self.options = options or ClientOptions()
        self.link: Link | None = None
        self.is_ready = False
        self._is_introduced = False
        self._connections = 0
        self._ids = wire.Ids(self.chance)
        self._timers: Timers[str] = Timers()
        self._incoming = wire.Incoming()
        self._heads = wire.Heads()
        self._open: dict[str, Waiting] = {}
        self._wanted: dict[Kind, float] = {}
        self._headers: dict[tuple[str, str, str], bytes] = {}
        self._introducing: set[str] = set()
        self._heartbeat: str | None = None
        self._sent_at = 0.0

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def connected(self, link: Link, now: float) -> None:
        if self.link is not None:
            self._lose("another connection took its place")
        self.link = link
        self._connections += 1
        self._incoming = wire.Incoming()
        self._sent_at = now
        self._timers.set(INITIALIZE, now + self.options.initialize_seconds)
        self._timers.set(_SILENCE, now + self.options.heartbeat_seconds)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        if link is not self.link:
            return
        data = self._incoming.add(data)
        at, end = 0, len(data)
        while end - at >= 4:
            (size,) = wire.size_of(data, at)
            if size > MAX_RECEIVED:
                self._give_up("the broker sends too large a frame")
                return
            start = at + 4
            if start + size > end:
                break
            at = start + size
            self._handle(data, start, at, now)
            if link is not self.link:
                return
        self._incoming.keep(data, at)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        for body in bodies:
            if link is not self.link:
                return
            if len(body) > MAX_RECEIVED:
                self._give_up("the broker sends too large a message", 1009)
            else:
                self._handle(body, 0, len(body), now)

    def disconnected(self, link: Link, now: float) -> None:
        if link is self.link:
            reason = link.closing.reason if link.closing is not None else ""
            self._lose(reason or "the connection was closed")

    def tick(self, now: float) -> None:
        for key in self._timers.due(now):
            if self.link is None:
                return
            if key == INITIALIZE:
                self._introduce(now)
            elif key == _SILENCE:
                self._look_at_silence(now)
            elif key == self._heartbeat:
                self._give_up("no answer to a heartbeat")
            elif key in self._open:
                self._settle(key, b"", NO_ANSWER)

    def _handle(self, data: bytes, start: int, stop: int, now: float) -> None:
        """A message came: the bytes from ``start`` to ``stop``."""
        raise NotImplementedError

    def _introduce(self, now: float) -> None:
        """The broker is there, or should be: registers, then subscribes."""
        if self._is_introduced or self.link is None:
            return
        self._is_introduced = True
        self._timers.drop(INITIALIZE)
        options = self.options
        if options.name:
            args: dict[str, Any] = {"name": options.name, "description": options.description or options.name}
            register = Waiting(REGISTER, ("registration", options.name), is_told=False)
            self._introducing.add(self._ask(register, args, now))
        for (action, pattern), priority in self._wanted.items():
            self._introducing.add(self._ask_to_subscribe(action, pattern, priority, now, is_told=False))
        self._look_if_ready()

    def _look_if_ready(self) -> None:
        if not self._introducing and not self.is_ready and self.link is not None:
            self.is_ready = True
            self.events.append(Ready(self._connections > 1))

    def _look_at_silence(self, now: float) -> None:
        """Brokers drop who is silent; some without a word, so we ask."""
        if now >= self._sent_at + self.options.heartbeat_seconds and self._heartbeat is None:
            token = self._heartbeat = self._ids.take().decode()
            self._timers.set(token, now + self.options.answer_seconds)
            self._say(wire.add_ids(self._header(wire.REQUEST, HEARTBEAT), token), b"{}", now)
        later = self._sent_at if self._sent_at + self.options.heartbeat_seconds > now else now
        self._timers.set(_SILENCE, later + self.options.heartbeat_seconds)

    def _give_up(self, reason: str, code: int = 1000) -> None:
        assert self.link is not None
        self.link.close(reason, code, at_once=True)
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        self.link = None
        self._is_introduced = self.is_ready = False
        self._heartbeat = None
        self._incoming = wire.Incoming()
        self._introducing.clear()
        self._timers = Timers()
        for token in list(self._open):
            self._settle(token, b"", CONNECTION_LOST)
        self.events.append(Lost(reason))

    def _ask_to_subscribe(self, action: str, pattern: str, priority: float, now: float, *, is_told: bool = True) -> str:
        args = {"action": action, "topic": pattern, **({"priority": priority} if action == wire.REQUEST else {})}
        return self._ask(Waiting("system.topic.subscribe", ("subscription", pattern), is_told=is_told), args, now)

    def _ask(self, waiting: Waiting, args: dict[str, Any], now: float) -> str:
        token = self._expect(waiting, now, self.options.timeout_ms)
        self._say(wire.add_ids(self._header(wire.REQUEST, waiting.topic), token), wire.write_json(args), now)
        return token

    def _settle(self, token: str, payload: bytes, error: wire.MbError | None) -> None:
        """The end of something that we asked for."""
        waiting = self._open.pop(token)
        self._timers.drop(token)
        if waiting.subject is not None and error is not CONNECTION_LOST:
            what, topic = waiting.subject
            if error is None and b'"failure"' in payload and what == "subscription":
                error = wire.MbError("FAILURE", "the broker did not do it")
            if error is not None:
                self.events.append(Refused(what, topic, error))
        if waiting.is_told:
            self.events.append(Answered(token, payload, error))
        if token in self._introducing:
            self._introducing.discard(token)
            self._look_if_ready()

    def _header(self, action: str, topic: str, version: str = wire.VERSION) -> bytes:
        """The front of a header, checked by the codec when it is used first."""
        found = self._headers.get((action, topic, version))
        if found is None:
            encode(_CLASSES[action](topic=topic, version=version))
            if len(self._headers) >= _MAX_HEADERS:
                self._headers.clear()
            found = self._headers[action, topic, version] = f"{action}:{topic}:{version}".encode()
        return found

    def _expect(self, waiting: Waiting, now: float, timeout_ms: int) -> str:
        token = self._ids.take().decode()
        self._open[token] = waiting
        self._timers.set(token, now + timeout_ms / 1000 + self.options.grace_seconds)
        return token

    def _say(self, header: bytes, payload: bytes, now: float) -> None:
        assert self.link is not None
        self._sent_at = now
        self.link.say(header + wire.LF + payload)
