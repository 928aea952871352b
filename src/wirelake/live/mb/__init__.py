"""The MB protocol, live: a broker and its clients. What a program uses is here, and loaded with its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .api import AnswerError, MbClient, Message, Request, Responder, connect

__all__ = ["AnswerError", "MbClient", "Message", "Request", "Responder", "connect"]

__getattr__ = lazily(__name__, __all__)
