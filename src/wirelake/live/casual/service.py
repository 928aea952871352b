"""A hub serves casual as a domain: Python services, durable queues, connections to other domains."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ...protocols.casual import MAX_PAYLOAD
from ..core.address import Address
from ..core.log import log
from ..core.settings import SettingsError, find_object, rules, setting
from ..drive.connection import unpredictable
from ..hub.settings import Served, ServiceSettings
from .application.domain import Domain
from .options import DomainOptions, PeerSettings, QueueSettings
from .session import CasualSession
from .stores import MEMORY, open_store
from .stores.figures import Figures
from .wire import CASUAL_REVERSE, CASUAL_TCP, PROFILES

REVERSE = "reverse"


@dataclass(frozen=True, slots=True, kw_only=True)
class CasualSettings(ServiceSettings):
    """``services`` is ``module:attribute`` of a ``Domain``. ``storage`` is a path, or a URL of PostgreSQL; without it
    queues and transactions live as long as the process. Who dials the address ``reverse`` serves us.
    """

    name: str = "wirelake"
    storage: str = ""
    profile: str = setting("document", among=PROFILES)
    queues: tuple[QueueSettings, ...] = ()
    peers: tuple[PeerSettings, ...] = ()
    reverse: Address | None = None
    options: DomainOptions = field(default_factory=DomainOptions, metadata=rules(without=("name", "profile")))

    def __post_init__(self) -> None:
        names = [queue.name for queue in self.queues]
        if len(set(names)) < len(names):
            raise ValueError(f"queues: {next(name for name in names if names.count(name) > 1)} is there twice")

    @property
    def participants(self) -> str:
        return ""

    @property
    def listeners(self) -> dict[str, Address]:
        own = ServiceSettings.listeners.fget(self)  # type: ignore[attr-defined]
        return own if self.reverse is None else {**own, REVERSE: self.reverse}

    def serve(self, directory: Path) -> Served:
        domain = self._domain(directory)
        store = open_store(self._place(directory), self.queues)
        if not self.storage and self.queues:
            log.warning("queues are lost with this process: [casual] has no storage")
        session = CasualSession(
            replace(self.options, name=self.name, profile=self.profile),
            services=domain.services,
            queues=self.queues,
            peers=self.peers,
            is_shared=store.is_shared,
            chance=unpredictable(),
        )
        framings = {REVERSE: CASUAL_REVERSE}
        return Served(
            session,
            CASUAL_TCP,
            False,
            MAX_PAYLOAD,
            storage=store,
            figures=Figures(self._place(directory)) if self.storage else None,
            open=domain.attach,
            framings=framings,
        )

    def _domain(self, directory: Path) -> Domain:
        if not self.services:
            return Domain()
        found = find_object("casual.services", self.services, directory)
        if not isinstance(found, Domain):
            raise SettingsError(f"casual.services: {self.services} has to be a Domain, not {type(found).__name__}")
        return found

    def _place(self, directory: Path) -> str:
        if not self.storage:
            return MEMORY
        return self.storage if "://" in self.storage else str(directory / Path(self.storage).expanduser())


SERVICE = CasualSettings
