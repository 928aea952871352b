"""The server's side of CEDA: connections, logins, subscriptions, heartbeats, and a broker between its clients.

Only servers answer heartbeats. Before login nothing else is answered; what is sent too early is counted and forgotten.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec.structs import replace

from ..errors import DecodeError
from ..protocols.ceda import MAX_PAYLOAD
from .base import CLIENT
from .ceda_broker import LOGIN_TOPIC
from .ceda_connection import Connection
from .ceda_control import CedaControl
from .ceda_data import BadMessage, read_data
from .ceda_events import Answered, Authenticator, welcome
from .ceda_options import CedaServerOptions
from .ceda_records import is_record
from .ceda_wire import CEDA4_WS, HEARTBEAT, LOGIN, LOGOUT, NAMES, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, is_stream
from .links import Link

FIRST_ID, LAST_ID = 1001, 0xFFFFFE
_NEVER = float("inf")


class CedaServer(CedaControl):
    """Serves many links. ``authenticate`` decides who may log in."""

    def __init__(
        self,
        options: CedaServerOptions | None = None,
        *,
        authenticate: Authenticator = welcome,
        epoch: float = 0.0,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(options or CedaServerOptions(), authenticate, epoch=epoch, chance=chance)
        self._is_quick = self.options.broker and not self.options.cache
        self._next_id = FIRST_ID

    @property
    def deadline(self) -> float | None:
        times = [when for when in (self._timers.deadline, self._broker.requests.deadline) if when is not None]
        return min(times, default=None)

    def connected(self, link: Link, now: float) -> None:
        if is_stream(link.framing):
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
            self._bad_message(connection, payload)

    def _data(self, connection: Connection, payload: bytes, now: float) -> None:
        reading = connection.reader.reading
        try:
            message = read_data(payload, reading == CEDA4_WS, self.options.charset, self.options.errors)
        except BadMessage:
            self._bad_message(connection, payload)
            return
        is_login = message.topic == LOGIN_TOPIC
        if not self._may(connection, "login" if is_login else message.kind):
            return
        if not is_record(message.body, 0, self.options.charset, self.options.errors):
            message = replace(message, is_bad=True)
            self._bad_record(connection, message)
        if is_login:
            record = None if message.is_bad else message.record
            self._login(connection, None, record, now)
            return
        whole = connection.merger.take(message, reading, now)
        if connection.merger.open:
            self._wake(connection, now + self.options.limits.groups.quiet_seconds)
        if whole is None:
            self.counts["pieces"] += 1
        elif self.options.broker:
            self._broker.route(connection, whole, payload if whole is message else None, now)
        else:
            self._broker.hand_over(connection, whole)

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
