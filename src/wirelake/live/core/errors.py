"""Errors of clients. Each is a ProtocolError, and so a WireError, with a stable ``rule``, and also Python's own error
where there is one: a lost connection is a ConnectionError, a request without a reply a TimeoutError.

Sessions put them into their events, and clients raise them: what happened is told by the type, never by its sentence.
"""

from __future__ import annotations

from typing import Any

from ...errors import ProtocolError


class LiveError(ProtocolError):
    """An error between us and a peer. Each class has its rule. Two with the same fields are equal, as events are."""

    usual_rule: str
    usual_detail = ""

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail or self.usual_detail, rule=self.usual_rule)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.detail))


class ConnectionFailed(LiveError, ConnectionError):
    """No connection: no server listens there, its certificate is not trusted, or it does not respond in time."""

    usual_rule = "connection_failed"


class ConnectionLost(LiveError, ConnectionError):
    """The connection is lost. Open requests may have been carried out or not."""

    usual_rule = "connection_lost"
    usual_detail = "the connection was lost before the reply came"


class Refused(LiveError):
    """The peer refused a login, a name or a subscription."""

    usual_rule = "refused"


class RequestTimeout(LiveError, TimeoutError):
    """No reply came in time. The request may have been carried out or not."""

    usual_rule = "request_timeout"
    usual_detail = "no reply in time"


class AnswerError(LiveError):
    """An error as a reply, with the peer's ``code``, ``message``, ``details`` (or None). Handlers raise it too."""

    usual_rule = "answer_error"

    def __init__(self, code: str, message: str = "", details: dict[str, Any] | None = None) -> None:
        detail = f"{code}: {message}" if message else code
        super().__init__(detail)
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.detail} [{self.rule}]"
