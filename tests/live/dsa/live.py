"""A DSA broker on real sockets, for tests of links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.live.certificates import Authority
from tests.live.live import Live
from wirelake.live.drive.server import Certificate, Server
from wirelake.live.dsa.service import DsaSettings, RoleSettings
from wirelake.live.dsa.wire import DSA_TCP

OPEN = {"default": RoleSettings(level="config")}


class Broker(Live):
    """A broker that can be killed and started again; ``settings`` are those of the hub."""

    def __init__(self, settings: DsaSettings, authority: Authority | None = None) -> None:
        super().__init__("dsa", lambda: settings.serve(None).session, authority)  # type: ignore[arg-type]

    async def start(self, *transports: str) -> None:
        certificate = Certificate(*self.authority.issue("localhost")) if self.authority is not None else None
        self._server = Server("dsa", self._make(), DSA_TCP, is_text=False)
        for transport in transports or tuple(self.ports):
            _, port = await self._server.listen(
                ("127.0.0.1", self.ports.get(transport, 0)),
                websocket=transport in ("ws", "wss"),
                certificate=certificate if transport in ("tls", "wss") else None,
            )
            self.ports[transport] = port


@asynccontextmanager
async def dsa_broker(*transports: str, authority: Authority | None = None, **settings: Any) -> AsyncIterator[Broker]:
    """A broker that admits everybody at level config, unless ``settings`` say otherwise."""
    live = Broker(DsaSettings(**{"allow_all": True, "roles": OPEN, **settings}), authority)
    await live.start(*(transports or ("tcp",)))
    try:
        yield live
    finally:
        await live.kill()
