"""The settings of a hub: from ``hub.toml``, from flags, or neither.

Each protocol adds its own in its ``service.py``, which also makes its session; its record leads there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_type_hints

from ..core.address import Address
from ..core.effects import Storage
from ..core.link import Framing
from ..core.session import Session
from ..core.settings import Reader, SettingsError, load_toml, setting
from ..drive.endpoint import Endpoint, Limits
from ..drive.tls import Certificate
from ..records import LIVE, TRANSPORTS
from .metrics import ReadFigures
from .users import Gate


@dataclass(frozen=True, slots=True)
class Served:
    session: Session
    framing: Framing
    is_text: bool
    max_message: int
    """The longest message that may come over WebSocket."""
    gate: Gate | None = None
    """Checks logins, where the protocol has them."""
    storage: Storage | None = None
    """Keeps what the session stores."""
    figures: ReadFigures | None = None
    """Reads what the storage holds, for metrics; it may take its time."""
    open: Callable[[Endpoint], None] | None = None
    """Called once what the session wants can be carried out, before anybody connects."""
    framings: Mapping[str, Framing] = field(default_factory=dict)
    """Of listeners that have another one, by the name of the listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings(Limits):
    """What every protocol has: where it listens, and the limits of a server."""

    tcp: Address | None = None
    tls: Address | None = None
    ws: Address | None = None
    wss: Address | None = None
    services: str = ""
    """``module:attribute`` of Python services that the hub runs."""

    @property
    def participants(self) -> str:
        """What of ``services`` is run as clients of the hub; the rest is the business of ``serve``."""
        return self.services

    @property
    def listeners(self) -> dict[str, Address]:
        return {name: address for name in TRANSPORTS if (address := getattr(self, name)) is not None}

    def serve(self, directory: Path) -> Served:
        """Return the session that is served with these settings; their paths begin at ``directory``."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Where /metrics and /health are; nowhere if not said. ``hosts``: further names that requests may use."""

    listen: Address | None = None
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    level: str = setting("info", among=("debug", "info", "warn", "error"))
    format: str = setting("auto", among=("auto", "json", "text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TapSettings:
    """Where everything that passes is recorded; nowhere if not said."""

    directory: Path | None = None
    rotate_mb: float = setting(256.0, least=0.001)
    rotate_seconds: float | None = setting(None, least=0.001)
    sync_seconds: float = setting(1.0, least=0.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How much of the memory of the machine, or of its cgroup, the hub may have before it refuses newcomers."""

    share: float = setting(0.4, least=0.001)

    def __post_init__(self) -> None:
        if self.share > 1:
            raise ValueError("share is at most 1: that is all of the memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownSettings:
    """How long everybody has to take what was said, when the hub ends."""

    drain_seconds: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSettings:
    """``services`` by the name of the protocol, those that are served. ``directory``: where the settings are."""

    services: dict[str, ServiceSettings] = field(default_factory=dict)
    tls: Certificate | None = None
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    log: LogSettings = field(default_factory=LogSettings)
    tap: TapSettings = field(default_factory=TapSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    shutdown: ShutdownSettings = field(default_factory=ShutdownSettings)
    directory: Path = field(default_factory=Path)


_TABLES = {key: kind for key, kind in get_type_hints(HubSettings).items() if key not in ("services", "directory")}


def default_settings() -> HubSettings:
    """Return settings with every protocol at its usual ports, on loopback."""
    return complete(HubSettings())


def load_settings(path: Path) -> HubSettings:
    """Return the settings of a file; SettingsError names the file and the key that is wrong."""
    return read_settings(load_toml(path), str(path), path.parent)


def read_settings(tables: dict[str, Any], name: str, directory: Path) -> HubSettings:
    """Return the settings of tables: of protocols that have one, or of all; without listeners at their usual ports."""
    reader = Reader(name, directory)
    reader.refuse_unknown(tables, [*LIVE, *_TABLES], "")
    services = {}
    for protocol, live in LIVE.items():
        if protocol in tables:
            absent = tuple(transport for transport in TRANSPORTS if transport not in live.transports)
            services[protocol] = reader.read(live.service, tables[protocol], protocol, absent)
    others: Any = {key: reader.value(kind, tables[key], key, {}) for key, kind in _TABLES.items() if key in tables}
    settings = complete(HubSettings(services=services, directory=directory, **others))
    for protocol, service in settings.services.items():
        for transport in ("tls", "wss"):
            if transport in service.listeners and settings.tls is None:
                reader.fail(f"{protocol}.{transport}", "needs a certificate and its key in [tls]")
    return settings


def complete(settings: HubSettings) -> HubSettings:
    """With the usual listeners where none is named."""
    chosen = settings.services or {name: live.service() for name, live in LIVE.items() if live.hub_listeners}
    services = {}
    for name, service in chosen.items():
        if not service.listeners:
            usual: Any = {where: ("127.0.0.1", port) for where, port in LIVE[name].hub_listeners.items()}
            service = replace(service, **usual)
        services[name] = service
    return replace(settings, services=services)


def with_listeners(settings: HubSettings, listeners: dict[str, dict[str, Address]]) -> HubSettings:
    """Only these listeners, by protocol and transport; everything else as it was."""
    services = {}
    for name, wanted in listeners.items():
        nowhere: Any = dict.fromkeys(TRANSPORTS)
        services[name] = replace(settings.services.get(name) or LIVE[name].service(), **{**nowhere, **wanted})
        for transport in ("tls", "wss"):
            if transport in wanted and settings.tls is None:
                raise SettingsError(f"{name} over {transport} needs a certificate and its key")
    return replace(settings, services=services)
