"""Invoke, set and preflight, which a broker forwards one to one: with an id of its own, page by page, bodies unread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...protocols import dsa as p
from ...protocols.dsa import Headers
from .lanes import Lane
from .permissions import CONFIG, capped
from .wire import Outgoing, Received, is_closed, plain_status, status_head, write_headers

if TYPE_CHECKING:
    from .peers import Peer

CLOSED, DISCONNECTED, BUSY, INTERNAL_ERROR = 0x20, 0x2E, 0x48, 0x50


class Forward:
    """One request on its way: a stream of its requester, and a request of ours to the responder.

    ``path`` is that of the node in the tree of the responder, ``level`` what the requester may do there.
    """

    __slots__ = ("_lane", "_own_id", "_reply_lane", "_requester", "_responder", "level", "method", "path", "request_id")

    def __init__(
        self,
        requester: Peer,
        request_id: int,
        responder: Peer,
        method: int,
        path: str,
        level: int,
        *,
        is_priority: bool,
    ) -> None:
        self.method = method
        self.request_id = request_id
        self.path = path
        self.level = level
        self._requester = requester
        self._responder = responder
        self._lane = Lane(responder, is_priority=is_priority)
        self._reply_lane = Lane(requester, is_priority=is_priority)
        self._own_id = responder.open_request(self)

    @property
    def reply_method(self) -> int:
        return self.method + 0x80

    # --- from the requester

    def begin(self, message: Received, aliases: int) -> None:
        """Send the request. ``aliases`` is how many were followed up to here."""
        self._send(message, write_headers(self._headers(message.headers, aliases)))

    def renew(self, message: Received) -> None:
        """A further page, or input of a running action."""
        if message.method != self.method:
            return
        headers = message.headers
        if headers.page_id is not None and headers.page_id > 0:
            self._send(message, message.head)
        else:
            self._send(message, write_headers(self._headers(headers, headers.alias_count or 0)))

    def _send(self, message: Received, head: bytes) -> None:
        if self._responder.is_busy:
            self._abort()
            self._reply(status_head(BUSY), b"")
            self._close()
            return
        self._lane.put(Outgoing(message.method, self._own_id, head, message.body))

    def _headers(self, headers: Headers, aliases: int) -> Headers:
        cap = headers.max_permission
        if self.method == p.INVOKE and self.level < CONFIG:
            cap = capped(self.level, cap)
        return replace(headers, target_path=self.path, alias_count=aliases or None, max_permission=cap)

    def end(self) -> None:
        """The requester has closed it."""
        self._abort()
        self._close()

    def lose(self, *, has_acks: bool) -> None:
        """The connection of the requester is gone."""
        self.end()

    def _abort(self) -> None:
        """Stop the action. A set has no close: its reply will be ignored."""
        self._lane.clear()
        if self.method == p.INVOKE and self._responder.requests.get(self._own_id) is self:
            self._lane.put(Outgoing(p.CLOSE, self._own_id))

    # --- from the responder

    def receive(self, message: Received) -> bool:
        """Send a reply back; return whether it was the last."""
        headers = message.headers
        status = plain_status(headers.status or 0)
        is_last = is_closed(status)
        if not is_last and headers.error_detail is not None:
            status, is_last = INTERNAL_ERROR, True  # Java leaves it open, and never says more
        if not is_last and self.method != p.INVOKE:
            status, is_last = CLOSED, True
        keeps_details = self._requester.takes_details
        has_details = headers.error_detail is not None or headers.audit_log is not None
        if headers.status == status and (keeps_details or not has_details):
            head = message.head
        else:
            kept = headers if keeps_details else replace(headers, error_detail=None, audit_log=None)
            head = write_headers(replace(kept, status=status))
        page = headers.page_id or 0
        is_skippable = headers.skippable and not page and not is_last
        self._reply(head, message.body, is_skippable=is_skippable)
        if is_last:
            self._close()
        return is_last

    def receive_close(self, headers: Headers) -> None:
        """The responder closes what only a requester may close, as Java does in place of a reply."""
        status = headers.status or 0
        if not is_closed(status):
            status = CLOSED if headers.error_detail is None else INTERNAL_ERROR
        detail = headers.error_detail if self._requester.takes_details else None
        self._reply(write_headers(Headers(status=plain_status(status), error_detail=detail)), b"")
        self._close()

    def lost(self) -> None:
        """The responder is gone."""
        self._reply(status_head(DISCONNECTED), b"")
        self._close()

    def _reply(self, head: bytes, body: bytes, *, is_skippable: bool = False) -> None:
        self._reply_lane.put(Outgoing(self.reply_method, self.request_id, head, body), is_skippable=is_skippable)

    def _close(self) -> None:
        self._responder.requests.pop(self._own_id, None)
        self._requester.end_stream(self.request_id, is_subscribe=False)


class Check:
    """A preflight of ours: whether a request with a permission token may join a merged stream."""

    __slots__ = ("_then",)
    reply_method = p.PREFLIGHT_R

    def __init__(self, then: Callable[[int], None]) -> None:
        self._then = then

    def receive(self, message: Received) -> bool:
        status = plain_status(message.headers.status or 0)
        self._then(status if is_closed(status) else CLOSED)
        return True

    def receive_close(self, headers: Headers) -> None:
        self._then(headers.status or CLOSED)

    def lost(self) -> None:
        self._then(DISCONNECTED)
