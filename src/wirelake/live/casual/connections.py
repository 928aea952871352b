"""What a domain knows of each connection. Whoever dialled: the inbound end serves, the outbound end asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...codec.quick_frames import QuickFrames
from ..core.link import Link
from ..core.timers import Timers
from .options import DomainLimits
from .wire import LAYOUT, NIL, UNITS, Units, encode

if TYPE_CHECKING:
    from .branches import Branch
    from .conversations import Conversation
    from .peers import Peer


@dataclass(slots=True, eq=False)
class Connection:
    """One connection, from its first byte to its last."""

    link: Link
    profile: str
    frames: QuickFrames = field(default_factory=lambda: QuickFrames(LAYOUT))
    is_ready: bool = False
    """Whether the domains have introduced each other."""
    is_lost: bool = False
    domain_id: bytes = NIL
    domain_name: str = ""
    heard: float = 0.0
    """When the last bytes came."""
    conversations: dict[bytes, Conversation] = field(default_factory=dict)
    """By correlation."""
    most_unsent: int = 0

    @property
    def units(self) -> Units:
        return UNITS[self.profile]

    def send(self, message: Any) -> None:
        """Write a message, unless the peer has left far too much unread."""
        link = self.link
        if self.is_lost:
            link.counts["sends_dropped"] += 1
            return
        if link.unsent > self.most_unsent > 0:
            link.close("the peer does not read", at_once=True)
        link.send(encode(message))

    def due(self, now: float) -> None:
        """The peer took too long to introduce itself."""
        if not self.is_ready:
            self.link.close("no handshake in time")


@dataclass(slots=True, eq=False)
class Inbound(Connection):
    """A connection whose peer asks. ``requests`` are in progress, by correlation, with their sizes."""

    requests: dict[bytes, int] = field(default_factory=dict)
    size: int = 0
    """Bytes of their payloads."""
    waiting: int = 0
    """Of them, those that wait for a message in a queue: what wakes them may still be unread."""
    branches: dict[Branch, None] = field(default_factory=dict)
    limits: DomainLimits = field(default_factory=DomainLimits)
    is_held: bool = False
    dialled: Peer | None = None
    """Whom we dialled so that it asks us."""
    waiters: dict[Any, None] = field(default_factory=dict)
    """Dequeues that have no message yet."""
    decisions: set[bytes] = field(default_factory=set)
    """Prepares, commits and rollbacks in progress. They do not count: what they end may be what is over the limit."""

    def is_open(self, correlation: bytes) -> bool:
        """Tell whether something of this correlation is in progress."""
        return correlation in self.requests or correlation in self.conversations or correlation in self.decisions

    def begin(self, correlation: bytes, size: int) -> bool:
        """Count a request; tell whether it is a new one."""
        requests, limits = self.requests, self.limits
        if correlation in requests or correlation in self.conversations or correlation in self.decisions:
            return False
        requests[correlation] = size
        self.size += size
        if len(requests) >= limits.requests or self.size >= limits.bytes:
            self._hold()
        return True

    def end(self, correlation: bytes) -> None:
        self.size -= self.requests.pop(correlation, 0)
        if self.is_held:
            self._hold()

    def wait(self, change: int) -> None:
        """A request begins (1) or ends (-1) to wait for a message."""
        self.waiting += change
        self._hold()

    def _hold(self) -> None:
        """Read nothing more while too much is in progress. What only waits for a message does not count: the commit
        that wakes it comes over this connection.
        """
        running, limits = len(self.requests) - self.waiting, self.limits
        is_over = running > 0 and (running >= limits.requests or self.size >= limits.bytes)
        if is_over != self.is_held and not self.is_lost:
            self.is_held = is_over
            (self.link.pause if is_over else self.link.resume)()


Replied = Callable[[Any, float], None]
"""Gets the reply, or None if there will be none."""


@dataclass(slots=True, eq=False)
class Pending:
    """A request of ours without a reply."""

    correlation: bytes
    expects: tuple[type, ...]
    replied: Replied
    connection: Outbound

    def due(self, now: float) -> None:
        """No reply in time: it counts as lost, the connection stays."""
        if self.connection.pending.pop(self.correlation, None) is not None:
            self.replied(None, now)


@dataclass(slots=True, eq=False)
class Outbound(Connection):
    """A connection whose peer serves us."""

    peer: Peer | None = None
    hello: bytes = NIL
    """The correlation of our introduction."""
    pending: dict[bytes, Pending] = field(default_factory=dict)

    def ask(self, message: Any, expects: tuple[type, ...], replied: Replied) -> Pending:
        pending = self.pending[message.correlation] = Pending(message.correlation, expects, replied, self)
        self.send(message)
        return pending

    def reply(self, message: Any, timers: Timers[Any], now: float) -> bool:
        """Give a reply to whoever waits for it; tell whether somebody does."""
        pending = self.pending.get(message.correlation)
        if pending is None or not isinstance(message, pending.expects):
            return False
        del self.pending[pending.correlation]
        timers.drop(pending)
        pending.replied(message, now)
        return True

    def lose(self, timers: Timers[Any], now: float) -> None:
        """The connection is gone: nobody will reply any more."""
        pending = list(self.pending.values())
        self.pending.clear()
        for one in pending:
            timers.drop(one)
            one.replied(None, now)
