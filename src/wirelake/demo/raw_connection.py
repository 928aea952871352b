"""A plain socket to a server, for clients that break the rules: it sends what no client of ours would send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from .stage import Stage

READ_SECONDS = 2.0


class RawConnection:
    """A connection on which any bytes can be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        """Send bytes; the peer may have closed already."""
        with suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def receive(self) -> bytes:
        """Return what comes next; nothing if nothing comes in time, or the peer has closed."""
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(READ_SECONDS):
                return await self._reader.read(1 << 16)
        return b""

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


@asynccontextmanager
async def raw_connection(stage: Stage) -> AsyncIterator[RawConnection]:
    connection = RawConnection(*await asyncio.open_connection(*stage.address))
    try:
        yield connection
    finally:
        await connection.close()
