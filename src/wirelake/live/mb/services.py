"""What a broker knows about each connection, which is a service from the moment it is accepted; and its options."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocols.mb.conduct import DEFAULT_LIMIT_US
from ..core.link import Link
from .log_filter import Filter
from .wire import Head, Incoming

LOG = "system.log"
LEVELS = ("debug", "info", "warn", "error")


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Limits and times of a broker; 0 is no limit."""

    heartbeat_seconds: float = 30.0
    """Silence after which a service is asked for a sign of life."""
    deregister_seconds: float = 60.0
    """Silence after which it is dropped, and its connection closed."""
    timeout_ms: int = DEFAULT_LIMIT_US // 1000
    """How long a request waits that does not say."""
    max_outstanding: int = 10_000
    max_unsent: int = 8 << 20
    """Bytes that a connection may leave unread before it is closed."""
    max_connections: int = 0
    max_subscriptions: int = 10_000
    """Of one connection."""
    messages_per_second: int = 0
    """Publishes and requests of one connection; what exceeds it is refused."""
    messages_per_topic: int = 0
    """The same of one topic, whoever sends them."""
    wildcard_subscriptions: bool = True


class Service:
    """One connection."""

    __slots__ = (
        "asked_at", "connected_at", "description", "errors", "heard", "id", "incoming", "levels", "link",
        "name", "pattern", "published", "requested", "spent",
    )  # fmt: skip

    def __init__(self, id: str, link: Link, now: float) -> None:
        self.id = id
        self.link = link
        self.name = ""
        self.description = ""
        self.connected_at = now
        self.heard = now
        """When the last message came whose header was good."""
        self.asked_at = -1.0
        """When it was last asked for a sign of life."""
        self.incoming = Incoming()
        self.published: set[str] = set()
        self.requested: dict[str, float] = {}
        """Its subscriptions: topics, and topics with priorities."""
        self.levels: frozenset[str] = frozenset()
        self.pattern: Filter | None = None
        """What it wants to read of the broker's log."""
        self.errors = 0
        self.spent = 0
        """Messages in this second, where that is limited."""

    @property
    def is_here(self) -> bool:
        return self.link.state is self


@dataclass(slots=True, eq=False)
class Open:
    """A request that waits for its response."""

    id: bytes
    head: Head
    rid: bytes | None
    origin: Service
    target: Service
