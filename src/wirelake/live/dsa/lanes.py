"""What a broker forwards to one connection: messages of a stream in their order, each in its turn."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .wire import Outgoing

if TYPE_CHECKING:
    from .peers import Peer


class Lane:
    """Messages to one peer that keep their order. A message is written at once if nothing waits before it."""

    __slots__ = ("_is_skippable", "_messages", "_peer", "is_priority")

    def __init__(self, peer: Peer, *, is_priority: bool = False) -> None:
        self.is_priority = is_priority
        self._peer = peer
        self._messages: deque[Outgoing] = deque()
        self._is_skippable = False
        """Whether the last message that waits may be replaced by a newer one."""

    def put(self, message: Outgoing, *, is_skippable: bool = False) -> None:
        """Send a message, sooner or later; to a peer that is gone or going, never."""
        peer = self._peer
        connection = peer.connection
        if connection is None or connection.link.closing is not None:
            peer.desk.counts["sends_dropped"] += 1
            return
        if not self._messages and connection.is_clear:
            connection.now = peer.desk.now
            connection.write(message)
            return
        if self._messages and self._is_skippable:
            peer.unsent -= self._messages.pop().size
            peer.desk.counts["responses_skipped"] += 1
        self._messages.append(message)
        self._is_skippable = is_skippable
        peer.add_unsent(message.size)
        connection.ready(self)
        peer.desk.touch(connection)

    def clear(self) -> None:
        self._peer.unsent -= sum(message.size for message in self._messages)
        self._messages.clear()

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        if not self._messages:
            return None
        message = self._messages.popleft()
        self._peer.unsent -= message.size
        return message

    def acked(self, ack_id: int) -> None:
        """Nothing here waits for acks."""
