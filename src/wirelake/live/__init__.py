"""asyncio, TLS and WebSocket around sessions: servers, clients, the hub that serves several protocols, the tap."""

from __future__ import annotations

from ..live.core.errors import AnswerError, ConnectionFailed, ConnectionLost, LiveError, Refused, RequestTimeout

__all__ = ["AnswerError", "ConnectionFailed", "ConnectionLost", "LiveError", "Refused", "RequestTimeout"]
