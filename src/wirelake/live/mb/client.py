"""A client of an MB broker, ours or another: publishes, subscribes, asks and answers.

It introduces itself and keeps the connection alive. After a loss it may be connected again with a new link: then it
registers and subscribes anew by itself. Ids in answers that nobody asked for are tolerated; brokers make some up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Unpack

from ...codec import decode
from ...codec.quick_frames import QuickFrames
from ...errors import DecodeError, EncodeError, LimitExceeded, LocalProtocolError
from ...protocols.mb import MAX_PAYLOAD, MAX_TIMEOUT_MS, UUID4
from ...protocols.mb.conduct import HEARTBEAT, INITIALIZE, REGISTER
from ..core.errors import AnswerError, ConnectionLost, LiveError, RequestTimeout
from ..core.link import Link
from ..core.session import Answered, Lost, Session, World
from ..core.timers import Requests, Timers, earliest
from . import wire
from .events import Message, Ready, Refused, Request
from .options import ClientOptions
from .topics import is_valid_topic

_SILENCE = "silence"
"""A timer that belongs to no id."""
_is_id = re.compile(UUID4).fullmatch


@dataclass(slots=True)
class Call:
    """Something that we asked for. ``subject`` is what it is about where we keep it in force ourselves."""

    topic: str
    subject: tuple[str, str] | None = None


class MbClient(Session):
    """Tells its events (see ``events``). What needs a connection raises LocalProtocolError when there is none."""

    def __init__(self, *, options: ClientOptions | None = None, **world: Unpack[World]) -> None:
        super().__init__(**world)
        self.options = options or ClientOptions()
        self.link: Link | None = None
        self.is_ready = False
        self._is_introduced = False
        self._connections = 0
        self._ids = wire.Ids(self.chance)
        self._timers: Timers[str] = Timers()
        self._frames = QuickFrames(wire.TO_CLIENT)
        self._heads = wire.Heads()
        self._calls: Requests[str, Call] = Requests()
        """By id."""
        self._wanted: dict[tuple[str, str], float] = {}
        """Priorities of subscriptions, by action and pattern."""
        self._introducing: set[str] = set()
        """Calls of our own, which the application is not told of."""
        self._heartbeat: str | None = None
        self._sent_at = 0.0

    @property
    def deadline(self) -> float | None:
        return earliest(self._timers.deadline, self._calls.deadline)

    # --- what the application does

    def publish(
        self,
        topic: str,
        payload: bytes,
        now: float,
        version: str = wire.VERSION,
        confirm: bool = False,
        parent: str | None = None,
    ) -> str | None:
        """With ``confirm`` an Answered event will tell whether somebody got it."""
        front = wire.front(wire.PUBLISH, topic, version)
        self._check(payload, parent, expects=confirm)
        token = self._begin(Call(topic), now) if confirm else None
        self._say(wire.add_ids(front, token, parent), payload, now)
        return token

    def request(
        self,
        topic: str,
        payload: bytes,
        now: float,
        timeout_ms: int | None = None,
        version: str = wire.VERSION,
        parent: str | None = None,
    ) -> str:
        """An Answered event will tell the response, or the error."""
        if timeout_ms is not None and not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
            raise EncodeError(f"{timeout_ms} is not from 1 to {MAX_TIMEOUT_MS}", rule="timeout", path="timeout")
        front = wire.front(wire.REQUEST, topic, version)
        self._check(payload, parent, expects=True)
        token = self._begin(Call(topic), now, timeout_ms)
        self._say(wire.add_ids(front, token, parent, timeout_ms), payload, now)
        return token

    def answer(self, asked: Request, payload: bytes, now: float) -> bool:
        """False if the connection that asked is gone."""
        if self.link is None or self.link.closing is not None or asked.connection != self._connections:
            return False
        self._check(payload)
        try:
            front = wire.front(wire.RESPONSE, asked.topic, asked.version)
        except EncodeError:  # a version that only some brokers accept
            front = wire.front(wire.RESPONSE, asked.topic)
        self._say(wire.add_ids(front, asked.id), payload, now)
        return True

    def answer_error(self, asked: Request, code: str, message: str, now: float, details: Any = None) -> bool:
        return self.answer(asked, wire.Fault(code, message, details).payload(wire.Clock(self.epoch, now)), now)

    def subscribe(self, pattern: str, now: float, action: str = wire.PUBLISH, priority: float = 0) -> str | None:
        """Return a token if the broker is asked now; it is asked again after each loss."""
        if not is_valid_topic(pattern, wildcards=True):
            raise EncodeError(f"{pattern!r} is not a valid topic or pattern", rule="topic", path="topic")
        if wire.plain_number(priority) is None:
            raise ValueError(f"a priority has to be a finite number, not {priority}")
        self._wanted[action, pattern.lower()] = priority
        return self._ask_to_subscribe(action, pattern.lower(), priority, now) if self._is_introduced else None

    def unsubscribe(self, pattern: str, now: float, action: str = wire.PUBLISH) -> str | None:
        self._wanted.pop((action, pattern.lower()), None)
        if not self._is_introduced:
            return None
        return self._ask(Call("system.topic.unsubscribe"), {"action": action, "topic": pattern}, now)

    def forget(self, token: str) -> None:
        """Nobody waits for this answer any more."""
        self._calls.close(token)

    def _check(self, payload: bytes, parent: str | None = None, *, expects: bool = False) -> None:
        if self.link is None or self.link.closing is not None:
            raise LocalProtocolError("there is no connection", rule="state")
        if expects and len(self._calls) >= self.options.max_open:
            raise LocalProtocolError(f"{len(self._calls)} requests are open already", rule="state")
        if len(payload) > MAX_PAYLOAD:
            text = f"{len(payload)} bytes, at most {MAX_PAYLOAD}"
            raise EncodeError(text, rule="payload_too_large", path="payload")
        if parent is not None and not _is_id(parent):
            text = f"{parent!r} is not a UUID of version 4"
            raise EncodeError(text, rule="parent_request_id", path="parent_request_id")

    # --- the connection

    def connected(self, link: Link, now: float) -> None:
        if self.link is not None:
            self._lose("another connection took its place")
        self.link = link
        self._connections += 1
        self._frames = QuickFrames(wire.TO_CLIENT)
        self._sent_at = now
        self._timers.set(INITIALIZE, now + self.options.initialize_seconds)
        self._timers.set(_SILENCE, now + self.options.heartbeat_seconds)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        if link is not self.link:
            return
        try:
            self._frames.read(data, self._handle, now)
        except LimitExceeded:
            self._give_up("the broker sends too large a frame")

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        for body in bodies:
            if link is not self.link:
                return
            self._handle(now, body, 0, len(body))

    def disconnected(self, link: Link, now: float) -> None:
        if link is self.link:
            reason = link.closing.reason if link.closing is not None else ""
            self._lose(reason or "the connection was closed")

    def tick(self, now: float) -> None:
        if self._heartbeat is not None and self.is_deaf():
            self._timers.drop(self._heartbeat)
            self._heartbeat = None
        for key in self._timers.due(now):
            if self.link is None:
                return
            if key == INITIALIZE:
                self._introduce(now)
            elif key == _SILENCE:
                self._look_at_silence(now)
            elif key == self._heartbeat:
                self._give_up("no answer to a heartbeat")
        for token in self._calls.due(now):
            self._settle(token, b"", RequestTimeout())

    def _introduce(self, now: float) -> None:
        """The broker is there, or should be: registers, then subscribes."""
        if self._is_introduced or self.link is None:
            return
        self._is_introduced = True
        self._timers.drop(INITIALIZE)
        options = self.options
        if options.name:
            args: dict[str, Any] = {"name": options.name, "description": options.description or options.name}
            register = Call(REGISTER, ("registration", options.name))
            self._introducing.add(self._ask(register, args, now))
        for (action, pattern), priority in self._wanted.items():
            self._introducing.add(self._ask_to_subscribe(action, pattern, priority, now))
        self._look_if_ready()

    def _look_if_ready(self) -> None:
        if not self._introducing and not self.is_ready and self.link is not None:
            self.is_ready = True
            self.events.append(Ready())

    def _look_at_silence(self, now: float) -> None:
        """Brokers drop clients that are silent; some without a word, so we ask."""
        if now >= self._sent_at + self.options.heartbeat_seconds and self._heartbeat is None:
            token = self._heartbeat = self._ids.take().decode()
            self._timers.set(token, now + self.options.answer_seconds)
            self._say(wire.add_ids(wire.front(wire.REQUEST, HEARTBEAT), token), b"{}", now)
        later = self._sent_at if self._sent_at + self.options.heartbeat_seconds > now else now
        self._timers.set(_SILENCE, later + self.options.heartbeat_seconds)

    def _give_up(self, reason: str) -> None:
        assert self.link is not None
        self.link.close(reason, at_once=True)
        self._lose(reason)

    def _lose(self, reason: str) -> None:
        self.link = None
        self._is_introduced = self.is_ready = False
        self._frames = QuickFrames(wire.TO_CLIENT)
        for token in list(self._calls.open):
            self._settle(token, b"", ConnectionLost())
        for key in (INITIALIZE, _SILENCE, self._heartbeat or ""):
            self._timers.drop(key)
        self._heartbeat = None
        self.events.append(Lost(reason))

    def _ask_to_subscribe(self, action: str, pattern: str, priority: float, now: float) -> str:
        args = {"action": action, "topic": pattern, **({"priority": priority} if action == wire.REQUEST else {})}
        return self._ask(Call("system.topic.subscribe", ("subscription", pattern)), args, now)

    def _ask(self, call: Call, args: dict[str, Any], now: float) -> str:
        token = self._begin(call, now)
        self._say(wire.add_ids(wire.front(wire.REQUEST, call.topic), token), wire.write_json(args), now)
        return token

    def _begin(self, call: Call, now: float, timeout_ms: int | None = None) -> str:
        seconds, token = (timeout_ms or self.options.timeout_ms) / 1000, self._ids.take().decode()
        self._calls.begin(token, call, now + seconds + self.options.grace_seconds)
        return token

    def _settle(self, token: str, payload: bytes, error: LiveError | None) -> None:
        """What we asked for has ended: with a reply, an error or a loss."""
        call = self._calls.close(token)
        assert call is not None
        if call.subject is not None and not isinstance(error, ConnectionLost):
            what, topic = call.subject
            if error is None and b'"failure"' in payload and what == "subscription":
                error = AnswerError("FAILURE", "the broker did not do it")
            if error is not None:
                self.events.append(Refused(what, topic, error))
        if token in self._introducing:
            self._introducing.discard(token)
            self._look_if_ready()
        else:
            self.events.append(Answered(token, payload, error))

    def _say(self, header: bytes, payload: bytes, now: float) -> None:
        assert self.link is not None
        self._sent_at = now
        self.link.say(header + wire.LF + payload)

    # --- messages

    def _handle(self, now: float, data: bytes, start: int, stop: int) -> bool:
        """Returns whether the connection is gone now."""
        try:
            head, rid, _, _, end = self._heads.parse(data, start, stop)
        except wire.Fault as fault:
            self._handle_odd(data[start:stop], fault, now)
        else:
            self._take(head, rid.decode() if rid is not None else None, data[end + 1 : stop], now)
        return self.link is None

    def _handle_odd(self, body: bytes, fault: wire.Fault, now: float) -> None:
        """Not as the document says: perhaps as other brokers write it."""
        try:
            message = decode("mb", body, profile="upstream")
        except DecodeError as error:
            self.counts["malformed"] += 1
            self.note("warn", f"a message cannot be read: {error}")
            return
        self.counts["nonconforming"] += 1
        self.note("debug", f"a message is not as it should be: {fault.text}")
        head = wire.Head(type(message).__name__.lower(), message.topic, message.version)
        self._take(head, message.request_id, message.payload or b"", now)

    def _take(self, head: wire.Head, rid: str | None, payload: bytes, now: float) -> None:
        if head.action == wire.PUBLISH:
            if head.name == INITIALIZE:
                self._introduce(now)
            else:
                self.events.append(Message(head.topic, payload, head.version, rid))
        elif head.action == wire.RESPONSE:
            self._take_response(head, rid, payload)
        elif head.name == HEARTBEAT:
            self._say(wire.add_ids(wire.front(wire.RESPONSE, HEARTBEAT), rid or None), b"{}", now)
        elif rid is not None:
            self.events.append(Request(head.topic, payload, head.version, rid, self._connections))
        else:
            self.counts["unanswerable"] += 1

    def _take_response(self, head: wire.Head, rid: str | None, payload: bytes) -> None:
        if rid is not None and rid == self._heartbeat:
            self._timers.drop(rid)
            self._heartbeat = None
        elif rid is not None and rid in self._calls:
            self._settle(rid, payload, wire.read_error(payload))
        elif head.name == "system.log":
            self.events.append(Message(head.topic, payload, head.version, rid))
        else:
            self._take_unasked(head, payload)

    def _take_unasked(self, head: wire.Head, payload: bytes) -> None:
        """An answer whose id we do not know: made up by the broker, too late, or a heartbeat's."""
        error = wire.read_error(payload)
        if error is None:
            self.counts["unasked"] += 1
            return
        if isinstance(error, AnswerError) and error.code == "SERVICE_UNAVAILABLE":
            about = (token for token, call in self._calls.open.items() if call.topic.lower() == head.name)
            oldest = next(about, None)
            if oldest is not None:  # a known broker tells of an evicted request under an id of its own
                self._settle(oldest, payload, error)
                return
        self.events.append(Refused("message", head.topic, error))
