"""What a client of an MB broker tells its application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...codec.content import read_json
from ..core.errors import LiveError
from .wire import VERSION


@dataclass(frozen=True, slots=True)
class Ready:
    """Registered and subscribed, as far as the broker allowed it."""


@dataclass(frozen=True, slots=True)
class Message:
    """A publish, a reply, or a record of the broker's log, whose topic is ``system.log``. ``id`` is the broker's."""

    topic: str
    payload: bytes
    version: str = VERSION
    id: str | None = None

    @property
    def text(self) -> str:
        """The payload as text; what is not UTF-8 is replaced."""
        return self.payload.decode("utf-8", "replace")

    def json(self) -> Any:
        """The payload as JSON; DecodeError, rule payload_json, if it is none."""
        return read_json(self.payload)


@dataclass(frozen=True, slots=True)
class Request(Message):
    """A received request: the argument of a handler. ``connection`` counts our connections."""

    connection: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Something is not in force or did not arrive. ``what`` is registration, subscription or message; ``topic`` is the
    pattern of a subscription, or the topic of a message that nobody waits for."""

    what: str
    topic: str
    error: LiveError
