"""Listening on every address of a host, and the end of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...web.sockets import bind
from ..core.address import Address

BACKLOG = 1024
ACCEPT_AT_ONCE = 16
"""Connections that are accepted before others have their turn."""


async def listen(address: Address, factory: Callable[[], asyncio.BaseProtocol]) -> list[asyncio.Server]:
    """Listen on all addresses of a host (``*``: of the machine), on one port, picked if 0. OSError if that fails."""
    loop = asyncio.get_running_loop()
    listeners = bind(*address)
    servers = [
        await loop.create_server(factory, sock=listener, backlog=ACCEPT_AT_ONCE, start_serving=False)
        for listener in listeners
    ]
    try:
        for server, listener in zip(servers, listeners, strict=True):
            await server.start_serving()
            listener.listen(BACKLOG)
    except BaseException:  # cancelled: nobody else knows of them
        for server in servers:
            server.close()
        raise
    return servers


async def stop_listening(servers: list[asyncio.Server]) -> None:
    """Accept nobody any more. Who was accepted just now becomes a connection first: asyncio forgets those of a server
    that is closed before, and leaves them open.
    """
    loop = asyncio.get_running_loop()
    for server in servers:
        for listener in server.sockets:
            loop.remove_reader(listener.fileno())
    await asyncio.sleep(0)
    for server in servers:
        server.close()


def address_of(server: asyncio.Server) -> Address:
    host, port, *_ = server.sockets[0].getsockname()
    return host, port
