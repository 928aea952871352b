"""The live side of each protocol as one record, which hub, URLs, metrics and command line read.

The record itself costs no import, so that help stays quick. What it leads to is loaded on first use from modules
beside it: the client (``mb.py``), the hub's service (``mb_service.py``) and the JSON of messages (``mb_json.py``).
A new protocol adds these files and its record here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..protocols import load

if TYPE_CHECKING:
    from .client import Opening
    from .hub_settings import ServiceSettings
    from .message_json import MessageJson

TRANSPORTS = ("tcp", "tls", "ws", "wss")
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
    """What hub, clients and verbs have to know about a protocol."""

    name: str
    options: Mapping[str, tuple[VerbOption, ...]] = field(default_factory=dict)
    """By verb; those of ``connect`` belong to every verb that connects."""
    has_login: bool = False
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
        return {transport: ports[transport] for transport in UNENCRYPTED if transport in self.transports}

    def port(self, transport: str) -> int:
        return self.ports.get(transport, self.ports["tcp"])

    @property
    def connect(self) -> Callable[..., Opening[Any]]:
        return self._load("", "connect")  # type: ignore[no-any-return]

    @property
    def service(self) -> type[ServiceSettings]:
        return self._load("_service", "SERVICE")  # type: ignore[no-any-return]

    @property
    def message_json(self) -> MessageJson:
        return self._load("_json", "MESSAGE_JSON")  # type: ignore[no-any-return]

    def _load(self, part: str, name: str) -> Any:
        return getattr(importlib.import_module(f".{self.name}{part}", __package__), name)


_MB = Live(
    "mb",
    options={
        "connect": (
            # Registering is also how we see that a broker is there, so there is always a name.
            VerbOption("name", "the name to register under.  [default: wirelake]", metavar="TEXT", default="wirelake"),
        ),
        "publish": (VerbOption("confirm", "wait until the broker has delivered each message.", bool),),
        "respond": (VerbOption("priority", "the highest gets the requests.  [default: 0]", float, "X"),),
    },
    message_counts=("router.message.count", "malformed"),
)

_CEDA = Live(
    "ceda",
    options={
        "connect": (
            VerbOption("user", "the user; the URL may name it instead.", metavar="TEXT"),
            VerbOption(
                "password",
                "the password; better in the environment, as WIRELAKE_PASSWORD.",
                metavar="TEXT",
                variable="WIRELAKE_PASSWORD",
            ),
        ),
        "subscribe": (VerbOption("image", "ask for the current values first.", bool),),
        "request": (VerbOption("server_id", "the service to ask.  [default: MQ]", metavar="TEXT"),),
    },
    has_login=True,
    hub_ports={"ws": 8089},
    message_counts=(
        "published", "requests", "requests_unrouted", "replies", "replies_dropped", "p2p", "p2p_unrouted", "pieces",
        "heartbeats", "logins", "logins_refused", "ignored_before_login", "control_ignored", "message_errors",
    ),
)  # fmt: skip

LIVE = {record.name: record for record in (_MB, _CEDA)}
