"""casual, live: domains that serve others, and clients of theirs. What a program uses is here, and loaded with its
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

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

__getattr__ = lazily(__name__, __all__)
