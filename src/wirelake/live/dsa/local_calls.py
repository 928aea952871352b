"""Invoke and set on nodes of the broker itself: pages are joined, then the node does what it has to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import DecodeError, LimitExceeded
from .streams import Joiner, Pool
from .wire import Received, read_value

if TYPE_CHECKING:
    from .peers import Peer

CLOSED, INVALID_PARAMETER = 0x20, 0x45
MOST_BYTES = 1 << 20
"""Of the parameters of an action, or of a value, that come in pages: nodes of ours take no large ones."""

Answer = Callable[..., None]
"""Ends the request: ``answer(status, body=b"", detail=None)``; may be called later."""
Run = Callable[[Any, Answer], None]


class LocalCall:
    """A stream of its requester while the request is not complete, or not answered. ``run`` is given the parameters of
    an action, or the value to set.
    """

    __slots__ = ("_is_over", "_is_running", "_joiner", "_method", "_peer", "_read", "_request_id", "_run")

    def __init__(self, peer: Peer, message: Received, read: Callable[[bytes], Any], run: Run) -> None:
        self._peer = peer
        self._request_id = message.request_id
        self._method = message.method
        self._joiner = Joiner(Pool(MOST_BYTES), MOST_BYTES)
        self._read = read
        self._run = run
        self._is_running = self._is_over = False

    def renew(self, message: Received) -> None:
        """The request, or a page of it. Actions of ours take no further input while they run."""
        if self._is_running or message.method != self._method:
            return
        try:
            joined = self._joiner.take(message)
            if joined is None:
                return
            content = self._read(joined.body)
        except LimitExceeded:
            self.answer(INVALID_PARAMETER, detail="too long")
            return
        except DecodeError as error:
            self.answer(INVALID_PARAMETER, detail=f"the body cannot be read: {error.rule}")
            return
        self._is_running = True
        self._run(content, self.answer)

    def answer(self, status: int = CLOSED, body: bytes = b"", detail: str | None = None) -> None:
        if not self._is_over:
            self.end()
            self._peer.reply(self._method + 0x80, self._request_id, status, body, detail)

    def end(self) -> None:
        """It is answered, or the requester has closed it; what was begun is not taken back."""
        self._is_over = True
        self._joiner.drop()
        self._peer.end_stream(self._request_id, is_subscribe=False)

    def lose(self, *, has_acks: bool) -> None:
        self.end()


def read_set(body: bytes) -> Any:
    """Return the value of a set request. DecodeError if it has none."""
    value, _ = read_value(body)
    return value
