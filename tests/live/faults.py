"""A network that is not perfect: a proxy that splits, joins, delays and cuts what passes, as a seed says.

``async with FaultyNetwork(target, seed=7, longest=3) as network`` listens on ``network.address`` and passes everything
on to ``target``; bytes and their order are never changed.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

Address = tuple[str, int]


class FaultyNetwork:
    """``longest``: no piece that is passed on is longer (0: as it comes). ``most_delay``: pieces wait up to so many
    seconds. ``cut_after``: each connection is cut, both ways at once, when so many bytes have passed (0: never).
    ``stalls``: while set, nothing is passed on to the client, as if it did not read.
    """

    def __init__(
        self, target: Address, *, seed: int = 0, longest: int = 0, most_delay: float = 0.0, cut_after: int = 0
    ) -> None:
        self.target = target
        self.address: Address = ("", 0)
        self.longest = longest
        self.most_delay = most_delay
        self.cut_after = cut_after
        self.passed = 0
        self.cuts = 0
        self._chance = random.Random(seed)
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> FaultyNetwork:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.address = self._server.sockets[0].getsockname()[:2]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        self._flowing.set()
        await self._server.wait_closed()

    def stall(self) -> None:
        """From now on nothing gets through to clients."""
        self._flowing.clear()

    def flow(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        """Cuts all connections that there are."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, there_writer}
        self._open |= ends
        left = [self.cut_after or -1]
        try:
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(
                    self._pass(reader, there_writer, left, None),
                    self._pass(there_reader, writer, left, self._flowing),
                )
        finally:
            self._open -= ends
            for end in ends:
                end.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        left: list[int],
        flowing: asyncio.Event | None,
    ) -> None:
        while data := await reader.read(1 << 16):
            while data:
                if flowing is not None:
                    await flowing.wait()
                size = self._chance.randint(1, min(self.longest, len(data))) if self.longest else len(data)
                if self.most_delay:
                    await asyncio.sleep(self._chance.random() * self.most_delay)
                if 0 <= left[0] <= size:
                    self.cuts += 1
                    raise ConnectionError("cut")
                left[0] -= size if left[0] > 0 else 0
                writer.write(data[:size])
                await writer.drain()
                self.passed += size
                data = data[size:]
        writer.write_eof()
