"""A tiny protocol, to test what carries sessions without any real one: lines, and a few words at their beginning.

And what tests of live things need: ``run`` with a limit of time, ``until`` something is so, ``Peer``, ``deaf_socket``.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from wirelake.live.core.address import Address
from wirelake.live.core.link import Link
from wirelake.live.core.session import Session
from wirelake.live.core.timers import Timers
from wirelake.live.drive.server import Server

MAX_LINE = 1 << 20
SECONDS = 30.0


class Lines:
    name = "lines"

    def wrap(self, body: bytes) -> bytes:
        return body + b"\n"


LINES = Lines()


class ToyServer(Session):
    """``echo X`` comes back; ``all X`` goes to everybody, the sender included; ``say N`` gives N bytes; ``later S X``
    gives X after S seconds; ``work S`` takes S seconds; ``note X`` logs; ``close X``, ``cut X`` close; ``break`` is a
    mistake of ours.
    """

    def __init__(self, max_unsent: int = 8 << 20) -> None:
        super().__init__()
        self.max_unsent = max_unsent
        self.links: dict[int, Link] = {}
        self.calls = 0
        self._timers: Timers[tuple[int, bytes]] = Timers()

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def connected(self, link: Link, now: float) -> None:
        self.links[link.number] = link
        link.state = b""
        link.say(b"hello")

    def disconnected(self, link: Link, now: float) -> None:
        del self.links[link.number]

    def receive(self, link: Link, data: bytes, now: float) -> None:
        self.calls += 1
        *lines, link.state = (link.state + data).split(b"\n")
        for line in lines:
            self._line(link, line, now)
        if len(link.state) > MAX_LINE:
            link.close("the line is too long")

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        self.calls += 1
        for body in bodies:
            self._line(link, body, now)

    def tick(self, now: float) -> None:
        for number, text in self._timers.due(now):
            if number in self.links:
                self._say(self.links[number], text)

    def _say(self, link: Link, body: bytes) -> None:
        self._send(link, link.framing.wrap(body))

    def _send(self, link: Link, wire: bytes) -> None:
        link.send(wire)
        if link.unsent > self.max_unsent and link.closing is None:
            self.counts["too_slow"] += 1
            link.close("too slow", 1008, at_once=True)

    def _line(self, link: Link, line: bytes, now: float) -> None:
        self.counts["lines"] += 1
        word, _, rest = line.partition(b" ")
        match word:
            case b"echo":
                self._say(link, rest)
            case b"all":
                wires: dict[int, bytes] = {}
                for other in list(self.links.values()):
                    if id(other.framing) not in wires:
                        wires[id(other.framing)] = other.framing.wrap(rest)
                    self._send(other, wires[id(other.framing)])
            case b"say":
                self._say(link, b"x" * int(rest))
            case b"later":
                seconds, _, text = rest.partition(b" ")
                self._timers.set((link.number, text), now + float(seconds))
            case b"work":
                end = time.perf_counter() + float(rest)
                while time.perf_counter() < end:
                    pass
            case b"note":
                self.note("warn", rest.decode(), peer=link.peer)
            case b"close":
                link.close(rest.decode(), 4000)
            case b"cut":
                link.close(rest.decode(), at_once=True)
            case b"break":
                raise ZeroDivisionError("on purpose")
            case _:
                self.counts["unknown"] += 1


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs it to its end, but not for ever; whatever peers it made are closed."""

    async def limited() -> None:
        try:
            async with asyncio.timeout(SECONDS):
                await main()
        finally:
            Peer.leave_all()
            await asyncio.sleep(0)

    asyncio.run(limited())


class Peer:
    """A client of the toy protocol."""

    here: list[Peer] = []  # noqa: RUF012

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.here.append(self)

    @classmethod
    async def to(cls, address: Address, **more: Any) -> Peer:
        peer = cls(*await asyncio.open_connection(*address, limit=1 << 24, **more))
        assert await peer.line() == b"hello"
        return peer

    async def line(self) -> bytes:
        return (await self.reader.readuntil(b"\n"))[:-1]

    def say(self, *lines: bytes) -> None:
        self.writer.write(b"".join(line + b"\n" for line in lines))

    def leave(self) -> None:
        self.writer.close()

    @classmethod
    def leave_all(cls) -> None:
        for peer in cls.here:
            peer.leave()
        cls.here.clear()


@asynccontextmanager
async def serving(session: ToyServer, **more: Any) -> AsyncIterator[tuple[Server, Address]]:
    """The toy protocol on a free port."""
    server = Server("toy", session, LINES, **more)
    address = await server.listen(("127.0.0.1", 0))
    try:
        yield server, address
    finally:
        Peer.leave_all()
        await server.close(1.0)


def deaf_socket(address: Address) -> socket.socket:
    """A connection that takes little, and whose application reads nothing."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(address)
    return one
