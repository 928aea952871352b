"""Listening on every address of a host."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

from ..core.address import Address

BACKLOG = 1024
ACCEPT_AT_ONCE = 16
"""Connections that are accepted before others have their turn."""
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""A name may have addresses of a kind that this machine does not have."""


async def listen(address: Address, factory: Callable[[], asyncio.BaseProtocol]) -> list[asyncio.Server]:
    """Listen on all addresses of a host, on the same port, also if that is to be picked. OSError if that fails.

    ``*`` is every address of the machine.
    """
    loop = asyncio.get_running_loop()
    servers = []
    for listener in await _bind(*address):
        servers.append(await loop.create_server(factory, sock=listener, backlog=ACCEPT_AT_ONCE))
        listener.listen(BACKLOG)
    return servers


def address_of(server: asyncio.Server) -> Address:
    host, port, *_ = server.sockets[0].getsockname()
    return host, port


async def _bind(host: str, port: int) -> list[socket.socket]:
    found = await asyncio.get_running_loop().getaddrinfo(
        None if host in ("", "*") else host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    problem = OSError(f"{host} has no address to listen on")
    for family, place in dict.fromkeys((family, place) for family, _, _, _, place in found):
        try:
            sockets.append(_bound(family, (place[0], port, *place[2:])))
            port = sockets[0].getsockname()[1]
        except OSError as error:
            problem = error
            if error.errno not in _NOT_HERE:
                for made in sockets:
                    made.close()
                raise
    if not sockets:
        raise problem
    return sockets


def _bound(family: int, place: tuple[str | int, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        if os.name == "posix":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections inherit it: dead peers are found
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(place)
    except OSError:
        made.close()
        raise
    return made
