"""A client of an MB broker, ours or another: publishes, subscribes, asks and answers.

Ids in answers that nobody asked for are tolerated; brokers make some up.
"""

from __future__ import annotations

import re
from typing import Any

from ...codec import decode
from ...errors import DecodeError, EncodeError, LocalProtocolError
from ...protocols.mb import MAX_PAYLOAD, MAX_TIMEOUT_MS, UUID4
from ...protocols.mb.conduct import HEARTBEAT, INITIALIZE
from . import wire
from .connection import Talk, Waiting
from .events import Asked, Delivered, Refused
from .topics import is_valid_topic

_is_id = re.compile(UUID4).fullmatch


class MbClient(Talk):
    """Tells its events (see ``mb_events``). What needs a connection raises LocalProtocolError when there is none."""

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
        header = self._header(wire.PUBLISH, topic, version)
        self._check(payload, parent, expects=confirm)
        token = self._expect(Waiting(topic), now, self.options.timeout_ms) if confirm else None
        self._say(wire.add_ids(header, token, parent), payload, now)
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
        header = self._header(wire.REQUEST, topic, version)
        self._check(payload, parent, expects=True)
        token = self._expect(Waiting(topic), now, timeout_ms or self.options.timeout_ms)
        self._say(wire.add_ids(header, token, parent, timeout_ms), payload, now)
        return token

    def system(self, topic: str, args: Any, now: float) -> str:
        """A request to the broker itself."""
        return self.request(topic, wire.write_json({} if args is None else args), now)

    def answer(self, asked: Asked, payload: bytes, now: float) -> bool:
        """False if the connection that asked is gone."""
        if self.link is None or self.link.closing is not None or asked.connection != self._connections:
            return False
        self._check(payload)
        self._say(wire.add_ids(self._answer_header(asked), asked.token), payload, now)
        return True

    def _answer_header(self, asked: Asked) -> bytes:
        """With the version of the question, unless that is one which only some brokers accept."""
        try:
            return self._header(wire.RESPONSE, asked.topic, asked.version)
        except EncodeError:
            return self._header(wire.RESPONSE, asked.topic)

    def answer_error(self, asked: Asked, code: str, message: str, now: float, details: Any = None) -> bool:
        return self.answer(asked, wire.Fault(code, message, details).payload(self.epoch + now), now)

    def subscribe(self, pattern: str, now: float) -> str | None:
        """Gives a token if the broker is asked now; else it will be when there is one, now and after each loss."""
        return self._want(wire.PUBLISH, pattern, 0, now)

    def serve(self, pattern: str, priority: float, now: float) -> str | None:
        """The same for requests."""
        return self._want(wire.REQUEST, pattern, priority, now)

    def unsubscribe(self, pattern: str, now: float) -> str | None:
        return self._unwant(wire.PUBLISH, pattern, now)

    def unserve(self, pattern: str, now: float) -> str | None:
        return self._unwant(wire.REQUEST, pattern, now)

    def forget(self, token: str) -> None:
        """Nobody waits for this answer any more."""
        if self._open.pop(token, None) is not None:
            self._timers.drop(token)

    def close(self, reason: str = "") -> None:
        if self.link is not None:
            self.link.close(reason)

    def _want(self, action: str, pattern: str, priority: float, now: float) -> str | None:
        if not is_valid_topic(pattern, wildcards=True):
            raise EncodeError(f"{pattern!r} is not a valid topic or pattern", rule="topic", path="topic")
        if wire.plain_number(priority) is None:
            raise ValueError(f"a priority has to be a finite number, not {priority}")
        self._wanted[action, pattern.lower()] = priority
        return self._ask_to_subscribe(action, pattern.lower(), priority, now) if self._is_introduced else None

    def _unwant(self, action: str, pattern: str, now: float) -> str | None:
        self._wanted.pop((action, pattern.lower()), None)
        if not self._is_introduced:
            return None
        args = {"action": action, "topic": pattern}
        return self._ask(Waiting("system.topic.unsubscribe"), args, now)

    def _check(self, payload: bytes, parent: str | None = None, *, expects: bool = False) -> None:
        """Raises if this cannot be sent, or cannot be sent now."""
        if self.link is None or self.link.closing is not None:
            raise LocalProtocolError("there is no connection", rule="state")
        if expects and len(self._open) >= self.options.max_open:
            raise LocalProtocolError(f"{len(self._open)} requests are open already", rule="state")
        if len(payload) > MAX_PAYLOAD:
            text = f"{len(payload)} bytes, at most {MAX_PAYLOAD}"
            raise EncodeError(text, rule="payload_too_large", path="payload")
        if parent is not None and not _is_id(parent):
            text = f"{parent!r} is not a UUID of version 4"
            raise EncodeError(text, rule="parent_request_id", path="parent_request_id")

    def _handle(self, data: bytes, start: int, stop: int, now: float) -> None:
        try:
            head, rid, _, _, end = self._heads.parse(data, start, stop)
        except wire.Fault as fault:
            self._handle_odd(data[start:stop], fault, now)
            return
        self._take(head, rid.decode() if rid is not None else None, data[end + 1 : stop], now)

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
                self.events.append(Delivered(head.topic, head.version, payload, rid))
        elif head.action == wire.RESPONSE:
            self._take_response(head, rid, payload, now)
        elif head.name == HEARTBEAT:
            self._say(wire.add_ids(self._header(wire.RESPONSE, HEARTBEAT), rid or None), b"{}", now)
        elif rid is not None:
            self.events.append(Asked(rid, head.topic, head.version, payload, self._connections))
        else:
            self.counts["unanswerable"] += 1

    def _take_response(self, head: wire.Head, rid: str | None, payload: bytes, now: float) -> None:
        if rid is not None and rid == self._heartbeat:
            self._timers.drop(rid)
            self._heartbeat = None
        elif rid is not None and rid in self._open:
            self._settle(rid, payload, wire.read_error(payload))
        elif head.name == "system.log":
            self.events.append(Delivered(head.topic, head.version, payload, rid))
        else:
            self._take_unasked(head, payload)

    def _take_unasked(self, head: wire.Head, payload: bytes) -> None:
        """An answer whose id we do not know: made up by the broker, too late, or a heartbeat's."""
        error = wire.read_error(payload)
        if error is None:
            self.counts["unasked"] += 1
            return
        if error.code == "SERVICE_UNAVAILABLE":
            oldest = next((token for token, one in self._open.items() if one.topic.lower() == head.name), None)
            if oldest is not None:  # a known broker tells of an evicted request under an id of its own
                self._settle(oldest, payload, error)
                return
        self.events.append(Refused("message", head.topic, error))
