"""How a CEDA session is set up."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...protocols.ceda.conduct import LOGIN_LIMIT_US
from ...spec.conduct import SECOND_US
from ..core.link import Framing
from ..core.settings import setting
from .groups import GroupLimits
from .wire import AUTO, CEDA4_WS, FRAMINGS


@dataclass(frozen=True, slots=True)
class CedaLimits:
    """Per connection: literal ``topics`` and wildcard ``patterns`` it may subscribe, ``segments`` of a pattern,
    ``unsent`` bytes, ``backlog`` of bytes behind a login that is not decided, ``groups`` of pieces. Per session:
    ``all_topics`` and ``all_patterns``, open ``requests`` of a client, ``images`` and ``image_bytes``.
    """

    topics: int = 10_000
    patterns: int = 2_000
    segments: int = 64
    all_topics: int = 1_000_000
    all_patterns: int = 100_000
    unsent: int = setting(16 << 20, least=1)
    backlog: int = 4 << 20
    groups: GroupLimits = field(default_factory=GroupLimits)
    requests: int = 65_536
    images: int = 10_000
    image_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class CedaOptions:
    """``dialect`` is written until a connection shows another; ``reads`` fixes the one that is read."""

    dialect: str = CEDA4_WS
    reads: str = AUTO
    strict_topics: bool = False
    charset: str = "utf-8"
    errors: str = "strict"
    heartbeat_seconds: float = 15.0
    limits: CedaLimits = field(default_factory=CedaLimits)

    def __post_init__(self) -> None:
        if self.heartbeat_seconds <= 0:
            raise ValueError(f"heartbeat_seconds has to be more than 0, not {self.heartbeat_seconds:g}")
        if self.dialect not in FRAMINGS or self.reads not in (AUTO, *FRAMINGS):
            raise ValueError(f"a dialect is one of {', '.join(FRAMINGS)}, not {self.dialect!r}, {self.reads!r}")
        "".encode(self.charset)

    @property
    def framing(self) -> Framing:
        """That of new connections over TCP."""
        return FRAMINGS[self.dialect if self.reads == AUTO else self.reads]


@dataclass(frozen=True, slots=True)
class CedaServerOptions(CedaOptions):
    """``broker`` off: what clients send only goes to services of the hub. ``sub_results``: subscriptions are answered.
    ``cache`` keeps the image of every topic that is published; ``image_on_subscribe`` off sends images only to who asks
    for them. ``idle_seconds`` 0: nobody is closed for being silent.
    A client has ``login_seconds`` to log in, and ``login_attempts``; of one address ``login_failures`` per minute are
    allowed. 0: any number.
    """

    broker: bool = True
    sub_results: bool = False
    cache: bool = False
    image_on_subscribe: bool = True
    heartbeat_seconds: float = 40.0
    idle_seconds: float = 120.0
    login_seconds: float = 120.0
    login_attempts: int = 5
    login_failures: int = 20


@dataclass(frozen=True, slots=True)
class CedaClientOptions(CedaOptions):
    login_seconds: float = LOGIN_LIMIT_US / SECOND_US
