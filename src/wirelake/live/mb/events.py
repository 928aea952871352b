"""What a client of an MB broker tells its application."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import LiveError
from .wire import MbError

Error = MbError | LiveError
"""What the broker replied, or what became of a request without its reply."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Registered and subscribed, as far as the broker allowed it. ``is_again`` after a loss."""

    is_again: bool = False


@dataclass(frozen=True, slots=True)
class Delivered:
    """A publish that we subscribed; also records of the broker's log, whose topic is ``system.log``."""

    topic: str
    version: str
    payload: bytes
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for us; it is answered by giving this event back. ``connection`` counts our connections."""

    token: str
    topic: str
    version: str
    payload: bytes
    connection: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """The end of what we asked: exactly one for each token."""

    token: str
    payload: bytes
    error: Error | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Something is not in force or did not arrive. ``what`` is registration, subscription or message; ``topic`` is the
    pattern of a subscription, or the topic of a message that nobody waits for."""

    what: str
    topic: str
    error: Error


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone. All that was open has been answered with an error before."""

    reason: str


Event = Ready | Delivered | Asked | Answered | Refused | Lost
