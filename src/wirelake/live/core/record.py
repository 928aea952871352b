"""The live side of a protocol as one record, which hub, URLs, metrics and command line read.

The record itself costs no import, so that help stays quick. What it leads to is loaded on first use from the package of
the protocol: ``api`` (the client), ``service`` (what the hub serves), ``message_json`` (messages on the command line).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocols import load

if TYPE_CHECKING:
    from ..drive.client import Opening
    from ..hub.settings import ServiceSettings
    from .message_json import MessageJson

TRANSPORTS = ("tcp", "tls", "ws", "wss")
MESSAGING = ("publish", "subscribe", "request", "respond")
"""The verbs of protocols whose clients send messages to topics."""
UNENCRYPTED = ("tcp", "ws")


@dataclass(frozen=True, slots=True)
class VerbOption:
    """An option of a verb on the command line that not every protocol has. ``kind`` bool is a flag."""

    name: str
    help: str
    kind: type = str
    metavar: str | None = None
    default: Any = None
    """What the client is given if the user says nothing; None: nothing."""
    variable: str | None = None
    """The environment variable that holds it too."""


@dataclass(frozen=True, slots=True)
class Live:
    name: str
    package: str
    options: Mapping[str, tuple[VerbOption, ...]] = field(default_factory=dict)
    """By verb; those of ``connect`` belong to every verb that connects."""
    verbs: tuple[str, ...] = MESSAGING
    """What its client can do, by the names of the verbs on the command line."""
    named_by: str = ""
    """The option of ``connect`` that names who connects: a participant of a hub has the name of its service."""
    has_login: bool = False
    has_queues: bool = False
    """Whether its store has queues and transactions, which an administrator looks after."""
    transports: tuple[str, ...] = TRANSPORTS
    hub_ports: Mapping[str, int] = field(default_factory=dict)
    """Where our hub listens on transports for which the protocol declares no port."""
    message_counts: tuple[str, ...] = ("messages",)
    """Counters of a session that add up to the messages received."""

    @property
    def ports(self) -> dict[str, int]:
        return {**self.hub_ports, **load(self.name).ports}

    @property
    def hub_listeners(self) -> dict[str, int]:
        """The ports of a hub without settings, which has no certificate."""
        ports = self.ports
        return {name: ports[name] for name in UNENCRYPTED if name in self.transports and name in ports}

    def port(self, transport: str) -> int:
        """Return the usual port. ValueError if there is none."""
        port = self.ports.get(transport, self.ports.get("tcp"))
        if port is None:
            raise ValueError(f"{self.name} has no usual port: write {self.name}://HOST:PORT")
        return port

    @property
    def connect(self) -> Callable[..., Opening[Any]]:
        return self._load("api", "connect")  # type: ignore[no-any-return]

    @property
    def service(self) -> type[ServiceSettings]:
        return self._load("service", "SERVICE")  # type: ignore[no-any-return]

    @property
    def message_json(self) -> MessageJson:
        return self._load("message_json", "MESSAGE_JSON")  # type: ignore[no-any-return]

    @property
    def administration(self) -> Callable[[str], Any]:
        """Return what opens a store for an administrator, or what stands for one, if it has queues."""
        return self._load("application.administrators", "administration")  # type: ignore[no-any-return]

    def _load(self, part: str, name: str) -> Any:
        return getattr(importlib.import_module(f"{self.package}.{part}"), name)
