"""The CEDA protocol, live: a brokering server, and clients. What a program uses is here, loaded with its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Blob, CedaClient, Cell, Message, Request, connect

__all__ = ["Blob", "CedaClient", "Cell", "Message", "Request", "connect"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import api

    return getattr(api, name)
