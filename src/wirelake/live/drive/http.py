"""A few pages over HTTP, for those who watch: one request a connection, small limits, nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...web.access import check_host
from ...web.http import MAX_HEAD, Refused, Request, Response, read_head, write_response
from ..core.address import Address
from .listeners import address_of, listen

MAX_CONNECTIONS = 64
REQUEST_SECONDS = 5.0
RESPONSE_SECONDS = 10.0
Page = Callable[[], Response]


class Pages:
    """``pages`` by path. ``hosts``: further names of this machine that requests may use."""

    def __init__(self, pages: Mapping[str, Page], hosts: Iterable[str] = ()) -> None:
        self.pages = pages
        self.open: set[_Connection] = set()
        self._hosts = {socket.gethostname(), *hosts}
        self._listeners: list[asyncio.Server] = []

    async def listen(self, address: Address) -> Address:
        self._hosts.add(address[0])
        self._listeners = await listen(address, lambda: _Connection(self))
        return address_of(self._listeners[0])

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for connection in list(self.open):
            connection.transport.abort()

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


class _Connection(asyncio.Protocol):
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._data = bytearray()
        self._has_responded = False
        self._timer: asyncio.TimerHandle | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if len(self._pages.open) >= MAX_CONNECTIONS:
            self.transport.abort()
            return
        self._pages.open.add(self)
        self._abort_after(REQUEST_SECONDS)

    def _abort_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._has_responded:
            return
        self._data += data
        head, end, _ = self._data.partition(b"\r\n\r\n")
        if end or len(self._data) > MAX_HEAD:
            self._has_responded = True
            self.transport.write(self._pages.respond(bytes(head)))
            self.transport.write_eof()
            self._abort_after(RESPONSE_SECONDS)

    def connection_lost(self, error: Exception | None) -> None:
        self._pages.open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
