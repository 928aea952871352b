"""The CEDA protocol, live: a brokering server, and clients. What a program uses is here, loaded with its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .api import Blob, CedaClient, Cell, Message, Request, connect

__all__ = ["Blob", "CedaClient", "Cell", "Message", "Request", "connect"]

__getattr__ = lazily(__name__, __all__)
