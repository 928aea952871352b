"""The server's side of CEDA: connections, subscriptions, heartbeats.

Its parts: ``broker`` knows where messages go, ``logins`` who may come in, ``work`` cuts what takes long into slices.
Only servers answer heartbeats. Before login nothing else is answered; what is sent too early is counted and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Any, Unpack

from ...errors import DecodeError
from ...spec.declare import Cell
from ..core.effects import Authenticate, Effect, Result
from ..core.link import Link
from ..core.session import CLIENT, SERVER, Session, World
from ..core.timers import Timers, earliest
from . import wire
from .broker import LOGIN_TOPIC, Broker
from .connection import LIFE_CYCLE, Connection
from .data import Message, write_record
from .logins import LoginAttempt, Logins
from .options import CedaServerOptions
from .wire import CEDA4_WS, HEARTBEAT, LOGIN, LOGOUT, NAMES, PUBLISH, REPLY, SUBSCRIBE, UNSUBSCRIBE, Do, is_pattern
from .work import Work

FIRST_ID, LAST_ID = 1001, 0xFFFFFE
_KNOWN = {
    LOGIN: (Do.LOGIN, Do.LOGIN_SID, Do.LOGIN_VS),
    SUBSCRIBE: (Do.SUB, Do.SUB_BATCH, Do.SUBSCRIBE_WITH_IMAGE),
    UNSUBSCRIBE: (Do.UNSUB, Do.UNSUB_BATCH),
}
"""What a client may ask of a server."""
_CHANGE, _WILD_CHANGE = 4, 2_000
"""What a changed pattern costs for each segment, and if it concerns every route: they have to be found again."""


class CedaServer(Session):
    """Serves many links. The effect Authenticate decides who may log in."""

    def __init__(self, options: CedaServerOptions | None = None, **world: Unpack[World]) -> None:
        super().__init__(**world)
        self.options = options = options or CedaServerOptions()
        self._charset = options.charset
        self._broker = Broker(self, options)
        self._logins = Logins(self, options, self._login_answer)
        self._work = Work(self._go_on)
        self.later = self._work.later
        self._timers: Timers[Connection] = Timers()
        self._is_quick = options.broker and not options.cache
        self._next_id = FIRST_ID

    @property
    def deadline(self) -> float | None:
        return earliest(self._timers.deadline, self._logins.deadline, self._work.deadline)

    def connected(self, link: Link, now: float) -> None:
        number = self._allot()
        connection = Connection(self, link, self.options, self._broker.pool, number, tag=number.to_bytes(3, "little"))
        connection.heard = connection.spoke = connection.pinged = now
        connection.login_until = now + (self.options.login_seconds or inf)
        link.state = connection
        self._broker.connections[connection.number] = connection
        self._wake(connection, min(self._times(connection)))

    def receive(self, link: Link, data: bytes, now: float) -> None:
        connection: Connection | None = link.state
        if connection is None or link.closing is not None:
            return
        connection.heard = now
        for batch in connection.reader.read(data):
            self._take(connection, batch, now)
            if connection.is_closing:
                break
        error = connection.reader.error
        if error is not None and not connection.is_closing:
            self.counts["frame_errors"] += 1
            self.note("warn", "the framing is lost", connection=connection.number, rule=error.rule, peer=link.peer)
            self._broker.close(connection, f"the framing is lost: {error.detail}", 1002)
        self._bound()

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        connection: Connection | None = link.state
        if connection is None or link.closing is not None:
            return
        connection.heard = now
        self._take(connection, connection.payloads(bodies), now)
        self._bound()

    def disconnected(self, link: Link, now: float) -> None:
        connection: Connection | None = link.state
        if connection is None or self._broker.connections.get(connection.number) is not connection:
            return
        self._work.drop(connection)
        del self._broker.connections[connection.number]
        self._timers.drop(connection)
        self._logins.forget(connection)
        self._broker.leave(connection, is_over=True)
        self.counts["dropped_at_close"] += len(connection.backlog)
        connection.free()

    def leaving(self, now: float) -> None:
        for connection in self._broker.connections.values():
            if connection.is_ready:
                connection.link.say(bytes((LOGOUT,)))

    def tick(self, now: float) -> None:
        for connection in self._timers.due(now):
            connection.due = inf
            self._look(connection, now)
        self._logins.tick(now)
        self._work.tick(now)
        self._bound()

    def completed(self, effect: Effect, result: Result, now: float) -> None:
        super().completed(effect, result, now)
        if isinstance(effect, Authenticate):
            self._logins.completed(effect, result, now)

    def _take(self, connection: Connection, batch: list[bytes], now: float) -> None:
        """Handles payloads, or keeps them while the connection has to wait."""
        rest = iter(batch)
        self._handle(connection, rest, now)
        if connection.is_waiting and connection.hold(rest) > self.options.limits.backlog:
            self.counts["backlogs_closed"] += 1
            self._broker.close(connection, "too much was sent while it had to wait", 1008, at_once=True)

    def _handle(self, connection: Connection, rest: Iterator[bytes], now: float) -> None:
        """Handles payloads one after the other; those that are only forwarded take the short way."""
        while not connection.is_closing and not connection.is_waiting:
            if self._is_quick and connection.is_ready and not connection.merger.open:
                payload = self._broker.forward(connection, rest, now)
            else:
                payload = next(rest, None)
            if payload is None:
                return
            self._message(connection, payload, now)

    def _go_on(self, connection: Connection, now: float) -> None:
        if connection.is_waiting and not connection.is_closing:
            connection.go_on()
            self._handle(connection, connection.kept(), now)

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
            connection.bad("message", payload)

    def _data(self, connection: Connection, payload: bytes, now: float) -> None:
        message = connection.read(payload)
        if message is None:
            return
        is_login = message.topic == LOGIN_TOPIC
        if not self._may(connection, "login" if is_login else message.kind):
            return
        message = connection.checked(message, payload)
        if is_login:
            self._login(connection, None, None if message.is_bad else message.cells, now)
            return
        whole = connection.merger.take(message, connection.reader.reading, now)
        if connection.merger.open:
            self._wake(connection, now + self.options.limits.groups.quiet_seconds)
        if whole is None:
            self.counts["pieces"] += 1
        else:
            job = self._route(connection, whole, payload if whole is message else None, now)
            self._work.begin(connection, job, now)

    def _route(self, connection: Connection, message: Message, payload: bytes | None, now: float) -> Iterator[int]:
        if message.code != REPLY:
            yield from self._broker.subscriptions.search(message.topic)
        if self.options.broker or connection.link.is_inside:
            self._broker.route(connection, message, payload, now)
        else:
            self._broker.hand_over(connection, message, now)

    def _login_answer(self, connection: Connection, ok: bool, reason: str, now: float) -> None:
        if connection.is_closing:
            return
        if ok:
            connection.states.move(SERVER, "login")
            connection.settle()
            connection.login_until = inf
            record: dict[int, Any] = {6: connection.number, 4: "Success", 1: 1}
            self._broker.enter(connection)
            self.counts["logins"] += 1
            self._wake(connection, now + self.options.heartbeat_seconds)
        else:
            self._broker.leave(connection)
            connection.states.state = LIFE_CYCLE.initial
            connection.login_until = min(connection.login_until, now + (self.options.login_seconds or inf))
            self._wake(connection, connection.login_until)
            record = {4: reason, 1: 0}
            self.counts["logins_refused"] += 1
            fields = {"connection": connection.number, "peer": connection.link.peer, "user": connection.user}
            self.note("info", "login refused", **fields)
        connection.link.say(bytes((LOGIN, Do.LOGIN_RESULT)) + write_record(record, self._charset))
        if not ok and 0 < self.options.login_attempts <= connection.failures:
            self._broker.close(connection, "too many failed logins", 1008)
        self._go_on(connection, now)

    def _control(self, connection: Connection, payload: bytes, now: float) -> None:
        kind, code = payload[0], payload[1]
        is_known = code in _KNOWN[kind]
        if not is_known and kind != LOGIN:
            self.counts["control_ignored"] += 1
            return
        if not self._may(connection, NAMES[kind]):
            return
        record: tuple[Cell, ...] | None = None
        try:
            record = wire.decode_payload(payload, CEDA4_WS, self._charset, self.options.errors).record
        except DecodeError:
            connection.bad("record", payload)
        if kind == LOGIN:
            self._login(connection, code, record if is_known else None, now)
            return
        text = next((cell.value for cell in reversed(record or ()) if cell.fid == 3), None)
        if isinstance(text, str):
            self._work.begin(connection, self._subscribe(connection, kind, code, text, now), now)
        elif record is not None:
            self.counts["control_ignored"] += 1

    def _login(self, connection: Connection, code: int | None, record: tuple[Cell, ...] | None, now: float) -> None:
        """Somebody wants to log in; without a record that can be read there is nobody to ask for."""
        self._broker.unname(connection)
        connection.states.move(CLIENT, "login")
        connection.settle()
        attempt = LoginAttempt(connection.link, connection.number, code, record or ())
        connection.user, connection.client_id = attempt.user, attempt.client_id
        if record is None:
            self._logins.decide(connection, False, now)
        elif connection.link.is_inside:
            self._logins.decide(connection, True, now)
        else:
            self._logins.ask(connection, attempt, now)

    def _subscribe(self, connection: Connection, kind: int, code: int, text: str, now: float) -> Iterator[int]:
        """Takes a subscription, or takes one back."""
        broker = self._broker
        parts = [part for part in ([text] if code in (Do.SUB, Do.UNSUB) else text.split("|")) if part]
        new: list[str] = []
        reason = ""
        for part in parts:
            if not connection.is_ready:
                return
            if kind == SUBSCRIBE:
                refusal = broker.subscribe(connection, part)
                reason = refusal or reason
                if refusal == "":
                    new.append(part)
            else:
                broker.unsubscribe(connection, part)
            yield _CHANGE * (1 + part.count(".")) if is_pattern(part) else 1
        if any(map(broker.subscriptions.is_wild, parts)):
            yield _WILD_CHANGE
        self._result(connection, kind, Do.SUB_RESULT if kind == SUBSCRIBE else Do.UNSUB_RESULT, text, reason)
        if code == Do.SUBSCRIBE_WITH_IMAGE:
            new = [part for part in parts if broker.subscriptions.has(connection, part)]
        if code == Do.SUBSCRIBE_WITH_IMAGE or self.options.image_on_subscribe:
            yield from self._send_images(connection, new, now)

    def _send_images(self, connection: Connection, texts: list[str], now: float) -> Iterator[int]:
        images = self._broker.images
        if not texts or not images:
            return
        for found in self._broker.subscriptions.matches(texts, list(images)):
            if isinstance(found, int):
                yield found
            elif found in images:
                self._broker.deliver(images.message(found), (connection,), now)
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

    def _wake(self, connection: Connection, when: float) -> None:
        if when < connection.due:
            connection.due = when
            self._timers.set(connection, when)

    def _allot(self) -> int:
        while True:
            number = self._next_id
            self._next_id = number + 1 if number < LAST_ID else FIRST_ID
            if number not in self._broker.connections:
                return number

    def _bound(self) -> None:
        """Closes the connections of those who do not read."""
        most = self.options.limits.unsent
        for link in list(self.changed):
            if link.unsent > most and link.closing is None and link.state is not None:
                self._broker.bound(link.state)

    def _look(self, connection: Connection, now: float) -> None:
        """A connection that may have been silent for too long."""
        if connection.is_closing:
            return
        login, idle, ping = self._times(connection)
        if now >= login:
            self.counts["login_timeouts"] += 1
            self._broker.close(connection, f"not logged in within {self.options.login_seconds:g} s")
            return
        if now >= idle:
            self.counts["idle_closed"] += 1
            self._broker.close(connection, f"silent for {self.options.idle_seconds:g} s")
            return
        if now >= ping:
            connection.pinged = now
            connection.link.say(bytes((HEARTBEAT,)))
            self.counts["heartbeats_sent"] += 1
            self._broker.bound(connection)
        self._wake(connection, min(*self._times(connection), connection.merger.expire(now)))

    def _times(self, connection: Connection) -> tuple[float, float, float]:
        """Until when it has to be logged in, when it has been silent for too long, and when to ask for a heartbeat."""
        heard, options = connection.heard, self.options
        idle = max(heard, connection.spoke) + options.idle_seconds if options.idle_seconds else inf
        ping = max(heard, connection.pinged) + options.heartbeat_seconds if connection.is_ready else inf
        return connection.login_until, idle, ping
