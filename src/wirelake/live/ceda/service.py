"""A hub serves CEDA as a server with logins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...protocols.ceda import MAX_PAYLOAD
from ..drive.connection import unpredictable
from ..hub.settings import Served, ServiceSettings
from ..hub.users import open_gate
from .options import CedaServerOptions
from .server import CedaServer


@dataclass(frozen=True, slots=True, kw_only=True)
class CedaSettings(ServiceSettings):
    """Who may log in: ``users`` with their passwords, those of a ``users_file``, or those that the ``authenticator``,
    a function, accepts; everybody if none of them is set. ``options`` are those of the server.
    """

    users: dict[str, str] | None = field(default=None, repr=False)
    users_file: Path | None = None
    authenticator: str = ""
    options: CedaServerOptions = field(default_factory=CedaServerOptions)

    def __post_init__(self) -> None:
        if sum((self.users is not None, self.users_file is not None, bool(self.authenticator))) > 1:
            raise ValueError("users, users_file and authenticator exclude each other: one of them says who may log in")
        if not self.options.broker and not self.services:
            raise ValueError("options.broker = false needs services: they get what clients send")

    def serve(self, directory: Path) -> Served:
        gate = open_gate(self.users, self.users_file, self.authenticator, directory)
        server = CedaServer(self.options, chance=unpredictable())
        return Served(server, self.options.framing, False, MAX_PAYLOAD, gate)


SERVICE = CedaSettings
