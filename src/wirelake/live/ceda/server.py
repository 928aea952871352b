"""The server's side of CEDA: connections, logins, subscriptions, heartbeats, and a broker between its clients.

Only servers answer heartbeats. Before login nothing else is answered; what is sent too early is counted and forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ...errors import DecodeError
from ...protocols.ceda import MAX_PAYLOAD
from ...spec.declare import Cell
from ..core.link import Link
from ..core.session import CLIENT, SERVER
from ..core.timers import Timers
from . import wire
from .application import CedaService
from .broker import LOGIN_TOPIC
from .connection import LIFE_CYCLE, Connection
from .data import BadMessage, read_data
from .events import Answered, Authenticator, LoginAttempt, welcome
from .options import CedaServerOptions
from .records import is_record, write_record
from .topics import is_pattern
from .wire import CEDA4_WS, HEARTBEAT, LOGIN, LOGOUT, NAMES, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Do

FIRST_ID, LAST_ID = 1001, 0xFFFFFE
REFUSED = "Username or Password is error"
"""What the deployed server says to everybody whom it does not let in."""
_KNOWN = {
    LOGIN: (Do.LOGIN, Do.LOGIN_SID, Do.LOGIN_VS),
    SUBSCRIBE: (Do.SUB, Do.SUB_BATCH, Do.SUBSCRIBE_WITH_IMAGE),
    UNSUBSCRIBE: (Do.UNSUB, Do.UNSUB_BATCH),
}
"""What a client may ask of a server."""
_MAX_TOPIC_BYTES = 255
_NEVER = float("inf")


class CedaServer(CedaService):
    """Serves many links. ``authenticate`` decides who may log in."""

    def __init__(
        self,
        options: CedaServerOptions | None = None,
        *,
        authenticate: Authenticator = welcome,
        epoch: float = 0.0,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(options or CedaServerOptions(), epoch=epoch, chance=chance)
        self._authenticate = authenticate
        self._timers: Timers[Connection] = Timers()
        self._is_quick = self.options.broker and not self.options.cache
        self._next_id = FIRST_ID

    @property
    def deadline(self) -> float | None:
        times = [when for when in (self._timers.deadline, self._broker.requests.deadline) if when is not None]
        return min(times, default=None)

    def connected(self, link: Link, now: float) -> None:
        if wire.is_stream(link.framing):
            link.framing = self.options.framing
        connection = Connection(self._allot(), link, now, self.options, self.counts)
        link.state = connection
        self._broker.connections[connection.number] = connection
        self._wake(connection, self._next_look(connection, None))

    def receive(self, link: Link, data: bytes, now: float) -> None:
        connection: Connection = link.state
        if link.closing is not None:
            return
        connection.heard = now
        for batch in connection.reader.read(data):
            self._take(connection, batch, now)
            if connection.is_closing:
                break
        if connection.reader.error is not None and not connection.is_closing:
            self._lose(connection, connection.reader.error)
        self._bound()

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        connection: Connection = link.state
        if link.closing is not None:
            return
        connection.heard = now
        batch = list(bodies)
        if any(len(body) > MAX_PAYLOAD for body in batch):
            self.counts["frame_errors"] += 1
            self._broker.close(connection, f"a message of more than {MAX_PAYLOAD} bytes", 1009)
            return
        self.counts["message_errors"] += batch.count(b"")
        self._take(connection, [body for body in batch if body], now)
        self._bound()

    def disconnected(self, link: Link, now: float) -> None:
        connection: Connection | None = link.state
        if connection is None or self._broker.connections.get(connection.number) is not connection:
            return
        del self._broker.connections[connection.number]
        self._timers.drop(connection)
        self._broker.leave(connection)

    def tick(self, now: float) -> None:
        for connection in self._timers.due(now):
            connection.due = _NEVER
            self._look(connection, now)
        for token in self._broker.requests.due(now):
            self.events.append(Answered(token, None, "no reply in time"))

    def _take(self, connection: Connection, batch: list[bytes], now: float) -> None:
        """Handles payloads one after the other; publishes that are only forwarded take the short way."""
        rest = iter(batch)
        while True:
            if self._is_quick and connection.is_ready and not connection.merger.open:
                payload = self._broker.forward(rest, now)
            else:
                payload = next(rest, None)
            if payload is None:
                return
            self._message(connection, payload, now)
            if connection.is_closing:
                return

    def _message(self, connection: Connection, payload: bytes, now: float) -> None:
        code = payload[0]
        if code >= PUBLISH and code in NAMES:
            self._data(connection, payload, now)
        elif code == HEARTBEAT and len(payload) == 1:
            if self._may(connection, "heartbeat"):
                self.counts["heartbeats"] += 1
                connection.link.say(payload)
        elif code == LOGOUT and (len(payload) == 1 or connection.reader.reading == CEDA4_WS):
            connection.states.move(CLIENT, "logout")
            self._broker.close(connection, "logged out")
        elif code in (SUBSCRIBE, UNSUBSCRIBE, LOGIN) and len(payload) > 1:
            self._control(connection, payload, now)
        else:
            self._bad(connection, "message", payload)

    def _data(self, connection: Connection, payload: bytes, now: float) -> None:
        reading = connection.reader.reading
        try:
            message = read_data(payload, reading == CEDA4_WS, self.options.charset, self.options.errors)
        except BadMessage:
            self._bad(connection, "message", payload)
            return
        is_login = message.topic == LOGIN_TOPIC
        if not self._may(connection, "login" if is_login else message.kind):
            return
        if not is_record(message.body, 0, self.options.charset, self.options.errors):
            message = replace(message, is_bad=True)
            self._bad(connection, "record", payload)
        if is_login:
            record = None if message.is_bad else message.record
            self._login(connection, None, record, now)
            return
        whole = connection.merger.take(message, reading, now)
        if connection.merger.open:
            self._wake(connection, now + self.options.limits.groups.quiet_seconds)
        if whole is None:
            self.counts["pieces"] += 1
        elif self.options.broker or connection.link.is_inside:
            self._broker.route(connection, whole, payload if whole is message else None, now)
        else:
            self._broker.hand_over(connection, whole, now)

    def login_result(self, link: Link, ok: bool, reason: str, now: float) -> None:
        """How the login ended that the authenticator did not decide at once."""
        connection: Connection = link.state
        is_here = self._broker.connections.get(connection.number) is connection
        if not is_here or connection.is_closing or not connection.states.may(SERVER, "login"):
            return
        if ok:
            connection.states.move(SERVER, "login")
            connection.settle()
            record: dict[int, Any] = {6: connection.number, 4: "Success", 1: 1}
            self._broker.enter(connection)
            self.counts["logins"] += 1
            self._wake(connection, now + self.options.heartbeat_seconds)
        else:
            self._broker.leave(connection)
            connection.states.state = LIFE_CYCLE.initial
            record = {4: reason or REFUSED, 1: 0}
            self.counts["logins_refused"] += 1
            self.note("info", "login refused", connection=connection.number, peer=link.peer, user=connection.user)
        link.say(bytes((LOGIN, Do.LOGIN_RESULT)) + write_record(record, self._charset))

    def _control(self, connection: Connection, payload: bytes, now: float) -> None:
        kind, code = payload[0], payload[1]
        if code not in _KNOWN[kind]:
            self.counts["control_ignored"] += 1
            return
        if not self._may(connection, NAMES[kind]):
            return
        try:
            record = wire.decode_payload(payload, CEDA4_WS, self._charset, self.options.errors).record
        except DecodeError:
            self._bad(connection, "record", payload)
            if kind == LOGIN:
                self._login(connection, code, None, now)
            return
        if kind == LOGIN:
            self._login(connection, code, record, now)
            return
        text = next((cell.value for cell in reversed(record) if cell.fid == 3), None)
        if not isinstance(text, str):
            self.counts["control_ignored"] += 1
        elif kind == SUBSCRIBE:
            self._subscribe(connection, code, text, now)
        else:
            for part in _parts(code, text):
                if self._broker.subscriptions.remove(connection, part):
                    connection.patterns -= is_pattern(part)
            self._result(connection, UNSUBSCRIBE, Do.UNSUB_RESULT, text, "")

    def _login(self, connection: Connection, code: int | None, record: tuple[Cell, ...] | None, now: float) -> None:
        """Somebody wants to log in; without a record that can be read there is nobody to ask for."""
        self._broker.unname(connection)
        connection.states.move(CLIENT, "login")
        connection.settle()
        attempt = LoginAttempt(connection.link, connection.number, code, record or ())
        connection.user, connection.client_id = attempt.user, attempt.client_id
        verdict: bool | str | None = False
        if record is not None:
            try:
                verdict = connection.link.is_inside or self._authenticate(attempt)
            except Exception as error:
                self.note("error", f"the authenticator failed: {error!r}", connection=connection.number)
        if verdict is not None:
            self.login_result(attempt.link, verdict is True, verdict if isinstance(verdict, str) else "", now)

    def _subscribe(self, connection: Connection, code: int, text: str, now: float) -> None:
        subscriptions = self._broker.subscriptions
        parts = _parts(code, text)
        reason = ""
        new = []
        for part in parts:
            if subscriptions.has(connection, part):
                continue
            refusal = self._refusal(connection, part)
            if refusal:
                self.counts["subscriptions_refused"] += 1
                reason = refusal
            else:
                subscriptions.add(connection, part)
                connection.patterns += is_pattern(part)
                new.append(part)
        self._result(connection, SUBSCRIBE, Do.SUB_RESULT, text, reason)
        if code == Do.SUBSCRIBE_WITH_IMAGE:
            self._send_images(connection, [part for part in parts if subscriptions.has(connection, part)], now)
        elif self.options.image_on_subscribe:
            self._send_images(connection, new, now)

    def _refusal(self, connection: Connection, text: str) -> str:
        """Why a connection may not subscribe this; empty if it may."""
        limits = self.options.limits
        if len(text.encode("utf-8", "replace")) > _MAX_TOPIC_BYTES:
            return f"a topic has at most {_MAX_TOPIC_BYTES} bytes"
        if not is_pattern(text):
            count = len(self._broker.subscriptions.of.get(connection, ())) - connection.patterns
            return f"at most {limits.topics} topics" if count >= limits.topics else ""
        if connection.patterns >= limits.patterns:
            return f"at most {limits.patterns} patterns"
        return f"a pattern has at most {limits.segments} segments" if text.count(".") >= limits.segments else ""

    def _send_images(self, connection: Connection, patterns: list[str], now: float) -> None:
        images = self._broker.images
        if not patterns or not images:
            return
        for topic in self._broker.subscriptions.matching(patterns, images):
            self._broker.deliver(images.message(topic), (connection,), now)
            if connection.is_closing:
                return

    def _result(self, connection: Connection, kind: int, code: int, text: str, reason: str) -> None:
        if self.options.sub_results:
            record: dict[int, Any] = {4: reason} if reason else {}
            record |= {3: text, 1: 0 if reason else 1}
            connection.link.say(bytes((kind, code)) + write_record(record, self._charset))

    def _may(self, connection: Connection, name: str) -> bool:
        """Whether the client may send this now; what it may not is counted and forgotten."""
        if connection.states.may(CLIENT, name):
            return True
        self.counts["ignored_before_login"] += 1
        return False

    def _bad(self, connection: Connection, scope: str, payload: bytes) -> None:
        """Count what cannot be read, and note once per connection why."""
        self.counts[f"{scope}_errors"] += 1
        if scope not in connection.noted:
            connection.noted.add(scope)
            rule = ""
            try:
                wire.decode_payload(payload, connection.reader.reading, self._charset, self.options.errors)
            except DecodeError as error:
                rule = error.rule
            self.note(
                "warn", f"a {scope} that cannot be read", connection=connection.number, rule=rule, type=payload[0]
            )

    def _wake(self, connection: Connection, when: float) -> None:
        if when < connection.due:
            connection.due = when
            self._timers.set(connection, when)

    def _lose(self, connection: Connection, error: DecodeError) -> None:
        self.counts["frame_errors"] += 1
        self.note(
            "warn", "the framing is lost", connection=connection.number, rule=error.rule, peer=connection.link.peer
        )
        self._broker.close(connection, f"the framing is lost: {error.detail}", 1002)

    def _allot(self) -> int:
        """The next connection id that is not in use."""
        connections = self._broker.connections
        while self._next_id in connections:
            self._next_id = self._next_id + 1 if self._next_id < LAST_ID else FIRST_ID
        number = self._next_id
        self._next_id = number + 1 if number < LAST_ID else FIRST_ID
        return number

    def _bound(self) -> None:
        """Closes the connections of those who do not read."""
        most = self.options.limits.unsent
        for link in list(self.changed):
            if link.unsent > most and link.closing is None:
                self._broker.bound(link.state)

    def _look(self, connection: Connection, now: float) -> None:
        """A connection that may have been silent for too long."""
        if connection.is_closing:
            return
        if self.options.idle_seconds and now >= max(connection.heard, connection.spoke) + self.options.idle_seconds:
            self.counts["idle_closed"] += 1
            self._broker.close(connection, f"silent for {self.options.idle_seconds:g} s")
            return
        if connection.is_ready and now >= max(connection.heard, connection.pinged) + self.options.heartbeat_seconds:
            connection.pinged = now
            connection.link.say(bytes((HEARTBEAT,)))
            self.counts["heartbeats_sent"] += 1
            self._broker.bound(connection)
        self._wake(connection, self._next_look(connection, connection.merger.expire(now)))

    def _next_look(self, connection: Connection, groups: float | None) -> float:
        times = [groups if groups is not None else _NEVER]
        if self.options.idle_seconds:
            times.append(max(connection.heard, connection.spoke) + self.options.idle_seconds)
        if connection.is_ready:
            times.append(max(connection.heard, connection.pinged) + self.options.heartbeat_seconds)
        return min(times)


def _parts(code: int, text: str) -> list[str]:
    """The topics of a subscription; one alone is taken literally."""
    return [part for part in ((text,) if code in (Do.SUB, Do.UNSUB) else text.split("|")) if part]
