"""What a hub needs to serve a protocol: its settings, and a session made from them.

Each protocol has its own in ``mb_service.py``, ``ceda_service.py``; ``live.py`` leads to them.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..sessions.base import Session
from ..sessions.links import Framing
from .endpoint import Address, Policy
from .live import TRANSPORTS
from .server import Limits
from .settings import setting
from .users import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """What every protocol has: where it listens, how many may connect, and what happens to slow readers."""

    tcp: Address | None = None
    tls: Address | None = None
    ws: Address | None = None
    wss: Address | None = None
    connections: int = 10_000
    handshake_seconds: float = setting(10.0, least=0.001)
    slow_reader: str = setting("drop", among=("drop", "slow"))
    stall_seconds: float = setting(30.0, least=0.001)
    origins: tuple[str, ...] = ()

    @property
    def listeners(self) -> dict[str, Address]:
        """By transport."""
        found = {name: getattr(self, name) for name in TRANSPORTS}
        return {name: address for name, address in found.items() if address is not None}

    @property
    def policy(self) -> Policy:
        return Policy(self.slow_reader, self.stall_seconds)

    def limits(self, max_message: int) -> Limits:
        return Limits(self.connections, self.handshake_seconds, max_message, self.origins)


@dataclass(frozen=True, slots=True)
class Served:
    """A session to be served."""

    session: Session
    framing: Framing
    is_text: bool
    max_message: int
    """The longest message that may come over WebSocket."""
    gate: Gate | None = None
    """Checks logins, where the protocol has them."""


@dataclass(frozen=True, slots=True)
class Service:
    """How a protocol is served."""

    settings: type[ServiceSettings]
    make: Callable[[Any, Path], Served]


def unpredictable() -> random.Random:
    """Return a source of chance that no peer can guess."""
    return random.Random(secrets.randbits(256))
