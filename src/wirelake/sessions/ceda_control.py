"""Control messages at a CEDA server: who may come in, and what they want to hear."""

from __future__ import annotations

import random
from typing import Any

from ..errors import DecodeError
from ..spec.declare import Cell
from .base import CLIENT, SERVER
from .ceda_connection import LIFE_CYCLE, Connection
from .ceda_data import Data
from .ceda_events import Authenticator, LoginAttempt
from .ceda_options import CedaServerOptions
from .ceda_records import write_record
from .ceda_service import CedaService
from .ceda_topics import is_pattern
from .ceda_wire import CEDA4_WS, LOGIN, NAMES, SUBSCRIBE, UNSUBSCRIBE, Do, decode_payload
from .links import Link
from .timers import Timers

REFUSED = "Username or Password is error"
"""What the deployed server says to everybody whom it does not let in."""
_KNOWN = {
    LOGIN: (Do.LOGIN, Do.LOGIN_SID, Do.LOGIN_VS),
    SUBSCRIBE: (Do.SUB, Do.SUB_BATCH, Do.SUBSCRIBE_WITH_IMAGE),
    UNSUBSCRIBE: (Do.UNSUB, Do.UNSUB_BATCH),
}
"""What a client may ask of a server."""
_MAX_TOPIC_BYTES = 255


class CedaControl(CedaService):
    """Logins and subscriptions, and what is wrong with messages."""

    def __init__(
        self, options: CedaServerOptions, authenticate: Authenticator, *, epoch: float, chance: random.Random | None
    ) -> None:
        super().__init__(options, epoch=epoch, chance=chance)
        self._authenticate = authenticate
        self._timers: Timers[Connection] = Timers()

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
            record = decode_payload(payload, CEDA4_WS, self._charset, self.options.errors).record
        except DecodeError as error:
            self._bad_record(connection, error)
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
                verdict = self._authenticate(attempt)
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

    def _bad_message(self, connection: Connection, payload: bytes) -> None:
        self.counts["message_errors"] += 1
        if "message" not in connection.noted:
            connection.noted.add("message")
            rule = ""
            try:
                decode_payload(payload, connection.reader.reading, self._charset, self.options.errors)
            except DecodeError as error:
                rule = error.rule
            self.note("warn", "a message that cannot be read", connection=connection.number, rule=rule, type=payload[0])

    def _bad_record(self, connection: Connection, where: Data | DecodeError) -> None:
        self.counts["record_errors"] += 1
        if "record" not in connection.noted:
            connection.noted.add("record")
            error = where.error if isinstance(where, Data) else where
            rule = error.rule if error is not None else ""
            self.note("warn", "a record that cannot be read", connection=connection.number, rule=rule)

    def _wake(self, connection: Connection, when: float) -> None:
        if when < connection.due:
            connection.due = when
            self._timers.set(connection, when)


def _parts(code: int, text: str) -> list[str]:
    """The topics of a subscription; one alone is taken literally."""
    return [part for part in ((text,) if code in (Do.SUB, Do.UNSUB) else text.split("|")) if part]
