"""A few pages over HTTP, for who watches: GET and HEAD, one request a connection, small limits, nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ..core.address import Address
from .listeners import address_of, listen

MAX_REQUEST = 8 << 10
MAX_CONNECTIONS = 64
REQUEST_SECONDS = 5.0
ANSWER_SECONDS = 10.0
Page = Callable[[], tuple[int, str, str]]
"""Status, type of the content, content."""
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
_TEXT = "text/plain; charset=utf-8"


class Pages:
    """``pages`` by path."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = pages
        self.open: set[_Request] = set()
        self._listeners: list[asyncio.Server] = []

    async def listen(self, address: Address) -> Address:
        self._listeners = await listen(address, lambda: _Request(self))
        return address_of(self._listeners[0])

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for request in list(self.open):
            request.transport.abort()

    def answer(self, request: bytes) -> tuple[int, str, str, bool]:
        """The last one says whether the content is only measured."""
        first = request.split(b"\r\n", 1)[0].split(b" ")
        if len(first) != 3 or not first[2].startswith(b"HTTP/1."):
            return 400, _TEXT, "this is HTTP/1.1\n", False
        method, path = first[0], first[1].partition(b"?")[0].decode("latin-1")
        if method not in (b"GET", b"HEAD"):
            return 405, _TEXT, "only GET and HEAD\n", False
        page = self.pages.get(path)
        if page is None:
            return 404, _TEXT, f"there are {', '.join(sorted(self.pages))}\n", method == b"HEAD"
        return (*page(), method == b"HEAD")


class _Request(asyncio.Protocol):
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._data = bytearray()
        self._is_answered = False
        self._timer: asyncio.TimerHandle | None = None
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        if len(self._pages.open) >= MAX_CONNECTIONS:
            self.transport.abort()
            return
        self._pages.open.add(self)
        self._timer = asyncio.get_running_loop().call_later(REQUEST_SECONDS, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._is_answered:
            return
        self._data += data
        if b"\r\n\r\n" in self._data:
            self._answer(*self._pages.answer(bytes(self._data)))
        elif len(self._data) > MAX_REQUEST:
            self._answer(400, _TEXT, "the request is too long\n", False)

    def _answer(self, status: int, kind: str, content: str, is_head: bool) -> None:
        self._is_answered = True
        body = content.encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + (b"" if is_head else body))
        self.transport.write_eof()
        assert self._timer is not None
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(ANSWER_SECONDS, self.transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._pages.open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
