"""What CEDA sessions tell their application."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from typing import Any

import msgspec

from ...codec.records import by_id
from ...spec.declare import Cell
from ..core.link import Link
from .data import Data


class Delivered(msgspec.Struct, frozen=True):
    """A message for us: a publish, a p2p, or a reply that nobody waits for. ``is_image`` if it tells how things were
    before we came.
    """

    message: Data
    is_image: bool = False

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def record(self) -> tuple[Cell, ...]:
        return self.message.record

    @property
    def values(self) -> dict[int, Any]:
        return self.message.values


class Asked(Delivered, frozen=True):
    """A request for us to ``reply`` to."""


class Failure(StrEnum):
    """Why a request is closed without a reply."""

    LOST = "connection lost"
    LATE = "no reply in time"
    UNSERVED = "nobody serves this topic"


class Answered(msgspec.Struct, frozen=True):
    """A request of ours is closed: by its reply, or by ``error``, a Failure or what is wrong with the reply."""

    token: int
    reply: Data | None
    error: str = ""


class Ready(msgspec.Struct, frozen=True):
    """The client is logged in."""

    connection_id: int


class Echoed(msgspec.Struct, frozen=True):
    """The server returned a heartbeat: it has read everything before it."""


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


class Lost(msgspec.Struct, frozen=True):
    """The client's connection is gone, or about to be."""

    reason: str


class Joined(msgspec.Struct, frozen=True):
    """Somebody logged in at the server."""

    connection_id: int
    user: str
    client_id: str
    peer: str


class Left(msgspec.Struct, frozen=True):
    """Somebody who was logged in is gone."""

    connection_id: int
    user: str
    peer: str


class LoginAttempt(msgspec.Struct, frozen=True, dict=True):
    """What somebody says who wants to log in. Its text form never shows the record, which has the password.

    ``control_code`` is 3 (LOGIN), 18 (LOGIN_SID), 19 (LOGIN_VS), or None for a data message on API.ATS.LOGIN.
    """

    link: Link
    connection_id: int
    control_code: int | None
    record: tuple[Cell, ...]

    def __repr__(self) -> str:
        return f"LoginAttempt({self.connection_id}, {self.control_code}, user={self.user!r})"

    @cached_property
    def values(self) -> dict[int, Any]:
        return by_id(self.record)

    @property
    def user(self) -> str:
        return self._text(4)

    @property
    def password(self) -> str:
        return self._text(5)

    @property
    def client_id(self) -> str:
        return self._text(7)

    @property
    def session_id(self) -> str:
        return self._text(3) if self.control_code == 18 else ""

    def _text(self, fid: int) -> str:
        value = self.values.get(fid, "")
        return value if isinstance(value, str) else ""


Authenticator = Callable[[LoginAttempt], "bool | str | None"]
"""Says whether somebody may log in: True, or False, or the reason why not; None if ``login_result`` will say it, and
what the client sends meanwhile waits.
"""


def welcome(attempt: LoginAttempt) -> bool:
    """Lets everybody in."""
    return True
