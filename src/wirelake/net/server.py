"""A session that is served: listeners on TCP, TLS and WebSocket, limits, and an end that lets everybody finish."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..sessions.base import Session
from ..sessions.links import Framing
from .endpoint import Address, Endpoint, Pipe, Policy, Recorder
from .tls import Certificate, TlsContext, TlsDoor
from .websocket import ServerWebSocketPipe, WebSocketFraming

__all__ = ["Certificate", "Limits", "Server"]

log = logging.getLogger("wirelake.net")
BACKLOG = 1024
ACCEPT_AT_ONCE = 16
"""Connections that are accepted before others have their turn."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``connections`` of all listeners of a server together; 0 is no limit."""

    connections: int = 10_000
    handshake_seconds: float = 10.0
    """For TLS, and for the upgrade to WebSocket."""
    websocket_bytes: int | None = 1 << 20
    """The longest message that a client may send over WebSocket."""
    origins: tuple[str, ...] = ()
    """Web pages whose scripts may connect over WebSocket; empty is any."""


class Server:
    """One session on any number of listeners."""

    def __init__(
        self,
        protocol: str,
        session: Session,
        framing: Framing,
        *,
        is_text: bool = False,
        limits: Limits | None = None,
        policy: Policy | None = None,
        recorder: Recorder | None = None,
        on_events: Callable[[list[Any]], None] | None = None,
    ) -> None:
        self.protocol = protocol
        self.session = session
        self.limits = limits or Limits()
        self.endpoint = Endpoint(
            session,
            framing,
            is_server=True,
            protocol=protocol,
            policy=policy,
            recorder=recorder,
            on_events=on_events,
        )
        self.refused = 0
        """Connections beyond the limit."""
        self.tls_failures = 0
        self._websocket = WebSocketFraming(is_text)
        self._listeners: list[asyncio.Server] = []
        self._contexts: list[TlsContext] = []
        self._doors: set[TlsDoor] = set()
        self._coming = 0
        """Pipes that were made, ever; their connections are told to the endpoint a little later."""

    async def listen(
        self, address: Address, *, websocket: bool = False, certificate: Certificate | None = None
    ) -> Address:
        """Begins to listen; gives the address, with the port that was picked if 0 was asked for.

        A host with several addresses is listened to on all of them, on the same port; ``*`` is every address there is.
        """
        context = None if certificate is None else TlsContext(certificate)
        found: Address | None = None
        for listener in await bind(*address):
            self._listeners.append(
                await self.endpoint.loop.create_server(
                    lambda: self._enter(websocket, context), sock=listener, backlog=ACCEPT_AT_ONCE
                )
            )
            listener.listen(BACKLOG)
            found = found or listener.getsockname()[:2]
        if context is not None:
            self._contexts.append(context)
        assert found is not None
        return found

    @property
    def connections(self) -> int:
        """How many there are, with those that have just come or are still in their TLS handshake."""
        return len(self.endpoint.pipes) + len(self._doors) + self._coming - self.endpoint.accepted

    def _enter(self, websocket: bool, context: TlsContext | None) -> asyncio.BaseProtocol:
        if self.limits.connections and self.connections >= self.limits.connections:
            self.refused += 1
            return _Refused()
        if context is None:
            return self._pipe(websocket)
        door = TlsDoor(context, lambda: self._pipe(websocket), self.limits.handshake_seconds, self._entered)
        self._doors.add(door)
        return door

    def _entered(self, door: TlsDoor, is_done: bool) -> None:
        self._doors.discard(door)
        self.tls_failures += not is_done

    def _pipe(self, websocket: bool) -> Pipe:
        self._coming += 1
        if not websocket:
            return Pipe(self.endpoint)
        return ServerWebSocketPipe(
            self.endpoint,
            self._websocket,
            self.limits.websocket_bytes,
            handshake_seconds=self.limits.handshake_seconds,
            origins=self.limits.origins,
        )

    def reload_certificates(self) -> None:
        """New connections get what the files say now. OSError or ValueError if they make no sense; then all that was
        read before stays in use.
        """
        fresh = [(context, context.certificate.context()) for context in self._contexts]
        for context, current in fresh:
            context.current = current

    async def close(self, drain_seconds: float = 5.0) -> None:
        """Accepts nobody any more, and lets those who are here finish."""
        for listener in self._listeners:
            listener.close()
        for door in list(self._doors):
            door.cut()
        await self.endpoint.close(drain_seconds)
        for listener in self._listeners:
            with suppress(TimeoutError):
                await asyncio.wait_for(listener.wait_closed(), 1.0)

    def cut(self) -> None:
        """Ends all connections at once."""
        for pipe in list(self.endpoint.pipes.values()):
            pipe.abort()


class _Refused(asyncio.Protocol):
    """One connection too many: closed before anything is said."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets on all addresses of a host, on the same port, also if that is to be picked. OSError if that fails."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        None if host == "*" else host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, number, _, address in dict.fromkeys(found):
            try:
                one = socket.socket(family, kind, number)
            except OSError:  # an address of a kind that this machine does not have
                continue
            sockets.append(one)
            one.setblocking(False)
            if os.name == "posix":
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections inherit it: dead peers are found
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            picked = sockets[0].getsockname()[1] if len(sockets) > 1 else port
            one.bind((address[0], picked, *address[2:]))
        if not sockets:
            raise OSError(f"{host} has no address to listen on")
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets
