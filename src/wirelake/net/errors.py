"""What can go wrong for a client. All of it is a ProtocolError, and so a WireError, with a stable ``rule``; what Python
has an own word for is that too: a lost connection is a ConnectionError, a request without answer a TimeoutError.
"""

from __future__ import annotations

from typing import Any

from ..errors import ProtocolError


class LiveError(ProtocolError):
    """Something went wrong between us and a peer."""


class ConnectionFailed(LiveError, ConnectionError):
    """No connection could be made: nobody listens there, the certificate is not trusted, nothing is said in time."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, rule="connection_failed")


class ConnectionLost(LiveError, ConnectionError):
    """The connection is gone. What was asked and not answered may have been done or not."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, rule="connection_lost")


class Refused(LiveError):
    """The peer refused us: a login, or a subscription."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, rule="refused")


class RequestTimeout(LiveError, TimeoutError):
    """No answer came in time. What was asked may have been done or not."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, rule="request_timeout")


class AnswerError(LiveError):
    """The answer is an error: ``code`` and ``message`` are the peer's, ``details`` an object or None.

    A handler that raises it gives just this answer.
    """

    def __init__(self, code: str, message: str = "", details: dict[str, Any] | None = None) -> None:
        detail = f"{code}: {message}" if message else code
        super().__init__(detail, rule="answer_error")
        self.code = code
        self.message = message
        self.details = details

    def __str__(self) -> str:
        return f"{self.detail} [{self.rule}]"
