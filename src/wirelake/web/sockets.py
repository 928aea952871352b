"""Sockets that listen on every address of a host."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""A name may have addresses of a kind that this machine does not have."""


def bind(host: str, port: int, backlog: int = 128) -> list[socket.socket]:
    """Return sockets that listen on all addresses of a host (``*``: of this machine), on the same port."""
    name = None if host in ("", "*") else host
    addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    refusal = OSError(f"{host} has no address to listen on")
    with ExitStack() as opened:
        listeners: list[socket.socket] = []
        for family, *_, address in dict.fromkeys(addresses):
            picked = listeners[0].getsockname()[1] if listeners else port
            try:
                listener = socket.create_server((address[0], picked, *address[2:]), family=family, backlog=backlog)
            except OSError as error:
                refusal = error
                if error.errno not in _NOT_HERE:
                    raise
                continue
            listener.setblocking(False)
            # Connections inherit both: dead peers are found, and a short message never waits for an acknowledgement.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listeners.append(opened.enter_context(listener))
        if not listeners:
            raise refusal
        opened.pop_all()
    return listeners
