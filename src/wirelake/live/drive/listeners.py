"""Listening on every address of a host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...web.sockets import bind
from ..core.address import Address

BACKLOG = 1024
ACCEPT_AT_ONCE = 16
"""Connections that are accepted before others have their turn."""


async def listen(address: Address, factory: Callable[[], asyncio.BaseProtocol]) -> list[asyncio.Server]:
    """Listen on all addresses of a host, on the same port, also if that is to be picked. OSError if that fails.

    ``*`` is every address of the machine.
    """
    loop = asyncio.get_running_loop()
    servers = []
    for listener in bind(*address):
        servers.append(await loop.create_server(factory, sock=listener, backlog=ACCEPT_AT_ONCE))
        listener.listen(BACKLOG)
    return servers


def address_of(server: asyncio.Server) -> Address:
    host, port, *_ = server.sockets[0].getsockname()
    return host, port
