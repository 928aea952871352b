"""What a CEDA client tells its application."""

from __future__ import annotations

import msgspec

from .data import Message


class Delivered(msgspec.Struct, frozen=True):
    """A message for us: a publish, a p2p, or a reply that nobody waits for."""

    message: Message


class Asked(Delivered, frozen=True):
    """A request for us to ``reply`` to."""


class Ready(msgspec.Struct, frozen=True):
    """The client is logged in."""

    connection_id: int


class Refused(msgspec.Struct, frozen=True):
    """The server does not let the client in."""

    reason: str


class TopicsRefused(msgspec.Struct, frozen=True):
    """The service refused these topics of an image request."""

    topics: tuple[str, ...]


class SubscriptionResult(msgspec.Struct, frozen=True):
    """A server told how a subscription, or taking one back, went; most do not."""

    topics: str
    ok: bool
    reason: str = ""
    is_unsubscribe: bool = False
