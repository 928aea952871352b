"""What a DSA link tells its application."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import DecodeError

if TYPE_CHECKING:
    from .handshake import Welcome
    from .nodes import Node
    from .replies import Invocation, SetRequest
    from .requester import Stream

ABSENT: Any = object()
"""The value of a message that carries none."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The handshake is done; list and subscribe streams were asked for again."""

    welcome: Welcome


@dataclass(frozen=True, slots=True)
class Denied:
    """The handshake failed. ``is_final``: another attempt would fail as well."""

    reason: str
    status: int
    is_final: bool


@dataclass(frozen=True, slots=True)
class Valued:
    """An update of a subscription. ``value`` is ABSENT if it tells only a status."""

    stream: Stream
    value: Any
    meta: dict[str, Any]
    status: int
    error: DecodeError | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """An update of a list: changed keys, with ABSENT for those that are gone. ``is_refreshed``: what was known before
    does not hold any more. ``is_partial``: more of the same update follows.
    """

    stream: Stream
    entries: dict[str, Any]
    status: int
    is_refreshed: bool = False
    is_partial: bool = False
    pub_path: str | None = None
    error: DecodeError | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Resulted:
    """A result of an action, ABSENT if there is only a status."""

    stream: Stream
    value: Any
    status: int
    is_refreshed: bool = False
    error: DecodeError | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """A stream is over, with this status; ``detail`` is what the peer says about it."""

    stream: Stream
    status: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Invoked:
    """Somebody runs an action of ours: ``Invocation`` takes its results."""

    invocation: Invocation


@dataclass(frozen=True, slots=True)
class Fed:
    """More input for an action that runs."""

    invocation: Invocation
    value: Any


@dataclass(frozen=True, slots=True)
class Aborted:
    """Nobody waits for the results of an action any more."""

    invocation: Invocation


@dataclass(frozen=True, slots=True)
class SetWanted:
    """Somebody sets a node that has a function for that: it decides."""

    request: SetRequest


@dataclass(frozen=True, slots=True)
class SetDone:
    """Somebody has set a value or an attribute of ours."""

    node: Node
    attribute: str
    value: Any = field(repr=False)
