"""How a casual domain is set up."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...protocols.casual.conduct import CONNECT_LIMIT_US, LIMIT_US
from ...spec.conduct import SECOND_US
from ..core.address import Address, show_address
from ..core.settings import setting
from .store import QueueSettings
from .wire import PROFILES

__all__ = ["DomainLimits", "DomainOptions", "PeerSettings", "QueueSettings"]


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """A domain that we dial. ``reverse``: it sends the requests, and we serve them."""

    address: Address
    reverse: bool = False
    profile: str = setting("", among=("", *PROFILES))
    """That of this connection; that of the domain if empty."""

    @property
    def name(self) -> str:
        return show_address(self.address)


@dataclass(frozen=True, slots=True)
class DomainLimits:
    """Per connection: ``requests`` in progress and their ``bytes``, beyond which nothing is read from it; ``dequeues``
    that wait for a message; ``frame``: bytes of one message behind its header, 0 for what the protocol allows, and
    ``unsent`` bytes, beyond which it is closed.
    """

    requests: int = setting(1_000, least=1)
    bytes: int = setting(64 << 20, least=1)
    dequeues: int = 100_000
    conversations: int = 1_000
    frame: int = setting(0, least=0)
    unsent: int = 512 << 20
    tombstones: int = 100_000
    """Finished branches of all connections that are kept in memory; the store has all of them."""
    hops: int = 16
    """A service farther away is not used."""


@dataclass(frozen=True, slots=True)
class DomainOptions:
    """``profile`` is that of connections whose peer does not show another one. Seconds are limits of single requests
    to peers; ``refresh_seconds`` is how long what a peer offers is believed. ``tombstone_seconds``: how long the
    outcome of a finished branch is kept. ``branch_seconds``: an active branch is rolled back after so long; 0: never.
    ``idle_seconds``: a peer that asks for nothing so long, and waits for nothing, is disconnected; 0: never.
    """

    name: str = "wirelake"
    profile: str = setting("document", among=PROFILES)
    handshake_seconds: float = setting(CONNECT_LIMIT_US / SECOND_US, least=0.001)
    discovery_seconds: float = setting(CONNECT_LIMIT_US / SECOND_US, least=0.001)
    resource_seconds: float = setting(LIMIT_US / SECOND_US, least=0.001)
    queue_seconds: float = setting(LIMIT_US / SECOND_US, least=0.001)
    refresh_seconds: float = 60.0
    retry_seconds: float = setting(0.1, least=0.001)
    most_retry_seconds: float = setting(30.0, least=0.001)
    tombstone_seconds: float = 24 * 3600.0
    branch_seconds: float = 0.0
    idle_seconds: float = setting(0.0, least=0.0)
    limits: DomainLimits = field(default_factory=DomainLimits)
