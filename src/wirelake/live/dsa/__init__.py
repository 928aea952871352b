"""The DSA protocol, live: links that ask and reply over one connection, and the broker that they connect to. What a
program uses is here, and loaded with its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import Call, DsaClient, Listing, Node, Nodes, Result, StatusError, Table, Value, connect

__all__ = ["Call", "DsaClient", "Listing", "Node", "Nodes", "Result", "StatusError", "Table", "Value", "connect"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import api

    return getattr(api, name)
