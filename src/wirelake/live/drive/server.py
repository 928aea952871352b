"""A session that is served: listeners on TCP, TLS and WebSocket, limits, and an end that lets everybody finish."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field

from ..core.address import Address
from ..core.link import Framing
from ..core.session import SERVER, Session
from ..tap.recorder import Recorder
from .endpoint import Endpoint, Limits
from .listeners import address_of, listen, stop_listening
from .pipe import Pipe
from .tls import Certificate, TlsDoor
from .websocket import ServerWebSocketPipe, WebSocketFraming


@dataclass(eq=False)
class Server:
    """One session on any number of listeners. ``max_message`` bounds what a client may send over WebSocket."""

    protocol: str
    session: Session
    framing: Framing
    _: KW_ONLY
    is_text: bool = False
    max_message: int | None = 1 << 20
    limits: Limits = field(default_factory=Limits)
    recorder: Recorder | None = None
    is_short: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.endpoint = Endpoint(
            self.session, self.framing, protocol=self.protocol, limits=self.limits, recorder=self.recorder
        )
        self.refused = 0
        """Connections beyond the limit, or while memory is short."""
        self.tls_failures = 0
        self._websocket = WebSocketFraming(self.is_text)
        self._listeners: list[asyncio.Server] = []
        self.contexts: dict[Certificate, ssl.SSLContext] = {}
        """As the files were read last: new connections get these."""
        self._doors: set[TlsDoor] = set()
        self._coming = 0
        """Pipes that were made, ever; their connections are told to the endpoint a little later."""

    async def listen(
        self,
        address: Address,
        *,
        websocket: bool = False,
        certificate: Certificate | None = None,
        framing: Framing | None = None,
    ) -> Address:
        """Begin to listen; return the address, with the port that was picked if 0 was asked for."""
        if certificate is not None:
            self.contexts[certificate] = certificate.context()
        servers = await listen(address, lambda: self._enter(websocket, certificate, framing))
        self._listeners += servers
        return address_of(servers[0])

    @property
    def connections(self) -> int:
        """How many there are, with those that have just come or are still in their TLS handshake."""
        return len(self.endpoint.pipes) + len(self._doors) + self._coming - self.endpoint.accepted

    def _enter(self, websocket: bool, certificate: Certificate | None, framing: Framing | None) -> asyncio.BaseProtocol:
        if self.is_short() or 0 < self.limits.connections <= self.connections:
            self.refused += 1
            return _Refused()
        if certificate is None:
            return self._pipe(websocket, framing)
        context = self.contexts[certificate]
        door = TlsDoor(context, lambda: self._pipe(websocket, framing), self.limits.handshake_seconds, self._entered)
        self._doors.add(door)
        return door

    async def enter(self, make: Callable[[], Pipe]) -> None:
        """Connect the pipe that ``make`` returns, within this process. OSError once the server is closed."""
        if self.endpoint.is_closing:
            raise ConnectionRefusedError("the hub is shutting down")
        loop = self.endpoint.loop
        ours, theirs = socket.socketpair()
        await loop.create_connection(lambda: _trusted(self._pipe(False, None)), sock=ours)
        await loop.create_connection(lambda: _trusted(make()), sock=theirs)

    def _entered(self, door: TlsDoor, is_done: bool) -> None:
        self._doors.discard(door)
        self.tls_failures += not is_done

    def _pipe(self, websocket: bool, framing: Framing | None) -> Pipe:
        self._coming += 1
        if not websocket:
            return Pipe(self.endpoint, SERVER, framing)
        return ServerWebSocketPipe(self.endpoint, self._websocket, self.max_message)

    def read_certificates(self) -> dict[Certificate, ssl.SSLContext]:
        """Return what the files say now, for ``contexts``. OSError or ValueError if they make no sense."""
        return {certificate: certificate.context() for certificate in self.contexts}

    async def close(self, drain_seconds: float = 5.0) -> None:
        """Accepts nobody any more, and lets those who are here finish."""
        await stop_listening(self._listeners)
        for door in list(self._doors):
            door.cut()
        await self.endpoint.close(drain_seconds)
        for listener in self._listeners:
            with suppress(TimeoutError):
                await asyncio.wait_for(listener.wait_closed(), 1.0)

    def cut(self) -> None:
        for pipe in list(self.endpoint.pipes.values()):
            pipe.abort()


def _trusted(pipe: Pipe) -> Pipe:
    pipe.is_inside = True
    return pipe


class _Refused(asyncio.Protocol):
    """One connection too many: closed before anything is said."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
