"""Request ids, and messages that are longer than a frame: cut into pages when they are sent, joined when they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator

from msgspec.structs import replace

from ...errors import LimitExceeded
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from .wire import Outgoing, Received, is_closed, write_headers

MOST_JOINED = 16 << 20
"""Bytes of one message that comes in pages."""
MOST_OPEN = 64 << 20
"""Bytes of all unfinished messages of one connection."""
PAGE_COST = 64
"""What a page costs besides its bytes: there may be many that have none."""


class RequestIds:
    """Numbers of our requests on one connection."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def take(self, used: Container[int]) -> int:
        """Return the next id that is not in use."""
        following = self._last
        while True:
            following = following % p.MAX_REQUEST_ID + 1
            if following not in used:
                self._last = following
                return following


def cut_pages(method: int, request_id: int, headers: Headers, body: bytes, sequence: int) -> Iterator[Outgoing]:
    """The messages that carry a body of more than one page. The last one has the status."""
    count = -(-len(body) // p.MAX_BODY)
    is_reply, last = method >= p.SUB_R, count - 1
    sequence_id = sequence if method != p.SET else None
    status = headers.status
    first = replace(headers, page_id=-count, sequence_id=sequence_id, order=())
    yield Outgoing(
        method, request_id, write_headers(replace(first, status=0) if is_reply else first), body[: p.MAX_BODY]
    )
    for page in range(1, count):
        more = Headers(page_id=page, sequence_id=sequence_id)
        if is_reply:
            more = replace(more, status=status if page == last else 0)
        yield Outgoing(method, request_id, write_headers(more), body[page * p.MAX_BODY : (page + 1) * p.MAX_BODY])


class MessageQueue:
    """A source of messages in order, cut into pages where they are long. One stream, one direction."""

    __slots__ = ("_messages", "_pages", "_sequence", "is_priority", "unsent")

    def __init__(self, *, is_priority: bool = False) -> None:
        self.is_priority = is_priority
        self.unsent = 0
        """Bytes of the bodies that wait."""
        self._messages: deque[tuple[int, int, Headers, bytes]] = deque()
        self._pages: Iterator[Outgoing] | None = None
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, method: int, request_id: int, headers: Headers, body: bytes = b"") -> None:
        self._messages.append((method, request_id, headers, body))
        self.unsent += len(body)

    def clear(self) -> None:
        """Forget what waits, also the rest of a message that is partly sent."""
        self._messages.clear()
        self._pages = None
        self.unsent = 0

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        if self._pages is not None:
            page = next(self._pages, None)
            if page is not None:
                self.unsent -= len(page.body)
                return page
            self._pages = None
        if not self._messages:
            return None
        method, request_id, headers, body = self._messages.popleft()
        if len(body) > p.MAX_BODY:
            self._sequence += 1
            self._pages = cut_pages(method, request_id, headers, body, self._sequence)
            return self.take(ack_id, now)
        self.unsent -= len(body)
        return Outgoing(method, request_id, write_headers(headers), body)

    def acked(self, ack_id: int) -> None:
        pass


class Pool:
    """What the unfinished messages of one connection hold together."""

    __slots__ = ("held", "most")

    def __init__(self, most: int = MOST_OPEN) -> None:
        self.most = most
        self.held = 0


class Joiner:
    """Joins the pages of one stream, in one direction. At most one group is open."""

    __slots__ = ("_count", "_first", "_following", "_most", "_parts", "_pool", "_size")

    def __init__(self, pool: Pool, most: int = MOST_JOINED) -> None:
        self._pool = pool
        self._most = most
        self._first: Received | None = None
        self._parts: list[bytes] = []
        self._size = self._count = self._following = 0

    @property
    def is_open(self) -> bool:
        """Whether a group is unfinished."""
        return self._first is not None

    def take(self, message: Received) -> Received | None:
        """Return the message that is whole now, None if none is. LimitExceeded if it gets too long."""
        page = message.headers.page_id
        if not page:
            if self._first is not None:
                self.drop()
            return message
        if page < 0:
            self.drop()
            self._first, self._count, self._following = message, -page, 1
        elif not self._fits(message, page):
            self.drop()
            return None
        else:
            self._following += 1
        if is_closed(message.status) and self._following < self._count:
            self.drop()
            status = Headers(status=message.headers.status)
            return Received(message.method, message.request_id, message.ack_id, status, b"", b"")
        self._add(message.body)
        return self._joined(message) if self._following == self._count else None

    def _fits(self, message: Received, page: int) -> bool:
        first = self._first
        return (
            first is not None
            and page == self._following
            and (message.headers.sequence_id or 0) == (first.headers.sequence_id or 0)
        )

    def _add(self, body: bytes) -> None:
        size = len(body) + PAGE_COST
        self._parts.append(body)
        self._size += size
        self._pool.held += size
        for held, most in ((self._size, self._most), (self._pool.held, self._pool.most)):
            if held > most:
                self.drop()
                raise LimitExceeded(
                    f"pages of {held} bytes, at most {most}", rule="payload_too_large", limit=most, actual=held
                )

    def _joined(self, last: Received) -> Received:
        first = self._first
        assert first is not None
        headers = replace(first.headers, page_id=None, sequence_id=None, status=last.headers.status)
        joined = Received(first.method, first.request_id, last.ack_id, headers, first.head, b"".join(self._parts))
        self.drop()
        return joined

    def drop(self) -> None:
        """Forget an unfinished group."""
        self._pool.held -= self._size
        self._parts = []
        self._first = None
        self._size = self._count = self._following = 0
