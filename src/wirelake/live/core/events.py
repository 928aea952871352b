"""What clients of several protocols tell their applications."""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import LiveError


class Answered(msgspec.Struct, frozen=True):
    """The end of what was asked, exactly one for each token: a reply, or an error, which may be one of the reply."""

    token: str
    reply: Any
    error: LiveError | None = None


class Lost(msgspec.Struct, frozen=True):
    """The connection is gone, or about to be. All that was open has ended with an error before."""

    reason: str
