"""Lists, merged: one at the node that is listed, with a copy of its entries, and any number of listers.

A lister keeps only the keys that it has not sent yet, and looks their values up when it has its turn: an entry that
changes twice meanwhile is sent once, and a list of any length never lies in memory twice.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from ...errors import DecodeError
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from .paths import join_path
from .permissions import CONFIG
from .wire import REMOVED, Outgoing, Received, is_closed, plain_status, split_pairs, write_headers, write_pair

if TYPE_CHECKING:
    from .desk import Desk
    from .peers import Peer

OK, INITIALIZING, NOT_AVAILABLE, CLOSED, INTERNAL_ERROR = 0x00, 0x01, 0x0E, 0x20, 0x50
MOST_SHARED = 4096
"""Values of entries of which equal ones are kept once."""


class ListSource(Protocol):
    """Whose nodes are listed: a link's, or ours. ``path`` is where its tree hangs in that of the broker."""

    desk: Desk
    path: str

    def ask_list(self, listing: Listing) -> None: ...

    def end_list(self, listing: Listing) -> None:
        """Nobody wants this list any more."""
        ...


class Listing:
    """The entries of one node. ``fixed`` are those that the broker itself adds; the node cannot change them."""

    reply_method = p.LIST_R
    __slots__ = (
        "_is_fresh", "_shared", "desk", "entries", "fixed", "is_offline", "listers", "path", "pub_path", "request_id",
        "source", "status",
    )  # fmt: skip

    def __init__(
        self, source: ListSource, path: str, fixed: dict[bytes, bytes] | None = None, *, is_offline: bool = False
    ) -> None:
        self.source = source
        self.desk = source.desk
        self.path = path
        self.fixed = fixed or {}
        self.request_id = 0
        self.entries: dict[bytes, bytes] = dict(self.fixed)
        self.pub_path: str | None = None
        self.listers: dict[Lister, None] = {}
        self.is_offline = is_offline
        self.status = INITIALIZING
        """What those who have sent everything tell: initializing until the source is complete."""
        self._is_fresh = True
        """Whether the next message of the source is its first."""
        self._shared: dict[bytes, bytes] = {}

    def add(self, lister: Lister) -> None:
        """Have a lister get all entries, and every change from now on."""
        is_first = not self.listers
        self.listers[lister] = None
        lister.listing = self
        if is_first:
            self.source.ask_list(self)
        if self.is_offline or not self._is_fresh:
            lister.refresh()

    def remove(self, lister: Lister) -> None:
        if self.listers.pop(lister, lister) is None and not self.listers:
            self.source.end_list(self)

    def asked(self) -> None:
        """The source has been asked: its next message is its first."""
        self._is_fresh = True
        self.status = INITIALIZING

    @property
    def shown_status(self) -> int:
        return NOT_AVAILABLE if self.is_offline else self.status

    @property
    def shown_pub_path(self) -> str | None:
        """The pub path of the source, as a path of the broker."""
        return None if self.pub_path is None else join_path(self.source.path, self.pub_path.removeprefix("/"))

    def receive(self, message: Received) -> bool:
        """Take a message of the source; return whether the list has ended with it."""
        headers = message.headers
        is_refreshed = headers.refreshed or self._is_fresh
        self._is_fresh = self.is_offline = False
        if is_refreshed:
            self.entries = dict(self.fixed)
            self._shared = {}
            self.pub_path = headers.pub_path
        try:
            changed = self._apply(message.body)
        except DecodeError:
            self.desk.counts["bad_lists"] += 1
            self.end(INTERNAL_ERROR)
            return True
        self.status = plain_status(headers.status or 0)
        if len(self.entries) > self.desk.options.max_list_entries:
            self.desk.counts["long_lists"] += 1
            self.end(INTERNAL_ERROR)
            return True
        for lister in self.listers:
            lister.refresh() if is_refreshed else lister.change(changed)
        if is_closed(self.status):
            self._let_go()
            return True
        return False

    def _apply(self, body: bytes) -> list[bytes]:
        entries, shared, changed = self.entries, self._shared, []
        for key, value in split_pairs(body):
            if key in self.fixed:
                continue
            if len(key) + len(value) + 4 > p.MAX_BODY:  # no message of ours could carry it
                self.desk.counts["entries_too_long"] += 1
                continue
            changed.append(key)
            if value:
                if len(shared) < MOST_SHARED:
                    value = shared.setdefault(value, value)
                else:
                    value = shared.get(value, value)
                entries[key] = value
            else:
                entries.pop(key, None)
        return changed

    def fill(self, entries: dict[bytes, bytes]) -> None:
        """All entries of a node of ours."""
        self.entries = {**entries, **self.fixed}
        self.status, self._is_fresh = OK, False
        for lister in self.listers:
            lister.refresh()

    def change(self, key: bytes, value: bytes) -> None:
        """An entry of a node of ours has changed, or is REMOVED."""
        if value:
            self.entries[key] = value
        else:
            self.entries.pop(key, None)
        for lister in self.listers:
            lister.change([key])

    def go_offline(self) -> None:
        if not self.is_offline:
            self.is_offline = True
            self.entries = dict(self.fixed)
            for lister in self.listers:
                lister.stop()

    def end(self, status: int) -> None:
        """There is nothing to list any more."""
        self.status = status
        self.is_offline = False
        for lister in self.listers:
            lister.stop()
        self._let_go()

    def _let_go(self) -> None:
        """Its listers say so once they have sent what there is."""
        self.listers.clear()


class Lister:
    """A list stream of one peer, and a source of messages to it. ``level`` is the permission of the peer there."""

    __slots__ = (
        "_changed", "_is_refreshed", "_order", "_told", "is_once", "is_priority", "level", "listing", "peer",
        "request_id",
    )  # fmt: skip

    def __init__(
        self, peer: Peer, request_id: int, level: int, *, is_once: bool = False, is_priority: bool = False
    ) -> None:
        self.peer = peer
        self.request_id = request_id
        self.level = level
        self.is_once = is_once
        self.is_priority = is_priority
        self.listing: Listing | None = None
        self._order: deque[bytes] = deque()
        """Keys that are to be sent."""
        self._changed: dict[bytes, None] = {}
        """Keys that have changed since then."""
        self._is_refreshed = False
        """Whether the next message begins the list anew."""
        self._told: int | None = None
        """The status of the last message."""

    def refresh(self) -> None:
        """Send everything, from the beginning."""
        assert self.listing is not None
        self._order = deque(self.listing.entries)
        self._changed = {}
        self._is_refreshed = True
        self.wake()

    def change(self, keys: list[bytes]) -> None:
        self._changed.update(dict.fromkeys(keys))
        self.wake()

    def stop(self) -> None:
        """Nothing more comes for now: what is not sent yet counts no more, only the status."""
        self._order.clear()
        self._changed.clear()
        self.wake()

    def wake(self) -> None:
        connection = self.peer.connection
        if connection is not None:
            connection.ready(self)
            self.peer.desk.touch(connection)

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        listing = self.listing
        if listing is None:
            return None
        body = self._next_body(listing)
        status = self._status(listing)
        if not body and not self._is_refreshed and status == self._told:
            return None
        headers = Headers(status=status)
        if self._is_refreshed:
            headers = Headers(status=status, refreshed=True, pub_path=listing.shown_pub_path)
        self._is_refreshed = False
        self._told = status
        if is_closed(status):
            self.end()
        return Outgoing(p.LIST_R, self.request_id, write_headers(headers), body)

    def _status(self, listing: Listing) -> int:
        if self._order or self._changed:
            return INITIALIZING if self._told in (None, INITIALIZING) or self._is_refreshed else OK
        status = listing.shown_status
        if self.is_once and status != INITIALIZING and not is_closed(status):
            return CLOSED
        return status

    def _next_body(self, listing: Listing) -> bytes:
        """As many entries as a message takes."""
        if not self._order:
            self._order, self._changed = deque(self._changed), {}
        parts: list[bytes] = []
        size, order, entries = 0, self._order, listing.entries
        while order:
            key = order[0]
            if self._is_shown(key):
                value = entries.get(key, REMOVED)
                size += len(key) + len(value) + 4
                if size > p.MAX_BODY and parts:
                    break
                parts.append(write_pair(key, value))
            order.popleft()
        return b"".join(parts)

    def _is_shown(self, key: bytes) -> bool:
        if not key.startswith(b"$$"):
            return True
        return self.level >= CONFIG and not key.startswith(b"$$$")

    def acked(self, ack_id: int) -> None:
        """Lists wait for no acks."""

    def end(self) -> None:
        """The stream is over, because of the requester or of the source."""
        self.peer.end_stream(self.request_id, is_subscribe=False)
        listing, self.listing = self.listing, None
        self._order.clear()
        self._changed.clear()
        if listing is not None:
            listing.remove(self)

    def renew(self, message: Received) -> None:
        """The requester asks again: it gets everything."""
        if self.listing is not None and (self.listing.is_offline or self.listing.entries):
            self.refresh()

    def lose(self, *, has_acks: bool) -> None:
        """The connection of the requester is gone."""
        self.end()
