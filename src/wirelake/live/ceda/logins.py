"""Logins: what a client says of itself; how a server asks whether to let it in, and makes guessing passwords slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from ...codec.records import by_id
from ...spec.declare import Cell
from ..core.effects import Authenticate, Done, Failed, Result
from ..core.link import Link
from ..core.session import Session
from ..core.timers import Timers
from .connection import Connection
from .data import Record, write_record
from .options import CedaServerOptions
from .wire import LOGIN, Do

REFUSED = "Username or Password is error"
"""What the deployed server says to everybody whom it does not let in."""
MAX_CHARACTERS = 127
MOST_UNDECIDED = 1_000
MINUTE = 60.0
LONGEST_DELAY = 8.0
MOST_ADDRESSES = 10_000


@dataclass(frozen=True, slots=True)
class CedaLogin:
    """Who logs in: by name and password, with a ``session_id``, or with a ``record`` of the application's own."""

    user: str = ""
    password: str = field(default="", repr=False)
    client_id: str = ""
    session_id: str = field(default="", repr=False)
    record: Record | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if sum((bool(self.user), bool(self.session_id), self.record is not None)) > 1:
            raise ValueError("user, session_id and record exclude each other: one of them logs in")
        for name in ("user", "password", "client_id"):
            if len(getattr(self, name)) > MAX_CHARACTERS:
                raise ValueError(f"{name} has more than {MAX_CHARACTERS} characters")

    def payload(self, charset: str) -> bytes:
        code, record = Do.LOGIN, self.record
        if self.session_id:
            code, record = Do.LOGIN_SID, {3: self.session_id}
        elif record is not None:
            code = Do.LOGIN_VS
        else:
            record = {7: self.client_id, 5: self.password, 4: self.user}
        return bytes((LOGIN, code)) + write_record(record, charset)


class LoginAttempt(msgspec.Struct, frozen=True, dict=True):
    """What somebody says who wants to log in. Its text form never shows the record, which has the password.

    ``control_code`` is 3 (LOGIN), 18 (LOGIN_SID), 19 (LOGIN_VS), or None for a data message on API.ATS.LOGIN.
    """

    link: Link
    connection_id: int
    control_code: int | None
    record: tuple[Cell, ...]

    def __repr__(self) -> str:
        return f"LoginAttempt({self.connection_id}, {self.control_code}, user={self.user!r})"

    @cached_property
    def values(self) -> dict[int, Any]:
        return by_id(self.record)

    @property
    def user(self) -> str:
        return self._text(4)

    @property
    def password(self) -> str:
        return self._text(5)

    @property
    def client_id(self) -> str:
        return self._text(7)

    @property
    def session_id(self) -> str:
        return self._text(3) if self.control_code == Do.LOGIN_SID else ""

    def _text(self, fid: int) -> str:
        value = self.values.get(fid, "")
        return value if isinstance(value, str) else ""


@dataclass(slots=True, eq=False)
class Logins:
    """Wants the effect Authenticate, whose Done has True or the reason why not; ``answer`` tells the client."""

    session: Session
    options: CedaServerOptions
    answer: Callable[[Connection, bool, str, float], None]
    _undecided: int = 0
    _failures: dict[str, list[float]] = field(default_factory=dict)
    """When logins failed within the last minute, by address."""
    _late: Timers[Connection] = field(default_factory=Timers)
    """Refusals that are told later."""

    @property
    def deadline(self) -> float | None:
        return self._late.deadline

    def ask(self, connection: Connection, attempt: LoginAttempt, now: float) -> None:
        """Ask whether to let somebody in; what the client sends meanwhile waits."""
        if 0 < self.options.login_failures <= len(self._recent(connection, now)):
            self.session.counts["logins_blocked"] += 1
            self.decide(connection, "too many failed logins from this address, try again in a minute", now)
        elif self._undecided >= MOST_UNDECIDED:
            self.decide(connection, "too many logins at once", now)
        else:
            self._undecided += 1
            connection.attempt = attempt
            connection.wait()
            self.session.want(Authenticate(attempt, link=attempt.link))

    def completed(self, effect: Authenticate, result: Result, now: float) -> None:
        attempt: LoginAttempt = effect.attempt
        connection: Connection | None = attempt.link.state
        if connection is None or connection.attempt is not attempt:
            return
        if isinstance(result, Failed):
            text = f"the authenticator failed: {result.error!r}"
            self.session.note("error", text, connection=attempt.connection_id)
        self.decide(connection, result.value if isinstance(result, Done) else False, now)

    def decide(self, connection: Connection, verdict: Any, now: float) -> None:
        """Let somebody in, or not: the second refusal and those after it are told later and later."""
        self.forget(connection)
        if verdict is True:
            connection.failures = 0
            self.answer(connection, True, "", now)
            return
        connection.failures += 1
        self._recent(connection, now, now)
        connection.refusal = verdict if isinstance(verdict, str) and verdict else REFUSED
        if connection.failures > 1:
            connection.wait()
            self._late.set(connection, now + min(2.0 ** (connection.failures - 2), LONGEST_DELAY))
        else:
            self.answer(connection, False, connection.refusal, now)

    def tick(self, now: float) -> None:
        for connection in self._late.due(now):
            self.answer(connection, False, connection.refusal, now)

    def forget(self, connection: Connection) -> None:
        """Nothing is undecided about this one any more."""
        self._late.drop(connection)
        if connection.attempt is not None:
            connection.attempt = None
            self._undecided -= 1

    def _recent(self, connection: Connection, now: float, *more: float) -> list[float]:
        """When logins of its address failed lately, as many as matter, with what is to be remembered too."""
        peer, most = connection.link.peer, self.options.login_failures
        address = peer.rpartition(":")[0] or peer
        recent = [when for when in self._failures.pop(address, ()) if when > now - MINUTE]
        recent = [*recent, *more][-most:] if most else []
        if recent:
            self._failures[address] = recent
        if len(self._failures) > MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        return recent
