"""The protocols that a hub can serve: for each one its settings, its usual ports, and how its session is made.

A protocol more is a class of settings, a function that makes its session, and a line in ``SERVICES``.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..sessions.base import Session
from ..sessions.ceda_options import CedaServerOptions
from ..sessions.links import Framing
from ..sessions.mb_services import BrokerOptions
from .endpoint import Address, Policy
from .machine import Machine
from .server import Limits
from .settings import rules, setting
from .users import Gate, open_gate

TRANSPORTS = ("tcp", "tls", "ws", "wss")
MAX_CEDA = 0xFFFF
"""Bytes of the longest payload of CEDA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """What every protocol has: where it listens, how many may come, and what happens to who reads too slowly."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class MbSettings(ServiceSettings):
    """``options`` are those of the broker."""

    options: BrokerOptions = field(default_factory=BrokerOptions, metadata=rules(without=("max_connections",)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CedaSettings(ServiceSettings):
    """Who may log in: ``users`` with their passwords, those of a ``users_file``, or whom the ``authenticator``, a
    function, lets in; everybody if none of them is named. ``options`` are those of the server.
    """

    users: dict[str, str] | None = field(default=None, repr=False)
    users_file: Path | None = None
    authenticator: str = ""
    options: CedaServerOptions = field(default_factory=CedaServerOptions)

    def __post_init__(self) -> None:
        if sum((self.users is not None, self.users_file is not None, bool(self.authenticator))) > 1:
            raise ValueError("users, users_file and authenticator exclude each other: one of them says who may log in")


@dataclass(frozen=True, slots=True)
class Served:
    """A session to be served."""

    session: Session
    framing: Framing
    is_text: bool
    max_message: int
    """The longest message that may come over WebSocket."""
    gate: Gate | None = None
    """Who lets people in, where the protocol has a login."""


def _chance() -> random.Random:
    return random.Random(secrets.randbits(256))


def _mb(settings: Any, directory: Path) -> Served:
    from ..sessions.mb_broker import MbBroker
    from ..sessions.mb_wire import MAX_FRAME, MB_TCP

    broker = MbBroker(options=settings.options, probe=Machine(), chance=_chance())
    return Served(broker, MB_TCP, True, MAX_FRAME)


def _ceda(settings: Any, directory: Path) -> Served:
    from ..sessions.ceda_server import CedaServer

    gate = open_gate(settings.users, settings.users_file, settings.authenticator, directory)
    server = CedaServer(settings.options, authenticate=gate.authenticate, chance=_chance())
    gate.session = server
    return Served(server, settings.options.framing, False, MAX_CEDA, gate)


@dataclass(frozen=True, slots=True)
class Service:
    """One protocol. ``usual`` are its listeners where none is named, on loopback."""

    name: str
    settings: type[ServiceSettings]
    make: Callable[[Any, Path], Served]
    usual: Mapping[str, int]
    transports: tuple[str, ...] = TRANSPORTS

    def limits(self, settings: ServiceSettings, served: Served) -> Limits:
        return Limits(settings.connections, settings.handshake_seconds, served.max_message, settings.origins)


SERVICES = {
    one.name: one
    for one in (
        Service("mb", MbSettings, _mb, {"tcp": 3001, "ws": 3000}),
        Service("ceda", CedaSettings, _ceda, {"tcp": 8088, "ws": 8089}),
    )
}
