"""A few pages over HTTP, for those who watch: one request a connection, small limits, nothing else."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from ...web.http import MAX_HEAD, Refused, Request, Response, check_host, read_head, write_response
from ..core.address import Address
from .listeners import address_of, listen, stop_listening

MAX_CONNECTIONS = 64
REQUEST_SECONDS = 5.0
RESPONSE_SECONDS = 10.0
END = b"\r\n\r\n"
Page = Callable[[], Response]


class Pages:
    """``pages`` by path. ``hosts``: further names of this machine that requests may use."""

    def __init__(self, pages: Mapping[str, Page], hosts: Iterable[str] = ()) -> None:
        self.pages = pages
        self._open: dict[asyncio.StreamWriter, None] = {}
        """The oldest first."""
        self._hosts = {socket.gethostname(), *hosts}
        self._listeners: list[asyncio.Server] = []

    async def listen(self, address: Address) -> Address:
        self._hosts.add(address[0])
        self._listeners = await listen(
            address, lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=MAX_HEAD), self._serve)
        )
        return address_of(self._listeners[0])

    async def close(self) -> None:
        await stop_listening(self._listeners)
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Reply to one request, then give the client time to read. When too many take theirs, the oldest gives way."""
        if len(self._open) >= MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        self._open[writer] = None
        try:
            try:
                async with asyncio.timeout(REQUEST_SECONDS):
                    head = (await reader.readuntil(END))[: -len(END)]
            except asyncio.LimitOverrunError:
                head = bytes(MAX_HEAD + 1)  # more than ``respond`` takes
            writer.write(self.respond(head))
            writer.write_eof()
            async with asyncio.timeout(RESPONSE_SECONDS):
                while await reader.read(MAX_HEAD):
                    pass
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()

    def respond(self, head: bytes) -> bytes:
        request: Request | None = None
        try:
            if len(head) > MAX_HEAD:
                raise Refused(431, "the request is too long")
            request = read_head(head)
            check_host(request, self._hosts)
            page = self.pages.get(request.path)
            if page is None:
                raise Refused(404, f"there are {', '.join(sorted(self.pages))}")
            response = page()
        except Refused as refused:
            response = refused.response
        return write_response(response, request, True)


@contextmanager
def pages_beside(pages: Mapping[str, Page], address: Address, hosts: Iterable[str] = ()) -> Iterator[Address]:
    """Serve pages from a thread, for somebody who has no event loop; yield where."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="pages", daemon=True)
    thread.start()
    served = Pages(pages, hosts)
    try:
        yield asyncio.run_coroutine_threadsafe(served.listen(address), loop).result()
    finally:
        asyncio.run_coroutine_threadsafe(_end(served), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(served: Pages) -> None:
    """Close, and wait for those who are being served, also for those who were accepted only now."""
    await served.close()
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await served.close()
        await asyncio.wait(others, timeout=0.1)
