"""Real servers on real sockets, for tests of clients: on a free port, on the same port again, over every transport."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.ceda.play import JudgingServer
from tests.live.certificates import Authority
from wirelake.live.ceda.options import CedaServerOptions
from wirelake.live.ceda.wire import CEDA_TCP
from wirelake.live.core.session import Session
from wirelake.live.drive.connection import Reconnect
from wirelake.live.drive.server import Certificate, Server
from wirelake.live.mb.server import MbBroker
from wirelake.live.mb.wire import MB_TCP

QUICK = Reconnect(seconds=0.01, most_seconds=0.05)
TRANSPORTS = ("tcp", "ws", "tls", "wss")
SECONDS = 30.0


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs it to its end, but not for ever, and sees to it that nothing is left behind."""

    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await main()
        for _ in range(50):  # what is cancelled needs a few turns to end
            await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    asyncio.run(limited())


class Live:
    """A server of one protocol that can be killed and started again."""

    def __init__(self, protocol: str, make: Callable[[], Session], authority: Authority | None = None) -> None:
        self.protocol = protocol
        self.authority = authority
        self.ports: dict[str, int] = {}
        self._make = make
        self._server: Server | None = None

    @property
    def session(self) -> Any:
        assert self._server is not None
        return self._server.session

    @property
    def server(self) -> Server:
        assert self._server is not None
        return self._server

    async def start(self, *transports: str) -> None:
        """On the ports that it had, if it had any."""
        certificate = None
        if self.authority is not None:
            certificate = Certificate(*self.authority.issue("localhost"))
        self._server = Server(
            self.protocol, self._make(), MB_TCP if self.protocol == "mb" else CEDA_TCP, is_text=self.protocol == "mb"
        )
        for transport in transports or tuple(self.ports):
            _, port = await self._server.listen(
                ("127.0.0.1", self.ports.get(transport, 0)),
                websocket=transport in ("ws", "wss"),
                certificate=certificate if transport in ("tls", "wss") else None,
            )
            self.ports[transport] = port

    async def kill(self) -> None:
        """As if the process had died."""
        for pipe in list(self.server.endpoint.pipes.values()):
            pipe.transport.abort()
        await self.server.close(0.0)

    def url(self, transport: str = "tcp", login: str = "") -> str:
        scheme = self.protocol if transport == "tcp" else f"{self.protocol}+{transport}"
        return f"{scheme}://{login}127.0.0.1:{self.ports[transport]}"


@asynccontextmanager
async def broker(*transports: str, authority: Authority | None = None, **options: Any) -> AsyncIterator[Live]:
    """An MB broker."""
    live = Live("mb", lambda: MbBroker(chance=random.Random(1), **options), authority)
    await live.start(*(transports or ("tcp",)))
    try:
        yield live
    finally:
        await live.kill()


@asynccontextmanager
async def ceda_server(
    *transports: str, authority: Authority | None = None, options: CedaServerOptions | None = None
) -> AsyncIterator[Live]:
    """A CEDA server; whoever says ``secret`` may log in."""

    def make() -> JudgingServer:
        return JudgingServer(options, authenticate=lambda who: who.password == "secret", chance=random.Random(1))

    live = Live("ceda", make, authority)
    await live.start(*(transports or ("tcp",)))
    try:
        yield live
    finally:
        await live.kill()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(Path(tmp_path_factory.mktemp("authority")))
