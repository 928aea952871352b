"""The connection of a CEDA client: login, heartbeats, and its end. What data messages mean is for ``ceda_client``.

A client never answers a heartbeat: servers do, and two ends that both did would never stop.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ...codec.records import by_id
from ...errors import DecodeError
from ...protocols.ceda import MAX_PAYLOAD, UNASSIGNED
from ..core.link import Link
from ..core.session import CLIENT, SERVER, Session, States
from . import wire
from .connection import LIFE_CYCLE, READY
from .events import Answered, Lost, Ready, Refused, SubscriptionResult
from .groups import Merger
from .options import CedaClientOptions
from .records import Record, write_record
from .requests import Requests

MAX_CHARACTERS = 127
MISSED_HEARTBEATS = 2


@dataclass(frozen=True, slots=True)
class CedaLogin:
    """Who wants to log in: by name and password, or with a ``session_id``, or with a ``record`` of the application's
    own.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    client_id: str = ""
    session_id: str = field(default="", repr=False)
    record: Record | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("user", "password", "client_id"):
            if len(getattr(self, name)) > MAX_CHARACTERS:
                raise ValueError(f"{name} has more than {MAX_CHARACTERS} characters")

    def payload(self, charset: str) -> bytes:
        if self.session_id:
            return bytes((wire.LOGIN, wire.Do.LOGIN_SID)) + write_record({3: self.session_id}, charset)
        if self.record is not None:
            return bytes((wire.LOGIN, wire.Do.LOGIN_VS)) + write_record(self.record, charset)
        return bytes((wire.LOGIN, wire.Do.LOGIN)) + write_record(
            {7: self.client_id, 5: self.password, 4: self.user}, charset
        )


class CedaConnected(Session):
    """One link at a time, which is logged in as soon as it is there."""

    def __init__(
        self, login: CedaLogin, options: CedaClientOptions, *, epoch: float, chance: random.Random | None
    ) -> None:
        super().__init__(epoch=epoch, chance=chance)
        self.options = options
        self.connection_id = UNASSIGNED
        self._login = login.payload(options.charset)
        self._requests = Requests(options.limits.requests)
        self._states = States(LIFE_CYCLE)
        self._link: Link | None = None
        self._reader: wire.Reader
        self._merger: Merger
        self._look_at = self._login_until = 0.0
        self._has_heard = False
        self._missed = 0
        self._noted: set[str] = set()

    @property
    def is_ready(self) -> bool:
        return self._link is not None and self._states.state == READY

    @property
    def deadline(self) -> float | None:
        times = [self._requests.deadline]
        if self._link is not None:
            times += [self._look_at, None if self.is_ready else self._login_until]
        return min((when for when in times if when is not None), default=None)

    def connected(self, link: Link, now: float) -> None:
        if wire.is_stream(link.framing):
            link.framing = self.options.framing
        self._link = link
        self._reader = wire.Reader(link, self.options.reads)
        self._merger = Merger(self.options.limits.groups, self.counts)
        self._states = States(LIFE_CYCLE)
        self._noted.clear()
        self.connection_id = UNASSIGNED
        self._look_at = now + self.options.heartbeat_seconds
        self._login_until = now + self.options.login_seconds
        self._has_heard, self._missed = False, 0
        self._states.sends(CLIENT, "login", is_us=True)
        self._say(self._login)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        if link is not self._link:
            return
        self._has_heard = True
        reader = self._reader
        for batch in reader.read(data):
            if not self._take(batch, now):
                return
        if reader.error is not None:
            self.counts["frame_errors"] += 1
            self._lose(f"the framing is lost: {reader.error.detail}", 1002)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        if link is not self._link:
            return
        self._has_heard = True
        batch = list(bodies)
        if any(len(body) > MAX_PAYLOAD for body in batch):
            self.counts["frame_errors"] += 1
            self._lose(f"a message of more than {MAX_PAYLOAD} bytes", 1009)
            return
        self.counts["message_errors"] += batch.count(b"")
        self._take([body for body in batch if body], now)

    def disconnected(self, link: Link, now: float) -> None:
        if link is self._link:
            self._end("the connection was lost")

    def tick(self, now: float) -> None:
        for token in self._requests.due(now):
            self.events.append(Answered(token, None, "no reply in time"))
        if self._link is not None and not self.is_ready and now >= self._login_until:
            self._lose(f"no answer to the login within {self.options.login_seconds:g} s")
        if self._link is not None and now >= self._look_at:
            self._look(now)

    def logout(self, now: float) -> None:
        """Leaves, and closes."""
        if self._link is not None:
            self._states.move(CLIENT, "logout")
            self._say(bytes((wire.LOGOUT,)))
            self._lose("logged out")

    def _take(self, batch: list[bytes], now: float) -> bool:
        """Whether the connection is still there afterwards."""
        for payload in batch:
            code = payload[0]
            if code >= wire.PUBLISH and code in wire.NAMES:
                self._data(payload, now)
            elif code == wire.HEARTBEAT and len(payload) == 1:
                self._echoed()
            elif code == wire.LOGOUT and (len(payload) == 1 or self._reader.reading == wire.CEDA4_WS):
                self._lose("the server logged us out")
            elif code in (wire.SUBSCRIBE, wire.UNSUBSCRIBE, wire.LOGIN) and len(payload) > 1:
                self._control(payload, now)
            else:
                self._bad("message", payload)
            if self._link is None:
                return False
        return True

    def _echoed(self) -> None:
        """The server returned a heartbeat: it has read everything before it."""
        self.counts["heartbeats"] += 1

    def _data(self, payload: bytes, now: float) -> None:
        raise NotImplementedError

    def _entered(self, now: float) -> None:
        """We are logged in."""
        raise NotImplementedError

    def _control(self, payload: bytes, now: float) -> None:
        kind, code = payload[0], payload[1]
        try:
            values = by_id(self._decoded(payload).record)
        except DecodeError:
            self._bad("record", payload)
            return
        if not self._states.may(SERVER, wire.NAMES[kind]):
            self.counts["ignored"] += 1
        elif kind == wire.LOGIN and code == wire.Do.LOGIN_RESULT:
            self._login_result(values, now)
        elif (kind, code) in ((wire.SUBSCRIBE, wire.Do.SUB_RESULT), (wire.UNSUBSCRIBE, wire.Do.UNSUB_RESULT)):
            ok = values.get(1) == 1
            reason = "" if ok else str(values.get(4, ""))
            self.events.append(SubscriptionResult(str(values.get(3, "")), ok, reason, kind == wire.UNSUBSCRIBE))
        else:
            self.counts["control_ignored"] += 1

    def _login_result(self, values: dict[int, Any], now: float) -> None:
        if values.get(1) != 1:
            self._states.state = LIFE_CYCLE.initial
            self.events.append(Refused(str(values.get(4, ""))))
            self._end("the login was refused", close=True, event=False)
            return
        self._states.move(SERVER, "login")
        number = values.get(6)
        self.connection_id = number if isinstance(number, int) and 0 <= number <= UNASSIGNED else UNASSIGNED
        self.events.append(Ready(self.connection_id))
        self._entered(now)

    def _decoded(self, payload: bytes) -> Any:
        return wire.decode_payload(payload, self._reader.reading, self.options.charset, self.options.errors)

    def _bad(self, scope: str, payload: bytes) -> None:
        """Counts what cannot be read, and says once per connection why."""
        self.counts[f"{scope}_errors"] += 1
        if scope not in self._noted:
            self._noted.add(scope)
            try:
                self._decoded(payload)
            except DecodeError as error:
                self.note("warn", f"a {scope} that cannot be read", rule=error.rule, type=payload[0])

    def _say(self, payload: bytes) -> None:
        assert self._link is not None
        dialect = wire.dialect_of(self._link.framing)
        wire.check_sendable(payload, dialect)
        if dialect == wire.CEDA4_WS:
            wire.warn_once(self, self._noted, wire.java_warning(payload))
        self._link.say(payload)

    def _look(self, now: float) -> None:
        """Has anything come since the last look? A heartbeat asks for it; the third look in vain is the last."""
        if self._has_heard:
            self._missed = 0
        elif self._missed >= MISSED_HEARTBEATS:
            self._lose(f"nothing came after {MISSED_HEARTBEATS} heartbeats")
            return
        else:
            self._missed += 1
            self._beat()
            self.counts["heartbeats_sent"] += 1
        self._has_heard = False
        self._merger.expire(now)
        following = self._look_at + self.options.heartbeat_seconds
        self._look_at = following if following > now else now + self.options.heartbeat_seconds

    def _beat(self) -> None:
        self._states.sends(CLIENT, "heartbeat", is_us=True)
        self._say(bytes((wire.HEARTBEAT,)))

    def _lose(self, reason: str, code: int = 1000) -> None:
        self._end(reason, close=True, code=code)

    def _end(self, reason: str, *, close: bool = False, code: int = 1000, event: bool = True) -> None:
        """The connection is over, or is to be: whoever waits for a reply waits in vain."""
        link, self._link = self._link, None
        self.connection_id = UNASSIGNED
        if link is not None and close:
            link.close(reason, code)
        for token in self._requests.close_all():
            self.events.append(Answered(token, None, "connection lost"))
        if event:
            self.events.append(Lost(reason))
