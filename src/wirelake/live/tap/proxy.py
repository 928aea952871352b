"""A transparent TCP proxy: every byte that comes is recorded and passed on as it is; nothing is looked into.

Who reads slowly is written to slowly: while the one side does not take bytes, the other is not read from. The end of a
direction and the reset of a connection are passed on as such. TLS goes through as the bytes that it is.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ..core.address import Address, show_address
from ..core.log import log
from ..drive.endpoint import TO_CLIENT, TO_SERVER
from ..drive.listeners import address_of, listen, stop_listening
from ..drive.pipe import HIGH_WATER, NO_LINGER
from .recorder import Recorder

POLL_SECONDS = 0.01
QUIET_SECONDS = 0.2
"""Nothing has passed for so long: nobody is in the middle of a sentence."""
RESET_SECONDS = 5.0
"""How long a peer may take to read what came before a reset."""


@dataclass(eq=False)
class Proxy:
    """Listen, and forward every connection to ``upstream``. Port 0 picks a free port, which ``listening`` has.

    ``protocol`` is only stored in the capture. Connections beyond ``max_connections`` are closed at once, those that
    cannot be forwarded within ``connect_seconds`` after that. The owner of the recorder starts and ends it.
    """

    listen: Address
    upstream: Address
    recorder: Recorder
    _: KW_ONLY
    protocol: str | None = None
    max_connections: int = 10_000
    connect_seconds: float = 10.0

    def __post_init__(self) -> None:
        self.listening: list[Address] = []
        self.is_stopping = False
        self.counts: Counter[str] = Counter()
        """connections; refused: one too many; unreachable: the upstream was; resets."""
        self.passed = [0, 0]
        """Bytes to the server, and to the client."""
        self._pairs: set[_Pair] = set()
        self._servers: list[asyncio.Server] = []

    @property
    def connections(self) -> int:
        return len(self._pairs)

    async def start(self) -> None:
        """Listens from now on; raises OSError if that is not possible."""
        self._servers = await listen(self.listen, lambda: _Pair(self).client)
        self.listening = [address_of(server) for server in self._servers]

    async def stop(self, drain_seconds: float = 5.0) -> None:
        """Accept nobody any more, and close every connection: soon where nothing comes, or when the time is over."""
        self.is_stopping = True
        await stop_listening(self._servers)
        deadline = asyncio.get_running_loop().time() + drain_seconds
        await self._become_quiet(deadline)
        for side in self._sides():
            side.transport.close()
        await self._until_gone(deadline)
        for side in self._sides():
            side.reset()
        await self._until_gone(deadline + RESET_SECONDS)

    async def __aenter__(self) -> Proxy:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _sides(self) -> list[_Side]:
        """What is connected of every pair."""
        return [side for pair in self._pairs for side in (pair.client, pair.server) if side.transport is not None]

    async def _become_quiet(self, deadline: float) -> None:
        time = asyncio.get_running_loop().time
        before, since = sum(self.passed), time()
        while self._pairs and time() < min(deadline, since + QUIET_SECONDS):
            await asyncio.sleep(POLL_SECONDS)
            now = sum(self.passed)
            if now != before or any(side.unsent for side in self._sides()):
                before, since = now, time()

    async def _until_gone(self, deadline: float) -> None:
        while self._pairs and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(POLL_SECONDS)


class _Pair:
    """A connection from a client, and the one that it is passed on to."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.client = _Side(self, TO_SERVER)
        self.server = _Side(self, TO_CLIENT)
        self.client.other, self.server.other = self.server, self.client
        self.number = -1
        """That of the recording, once there is one."""
        self._connecting: asyncio.Task[None] | None = None
        self._was_reset = False

    def accepted(self) -> None:
        """A client is there. Nothing is read from it before it has a server."""
        proxy = self.proxy
        if proxy.is_stopping or len(proxy._pairs) >= proxy.max_connections:
            proxy.counts["refused"] += 1
            log.warning("one connection too many", client=self.client.name)
            self.client.transport.abort()
            return
        proxy._pairs.add(self)
        self.client.transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        proxy = self.proxy
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(proxy.connect_seconds):
                await loop.create_connection(lambda: self.server, *proxy.upstream)
        except (OSError, TimeoutError) as error:
            proxy.counts["unreachable"] += 1
            reason = str(error) or f"no answer in {proxy.connect_seconds:g} s"
            upstream = show_address(proxy.upstream)
            log.warning("the upstream cannot be reached", upstream=upstream, client=self.client.name, reason=reason)
            self.client.transport.close()

    def reached(self) -> None:
        """The server is there, too."""
        if self.client.transport.is_closing():
            self.server.transport.abort()
            return
        proxy = self.proxy
        proxy.counts["connections"] += 1
        self.number = proxy.recorder.opened(self.client.address, self.server.address, proxy.protocol)
        log.debug("connected", client=self.client.name, server=self.server.name)
        self.client.transport.resume_reading()

    def lost(self, side: _Side, error: Exception | None) -> None:
        other = side.other
        self._was_reset = self._was_reset or error is not None
        if self._connecting is not None:
            self._connecting.cancel()
        if other.transport is None or other.is_lost:
            self._over()
        elif error is not None:
            self._reset(other, asyncio.get_running_loop().time() + RESET_SECONDS)
        else:
            other.transport.close()

    def _reset(self, side: _Side, deadline: float) -> None:
        """Passes a reset on, behind the bytes that came before it."""
        loop = asyncio.get_running_loop()
        if side.is_lost:
            return
        if not side.transport.is_closing():
            side.transport.pause_reading()
        on_its_way = side.unsent or _unacknowledged(side.transport.get_extra_info("socket"))
        if on_its_way and loop.time() < deadline:
            loop.call_later(POLL_SECONDS, self._reset, side, deadline)
        else:
            side.reset()

    def _over(self) -> None:
        self.proxy._pairs.discard(self)
        if self.number >= 0:
            how = "reset" if self._was_reset else "closed"
            self.proxy.counts["resets"] += self._was_reset
            self.proxy.recorder.closed(self.number, how)
            log.debug("disconnected", client=self.client.name, how=how)


class _Side(asyncio.Protocol):
    """One of the two connections of a pair. What it receives goes to the other."""

    other: _Side

    def __init__(self, pair: _Pair, direction: int) -> None:
        self.pair = pair
        self.direction = direction
        self.transport: Any = None
        self.is_ended = self.is_lost = False
        """Whether its peer sends nothing more; whether it is gone."""
        self.address: Address = ("", 0)
        self._record = pair.proxy.recorder.data
        self._passed = pair.proxy.passed

    @property
    def name(self) -> str:
        return show_address(self.address)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(HIGH_WATER)
        place = transport.get_extra_info("peername") or ("", 0)
        self.address = (str(place[0]), int(place[1]))
        with suppress(OSError):  # peers that have vanished are found out some day
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self is self.pair.client:
            self.pair.accepted()
        else:
            self.pair.reached()

    def data_received(self, data: bytes) -> None:
        target = self.other.transport
        if not target.is_closing():
            # In this order: what somebody has received is in the capture.
            self._record(self.pair.number, self.direction, data)
            target.write(data)
            self._passed[self.direction] += len(data)

    def eof_received(self) -> bool:
        self.is_ended = True
        with suppress(OSError):  # it may be gone already, and will say so
            self.other.transport.write_eof()
        if self.other.is_ended:
            self.transport.close()
            self.other.transport.close()
        return True

    def pause_writing(self) -> None:
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.other.is_lost and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.pair.lost(self, error)

    @property
    def unsent(self) -> int:
        """Bytes for it that the operating system has not taken yet."""
        return 0 if self.is_lost else int(self.transport.get_write_buffer_size())

    def reset(self) -> None:
        """Lets its peer see a reset."""
        with suppress(OSError):
            found = self.transport.get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()


def _unacknowledged(connection: Any) -> int:
    """Bytes that the operating system holds for a peer."""
    with suppress(OSError, ImportError):
        import fcntl
        import termios

        (count,) = struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))
        return int(count)
    return 0
