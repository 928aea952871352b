"""The MB protocol, live: a broker and its clients. What a program uses is here, and loaded with its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import AnswerError, MbClient, Message, Request, Responder, connect

__all__ = ["AnswerError", "MbClient", "Message", "Request", "Responder", "connect"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import api

    return getattr(api, name)
