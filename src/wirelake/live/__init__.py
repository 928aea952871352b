"""asyncio, TLS and WebSocket around sessions: servers, clients, the hub that serves several protocols, the tap."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..live.core.errors import AnswerError, ConnectionFailed, ConnectionLost, LiveError, Refused, RequestTimeout

__all__ = ["AnswerError", "ConnectionFailed", "ConnectionLost", "LiveError", "Refused", "RequestTimeout"]


def lazily(package: str, names: list[str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are those of its ``api``, which they load."""

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.api"), name)

    return load
