"""Clients of casual domains.

>>> import wirelake
>>> async def main():
...     async with wirelake.connect("casual://127.0.0.1:7771") as domain:
...         print((await domain.call("order.create", {"number": 17})).value)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..core.errors import AnswerError, ConnectionFailed, ConnectionLost, LiveError
from ..core.link import Link
from ..core.session import CLIENT
from ..drive.client import Opening
from ..drive.connection import Reconnect, unpredictable
from ..drive.endpoint import Endpoint
from ..drive.pipe import Pipe
from ..drive.urls import Target, parse_url
from ..drive.writer import Writer
from . import events
from .application.application import Application, Message, Transaction
from .application.domain import Domain
from .application.talk import ConversationEnd, Talk
from .errors import InDoubt, NotEnqueued, RolledBack, ServiceFailed
from .handlers import Reply
from .options import DomainOptions, PeerSettings
from .session import CasualSession
from .stores import MEMORY, open_store
from .wire import CASUAL_TCP, DOCUMENT

CLOSE_SECONDS = 2.0
POLL_SECONDS = 0.01


class CasualClient(Application):
    """A domain without services, which dials others. ``wirelake.connect("casual://…")`` returns one.

    Requests go to the domain of the URL unless ``peer`` names another one of ``peers``.
    """

    def __init__(
        self, targets: list[Target], options: DomainOptions, storage: str, timeout: float, reconnects: bool
    ) -> None:
        super().__init__()
        self.target = targets[0]
        self.timeout = timeout
        self._targets, self._options, self._storage = targets, options, storage
        self._reconnects = reconnects
        self._writer: Writer | None = None
        self._ready: dict[str, asyncio.Event] = {target.place: asyncio.Event() for target in targets}
        self._error: LiveError | None = None
        self._reason = "nothing was said"
        self._over = asyncio.Event()
        self._default_peer = targets[0].place
        self._has_opened = self._is_closing = False

    def __repr__(self) -> str:
        state = "closed" if self._error else "connected" if self.is_connected else "not connected"
        return f"<CasualClient {self.target} {state}>"

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the domain of the URL right now."""
        return self._error is None and self._ready[self.target.place].is_set()

    async def __aenter__(self) -> CasualClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect to all domains; ConnectionFailed if one of them is not there in time."""
        store = await asyncio.to_thread(open_store, self._storage)
        inside = [target for target in self._targets if target.enter is not None]
        peers = [PeerSettings((target.host, target.port)) for target in self._targets if target.enter is None]
        chance = unpredictable()
        session = CasualSession(self._options, peers=peers, is_shared=store.is_shared, chance=chance)
        endpoint = Endpoint(session, CASUAL_TCP, protocol=self.target.protocol)
        endpoint.effects.writer = self._writer = Writer(store)
        self.attach(endpoint)
        try:
            async with asyncio.timeout(self.timeout):
                for target in inside:
                    await self._enter(endpoint, session, target)
                for ready in self._ready.values():
                    await self._until(ready)
        except TimeoutError:
            self._error = ConnectionFailed(f"{self.target}: no connection within {self.timeout:g} s: {self._reason}")
        except BaseException:
            await self.close()
            raise
        if self._error is not None:
            error = self._error
            await self.close()
            raise error
        self._has_opened = True

    async def _enter(self, endpoint: Endpoint, session: CasualSession, target: Target) -> None:
        """Connect to a hub of this process."""

        def known(link: Link) -> None:
            peer = session.peers.add(target.place)
            peer.link = link
            session.peers.greet(link, self._loop.time(), peer)

        assert target.enter is not None
        await target.enter(lambda: Pipe(endpoint, CLIENT, on_known=known))

    async def _until(self, ready: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (ready, self._over)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _peer_changed(self, event: events.PeerReady | events.PeerLost) -> None:
        ready = self._ready.get(event.peer)
        match event:
            case events.PeerReady() if ready is not None:
                ready.set()
            case events.PeerLost(reason=reason, is_refused=is_refused) if ready is not None:
                self._reason = reason
                was_ready = ready.is_set()
                ready.clear()
                if is_refused or not self._reconnects or not was_ready:
                    self._end_early(event, was_ready)

    def _end_early(self, event: events.PeerLost, was_ready: bool) -> None:
        """The first attempt failed, or it was the only one."""
        if self._error is None and (event.is_refused or not self._reconnects or not self._has_opened):
            kind = ConnectionLost if was_ready else ConnectionFailed
            self._error = kind(f"{self.target}: {event.reason}")
            self._over.set()
            self._fail_all(self._error)

    async def _usable(self) -> None:
        """Wait while the connection is away, up to the timeout."""
        ready = self._ready[self.target.place]
        if self._error is not None:
            raise self._error
        if not ready.is_set():
            try:
                async with asyncio.timeout(self.timeout):
                    await self._until(ready)
            except TimeoutError:
                raise ConnectionLost(f"no connection to {self.target} for {self.timeout:g} s") from None

    async def _ask(self, command: Any) -> Any:
        await self._usable()
        return await super()._ask(command)

    async def wait_closed(self) -> None:
        """Wait until it is closed, or lost for good: then ConnectionLost is raised."""
        await self._over.wait()
        if self._error is not None and not self._is_closing:
            raise self._error

    async def _all_told(self) -> None:
        """Wait a little for peers that have not replied to the outcome of a transaction."""
        until = self._loop.time() + CLOSE_SECONDS
        while self._session.coordinator.untold and self._loop.time() < until:
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """Close the connections. Open requests fail with ConnectionLost."""
        if self._is_closing or self._endpoint is None:
            return
        self._is_closing = True
        await self._all_told()
        await self._endpoint.close(CLOSE_SECONDS)
        self._error = self._error or ConnectionLost("the client is closed")
        self._fail_all(self._error)
        self._over.set()
        if self._writer is not None:
            await self._writer.close()


def connect(
    url: str | Target,
    *,
    name: str = "wirelake",
    peers: Iterable[str] = (),
    storage: str | Path | None = None,
    profile: str = DOCUMENT,
    ca: str | Path | None = None,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    verify: bool = True,
    timeout: float = 10.0,
    reconnect: bool | Reconnect = True,
) -> Opening[CasualClient]:
    """Connect to the domain at ``casual://host:port``, as a domain called ``name``.

    ``peers`` are URLs of further domains, so that a transaction can span them; the decisions of such transactions are
    kept in ``storage``, a path or a URL of PostgreSQL: without it they live as long as the client. ``profile``: late
    for C++ since 2018 and Java. ``timeout``: seconds to connect, and to wait for a lost connection to come back.
    """
    if any(file is not None for file in (ca, cert, key)):
        raise ValueError("casual has no TLS: ca, cert and key do not apply")
    targets = [url if isinstance(url, Target) else parse_url(url, None if "://" in url else "casual")]
    targets += [parse_url(peer, None if "://" in peer else "casual") for peer in peers]
    usual = Reconnect(0.1, 30.0)
    policy = reconnect if isinstance(reconnect, Reconnect) else usual
    options = DomainOptions(
        name=name, profile=profile, retry_seconds=policy.seconds, most_retry_seconds=policy.most_seconds
    )
    where = MEMORY if storage is None else str(storage)
    return Opening(lambda: CasualClient(targets, options, where, timeout, bool(reconnect)))


__all__ = [
    "AnswerError",
    "CasualClient",
    "ConversationEnd",
    "Domain",
    "InDoubt",
    "Message",
    "NotEnqueued",
    "Reply",
    "RolledBack",
    "ServiceFailed",
    "Talk",
    "Transaction",
    "connect",
]
