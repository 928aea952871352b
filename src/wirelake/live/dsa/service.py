"""A hub serves DSA as a broker."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from ...protocols.dsa import MAX_TOTAL
from ..core.log import log
from ..core.settings import SettingsError, setting
from ..drive.endpoint import Endpoint
from ..hub.settings import Served, ServiceSettings
from ..storage.sqlite import SqliteStorage
from .handshake import Identity
from .key_file import load_identity
from .options import BrokerOptions
from .paths import InvalidPath, check_path, is_name
from .permissions import DEFAULT, LEVELS, Role, level_named
from .server import DsaBroker
from .store import SCHEMA, BrokerRules
from .upstream import Upstream, read_upstream
from .wire import DSA_TCP


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSettings:
    """``rules`` are permissions by path; ``level`` holds where none of them does, then the role ``fallback``."""

    level: str | None = setting(None, among=tuple(LEVELS))
    fallback: str = ""
    rules: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path, level in self.rules.items():
            try:
                check_path(path)
                level_named(level)
            except InvalidPath as error:
                raise ValueError(f"rules: {path!r}: {error}") from None
            except ValueError as error:
                raise ValueError(f"rules: {path!r}: {error}") from None

    def role(self, name: str) -> Role:
        rules = {check_path(path): level_named(level) for path, level in self.rules.items()}
        return Role(name, None if self.level is None else level_named(self.level), self.fallback, rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """``url`` is ``dsa://HOST:PORT``; ``role`` is what the upstream broker may do here."""

    url: str
    token: str = field(default="", repr=False)
    role: str = DEFAULT

    def __post_init__(self) -> None:
        read_upstream("", self.url, "", self.role)


@dataclass(frozen=True, slots=True, kw_only=True)
class DsaSettings(ServiceSettings):
    """``key_file`` holds the private key of the broker, and is made on first use; ``store`` what outlives a restart.
    Without them the broker has another identity each time, and forgets its links. ``allow_all`` and ``quarantine`` say
    what happens to unknown links; a switch that is not set here may be set at run time, and is kept then.
    """

    name: str = "broker"
    key_file: Path | None = None
    store: Path | None = None
    allow_all: bool | None = None
    quarantine: bool | None = None
    roles: dict[str, RoleSettings] = field(default_factory=dict)
    upstream: dict[str, UpstreamSettings] = field(default_factory=dict)
    options: BrokerOptions = field(default_factory=BrokerOptions)

    def __post_init__(self) -> None:
        for name in self.upstream:
            if not is_name(name):
                raise ValueError(f"upstream: {name!r} cannot be the name of a node")
        for name, role in self.roles.items():
            if not is_name(name):
                raise ValueError(f"roles: {name!r} cannot be the name of a node")
            if role.fallback and role.fallback not in self.roles:
                raise ValueError(f"roles.{name}: there is no role {role.fallback!r} to fall back on")

    def serve(self, directory: Path) -> Served:
        chance = random.SystemRandom()  # salts and tokens must be unpredictable
        identity = self._identity(chance)
        storage = None if self.store is None else SqliteStorage(self.store, SCHEMA, BrokerRules)
        broker = DsaBroker(
            identity,
            self.options,
            roles={name: role.role(name) for name, role in self.roles.items()},
            allow_all=self.allow_all,
            quarantine=self.quarantine,
            upstreams=self._upstreams(),
            has_store=storage is not None,
            chance=chance,
        )
        return Served(broker, DSA_TCP, False, MAX_TOTAL, storage=storage, open=self._open)

    def _identity(self, chance: random.Random) -> Identity:
        try:
            if self.key_file is None:
                return Identity.make(chance, f"{self.name}-")
            return load_identity(self.key_file, f"{self.name}-", chance)
        except OSError as error:
            raise SettingsError(f"dsa.key_file: cannot use {self.key_file}: {error.strerror}") from None
        except ValueError as error:
            raise SettingsError(f"dsa.key_file: {error}") from None

    def _upstreams(self) -> list[Upstream]:
        return [read_upstream(name, one.url, one.token, one.role) for name, one in self.upstream.items()]

    def _open(self, endpoint: Endpoint) -> None:
        """Begin with what the broker wants before anybody connects: its store, and its upstream brokers."""
        if self.key_file is None or self.store is None:
            missing = " and ".join(key for key in ("key_file", "store") if getattr(self, key) is None)
            log.warning(f"without {missing} links are strangers after a restart", protocol="dsa")
        broker = endpoint.session
        assert isinstance(broker, DsaBroker)
        log.info("the broker has its identity", protocol="dsa", dsid=broker.identity.dsid)
        endpoint.settle()


SERVICE = DsaSettings
