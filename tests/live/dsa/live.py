"""A DSA broker on real sockets, for tests of links."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.live.certificates import Authority
from tests.live.live import Live
from wirelake.live import dsa
from wirelake.live.drive.server import Certificate, Server
from wirelake.live.dsa import Call, DsaClient, Nodes
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


@asynccontextmanager
async def boiler_and_broker() -> AsyncIterator[tuple[Broker, DsaClient]]:
    """A broker with a link that has a value and an action."""
    nodes = Nodes()
    nodes.add("main/temp", value=21.5, writable="write", unit="C")

    @nodes.action("main/add", params={"x": "number", "y": "number"})
    def add(call: Call) -> Any:
        return call["x"] + call["y"]

    async with dsa_broker() as live, dsa.connect(live.url(), name="boiler", nodes=nodes) as link:
        yield live, link
