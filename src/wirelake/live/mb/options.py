"""How MB sessions are set up."""

from __future__ import annotations

from dataclasses import dataclass

from ...protocols.mb.conduct import DEFAULT_LIMIT_US
from ..core.settings import setting


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Limits and times of a broker. 0 is no limit of subscriptions, and of messages in a second."""

    heartbeat_seconds: float = setting(30.0, least=0.001)
    """Silence after which a service is asked for a sign of life."""
    deregister_seconds: float = setting(60.0, least=0.001)
    """Silence after which it is dropped, and its connection closed."""
    timeout_ms: int = setting(DEFAULT_LIMIT_US // 1000, least=1)
    """How long a request waits that does not say."""
    max_outstanding: int = setting(10_000, least=1)
    max_unsent: int = setting(8 << 20, least=1)
    """Bytes that a connection may leave unread before it is closed."""
    max_subscriptions: int = 10_000
    """Of one connection."""
    max_all_subscriptions: int = 100_000
    """Of all connections together; a connection may have 16 in any case."""
    messages_per_second: int = 0
    """Publishes and requests of one connection; what exceeds it is refused."""
    messages_per_topic: int = 0
    """The same of one topic, whoever sends them."""
    wildcard_subscriptions: bool = True


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Who we are, and how long we wait. Without a name we do not register."""

    name: str = ""
    description: str = ""
    initialize_seconds: float = 5.0
    heartbeat_seconds: float = 20.0
    """Without sending for so long, we ask the broker for a sign of life."""
    answer_seconds: float = 5.0
    """How long that may take before the connection counts as lost."""
    timeout_ms: int = DEFAULT_LIMIT_US // 1000
    """How long a broker lets a request wait that does not say."""
    grace_seconds: float = 0.5
    """How much longer we wait for the broker's own word."""
    max_open: int = 10_000
