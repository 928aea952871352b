"""Participants: clients of a hub in its own process, and the Python services that a hub runs with them.

A participant has everything that a client has, publish, subscribe, request and respond, in every protocol; only its
connection passes bytes within the process, and it needs no password.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ..core.log import log
from ..core.settings import SettingsError, find_object
from ..drive.client import Opening
from ..drive.server import Server
from ..drive.urls import Target
from ..records import LIVE

Service = Callable[[Any], Awaitable[Any]]
"""Gets its participant, and runs as long as it likes."""


def join(server: Server, **options: Any) -> Opening[Any]:
    """Return a client of the server in this process; the options are those of the protocol's ``connect``."""
    return LIVE[server.protocol].connect(Target(server.protocol, "tcp", "", 0, enter=server.enter), **options)


async def run(server: Server, service: Service) -> None:
    """Run a Python service of a hub. One that fails is logged, and neither the hub nor the others notice."""
    name = getattr(service, "__name__", type(service).__name__)
    naming = LIVE[server.protocol].named_by
    try:
        async with join(server, **({naming: name} if naming else {})) as participant:
            await service(participant)
            await participant.wait_closed()  # its subscriptions and handlers outlive the function
    except Exception:
        log.exception("a service failed", protocol=server.protocol, service=name)


def find_services(name: str, directory: Path) -> list[Service]:
    """Return the services that ``module:attribute`` names: an async function, or a list of them; without one none."""
    if not name:
        return []
    found = find_object("services", name, directory)
    services = list(found) if isinstance(found, list | tuple) else [found]
    for service in services:
        if not inspect.iscoroutinefunction(service) and not inspect.iscoroutinefunction(type(service).__call__):
            raise SettingsError(f"services: {name} has to be an async function, or a list of them")
    return services
