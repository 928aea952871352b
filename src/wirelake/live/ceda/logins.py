"""Who may log in: asks, waits for the verdict, and makes guessing passwords slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.effects import Authenticate, Done, Failed, Result
from ..core.session import Session
from ..core.timers import Timers
from .connection import Connection
from .events import Authenticator, LoginAttempt
from .options import CedaServerOptions

REFUSED = "Username or Password is error"
"""What the deployed server says to everybody whom it does not let in."""
MOST_UNDECIDED = 1_000
MINUTE = 60.0
LONGEST_DELAY = 8.0
MOST_ADDRESSES = 10_000


class Logins:
    """``authenticate`` decides at once, or says None if ``CedaServer.login_result`` will tell; without it the effect
    Authenticate is wanted. ``answer`` tells the client.
    """

    def __init__(
        self,
        session: Session,
        options: CedaServerOptions,
        authenticate: Authenticator | None,
        answer: Callable[[Connection, bool, str, float], None],
    ) -> None:
        self._session = session
        self._options = options
        self._authenticate = authenticate
        self._answer = answer
        self._undecided = 0
        self._failures: dict[str, list[float]] = {}
        """When logins failed within the last minute, by address."""
        self._late: Timers[Connection] = Timers()
        """Refusals that are told later."""

    @property
    def deadline(self) -> float | None:
        return self._late.deadline

    def ask(self, connection: Connection, attempt: LoginAttempt, now: float) -> None:
        verdict: bool | str | None
        if self._has_failed_often(connection, now):
            self._session.counts["logins_blocked"] += 1
            verdict = "too many failed logins from this address, try again in a minute"
        elif self._undecided >= MOST_UNDECIDED:
            verdict = "too many logins at once"
        else:
            verdict = self._ask(attempt)
        if verdict is None:
            self._undecided += 1
            connection.attempt = attempt
            connection.wait()
        else:
            self.decide(connection, verdict, now)

    def _ask(self, attempt: LoginAttempt) -> bool | str | None:
        if self._authenticate is None:
            self._session.want(Authenticate(attempt, link=attempt.link))
            return None
        try:
            return self._authenticate(attempt)
        except Exception as error:
            self._fail(error, attempt)
            return False

    def completed(self, effect: Authenticate, result: Result, now: float) -> None:
        attempt: LoginAttempt = effect.attempt
        connection: Connection | None = attempt.link.state
        if connection is None or connection.attempt is not attempt:
            return
        if isinstance(result, Failed):
            self._fail(result.error, attempt)
        self.decide(connection, result.value if isinstance(result, Done) else False, now)

    def decide(self, connection: Connection, verdict: Any, now: float) -> None:
        """Let somebody in, or not: the second refusal and those after it are told later and later."""
        self.forget(connection)
        if verdict is True:
            connection.failures = 0
            self._answer(connection, True, "", now)
            return
        connection.failures += 1
        self._failures.setdefault(_address(connection), []).append(now)
        connection.refusal = verdict if isinstance(verdict, str) and verdict else REFUSED
        if connection.failures > 1:
            connection.wait()
            self._late.set(connection, now + min(2.0 ** (connection.failures - 2), LONGEST_DELAY))
        else:
            self._answer(connection, False, connection.refusal, now)

    def tick(self, now: float) -> None:
        for connection in self._late.due(now):
            self._answer(connection, False, connection.refusal, now)

    def forget(self, connection: Connection) -> None:
        """Nothing is undecided about this one any more."""
        self._late.drop(connection)
        if connection.attempt is not None:
            connection.attempt = None
            self._undecided -= 1

    def _has_failed_often(self, connection: Connection, now: float) -> bool:
        address, most = _address(connection), self._options.login_failures
        recent = [when for when in self._failures.pop(address, ()) if when > now - MINUTE]
        if recent:
            self._failures[address] = recent[-most:] if most else []
        if len(self._failures) > MOST_ADDRESSES:
            del self._failures[next(iter(self._failures))]
        return bool(most) and len(recent) >= most

    def _fail(self, error: Exception, attempt: LoginAttempt) -> None:
        self._session.note("error", f"the authenticator failed: {error!r}", connection=attempt.connection_id)


def _address(connection: Connection) -> str:
    peer = connection.link.peer
    return peer.rpartition(":")[0] or peer
