"""casual, live: domains that serve others, and clients of theirs. What a program uses is here, and loaded with its
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import (
        AnswerError,
        CasualClient,
        ConversationEnd,
        Domain,
        InDoubt,
        Message,
        NotEnqueued,
        Reply,
        RolledBack,
        ServiceFailed,
        Talk,
        connect,
    )

__all__ = [
    "AnswerError",
    "CasualClient",
    "ConversationEnd",
    "Domain",
    "InDoubt",
    "Message",
    "NotEnqueued",
    "Reply",
    "RolledBack",
    "ServiceFailed",
    "Talk",
    "connect",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import api

    return getattr(api, name)
