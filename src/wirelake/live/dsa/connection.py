"""What both ends of a connection share: acks, pings, time limits, and whose turn it is to write.

Input: ``receive`` hands every message of a stream to ``on_message``, and keeps acks and pings to itself. Output is
pulled: a source (a stream with something to send) says that it is ``ready``, and is asked for one message at a time
while the link has room. So a long message does not hold up others, and what is not asked for yet may be replaced.
Whoever calls a connection calls ``flush`` before it leaves.
"""

from __future__ import annotations

import math
import struct
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from ...errors import DecodeError
from ...protocols import dsa as p
from ..core.link import ROOM_BYTES, Link
from . import wire
from .wire import Outgoing, Received

HANDSHAKE_SECONDS = 15.0
"""For each step."""
PING_SECONDS = 30.0
IDLE_SECONDS = 60.0
MOST_UNACKED = 10_000
"""Messages that wait for an ack of a peer that has never sent one; then it never will."""
_ID_MASK = 0xFFFFFFFF
_COVERED = 1 << 28
pack_front = struct.Struct("<IHBII").pack
"""The part of a message before its dynamic headers."""


def covers(acked: int, ack_id: int) -> bool:
    """Whether an ack up to one id is an ack of another; ids wrap around."""
    return (acked - ack_id) & _ID_MASK < _COVERED


class AckIds:
    """Numbers of our messages. They belong to a session, and go on after a reconnect."""

    __slots__ = ("last",)

    def __init__(self, last: int = 0) -> None:
        self.last = last

    @property
    def following(self) -> int:
        return (self.last + 1) & _ID_MASK or 1


class Source(Protocol):
    """Something with messages to send."""

    is_priority: bool

    def take(self, ack_id: int, now: float) -> Outgoing | None:
        """Return the next message, which will be written with this id; None if there is none, until ``ready``."""
        ...

    def acked(self, ack_id: int) -> None:
        """The peer has acknowledged a message that wanted it, or never will."""
        ...


class Connection:
    """One link. ``on_message`` is given each message, Ack, Ping and a Close without ids aside; a true value ends the
    reading, after which the link is closed. Before ``establish`` it is given everything, and no acks are sent.
    """

    __slots__ = (
        "_awaiting", "_due", "_held", "_is_flushing", "_newest", "_queues", "_reader", "_told", "_waiting",
        "ack_ids", "counts", "first", "heard", "is_established", "link", "now", "on_message", "peer_acks", "spoke",
    )  # fmt: skip

    def __init__(
        self,
        link: Link,
        on_message: Callable[[Received], object],
        now: float,
        *,
        ack_ids: AckIds | None = None,
        counts: Counter[str] | None = None,
    ) -> None:
        self.link = link
        self.on_message = on_message
        self.ack_ids = ack_ids or AckIds()
        self.counts = link.counts if counts is None else counts
        self.is_established = False
        self.peer_acks = False
        """Whether the peer has ever sent an ack on this connection."""
        self.now = self.heard = self.spoke = now
        self._due = now + HANDSHAKE_SECONDS
        self._reader = wire.Reader()
        self.first: int | None = None
        """The first ack id that came."""
        self._newest: int | None = None
        """The highest ack id that came."""
        self._told: int | None = None
        """What we acknowledged last."""
        self._held: dict[int, None] = {}
        """Ack ids that must not be acknowledged yet, in the order in which they came."""
        self._queues: tuple[deque[Source], deque[Source]] = (deque(), deque())
        """Sources that are ready: those with priority, and the others."""
        self._waiting: set[Source] = set()
        self._awaiting: deque[tuple[int, Source]] = deque()
        self._is_flushing = False

    def __repr__(self) -> str:
        return f"<connection {self.link!r}>"

    # --- life

    def step(self, now: float) -> None:
        """A step of the handshake is done: the next one has its time from now on."""
        self._due = now + HANDSHAKE_SECONDS

    def establish(self, now: float) -> None:
        """The handshake is over."""
        self.is_established = True
        self.heard = self.spoke = now

    @property
    def takes_details(self) -> bool:
        """Whether the peer can be told error details. C++ hangs up on them, and is known by not counting from 1."""
        return self.first == 1

    @property
    def newest(self) -> int | None:
        """The highest ack id that came: a session that resumes acknowledges it first."""
        return self._newest

    @property
    def deadline(self) -> float:
        """When to call ``tick``; infinity for a link that is being closed."""
        if self.link.closing is not None:
            return math.inf
        if not self.is_established:
            return self._due
        return min(self.spoke + PING_SECONDS, self.heard + IDLE_SECONDS)

    def tick(self, now: float, *, is_deaf: bool = False) -> None:
        """Ping if we were silent, close if the peer was. ``is_deaf``: we have not read, so silence says nothing."""
        self.now = now
        if self.link.closing is not None:
            return
        if not self.is_established:
            if now >= self._due:
                self.link.close(f"the handshake was not done within {HANDSHAKE_SECONDS:g} s", at_once=True)
            return
        if is_deaf or not self.link.is_readable:
            self.heard = now
        if now >= self.heard + IDLE_SECONDS:
            self.counts["idle_closed"] += 1
            self.link.close(f"nothing came for {IDLE_SECONDS:g} s", at_once=True)
        elif now >= self.spoke + PING_SECONDS:
            self.counts["pings_sent"] += 1
            self.say(wire.PING, now)

    # --- input

    def receive(self, data: bytes, now: float) -> DecodeError | None:
        """Hand over the messages that are whole now. An error means that the link is being closed because of it."""
        self.now = self.heard = now
        try:
            self._reader.read(data, self._take)
        except DecodeError as error:
            self.counts["undecodable"] += 1
            self.link.close(f"undecodable: {error.rule}", 1002, at_once=True)
            return error.as_value()
        return None

    def _take(self, message: Received) -> object:
        if self.link.closing is not None:
            return True
        if not self.is_established:
            return self.on_message(message)
        method = message.method
        if method < p.F0:
            ack_id = message.ack_id
            if ack_id and (self._newest is None or covers(ack_id, self._newest)):
                if self._newest is None:
                    self.first = ack_id
                self._newest = ack_id
            if not message.request_id:
                self.counts["closes_ignored"] += 1  # Java answers every Ack so
                return False
            return self.on_message(message)
        if method == p.ACK:
            self._acked(wire.read_ack(message))
            return False
        if method == p.PING:
            self.counts["pings"] += 1
            return False
        self.link.close("a handshake message after the handshake", 1002, at_once=True)
        return True

    def _acked(self, acked: int) -> None:
        """Acks are only advice: strange ones are no error."""
        self.counts["acks"] += 1
        self.peer_acks = True
        awaiting = self._awaiting
        while awaiting and covers(acked, awaiting[0][0]):
            ack_id, source = awaiting.popleft()
            source.acked(ack_id)

    # --- acks of ours

    def hold_ack(self, ack_id: int) -> None:
        """Acknowledge neither this message nor a later one until ``release_ack``."""
        if ack_id:
            self._held[ack_id] = None

    def release_ack(self, ack_id: int) -> None:
        self._held.pop(ack_id, None)

    def resume_ack(self, ack_id: int | None) -> None:
        """Begin with an ack of what came last on the connection before this one. A peer that has forgotten its session
        counts from 1 again, so what is acknowledged afterwards need not follow it.
        """
        if ack_id:
            self.say(wire.ack(ack_id), self.now)

    def _send_ack(self) -> None:
        newest = self._newest
        if newest is None:
            return
        if self._held:
            newest = (next(iter(self._held)) - 1) & _ID_MASK
        if newest and newest != self._told and (self._told is None or covers(newest, self._told)):
            self._told = newest
            self.counts["acks_sent"] += 1
            self.say(wire.ack(newest), self.now)

    # --- output

    def say(self, data: bytes, now: float) -> None:
        """Write something that has its turn before everything else: handshake, ack, ping."""
        self.spoke = now
        self.link.say(data)

    @property
    def is_clear(self) -> bool:
        """Whether a message may be written at once, because no other waits for its turn."""
        return (
            not self._waiting and self.is_established and self.link.unsent <= ROOM_BYTES and self.link.closing is None
        )

    def write(self, message: Outgoing, source: Source | None = None) -> int:
        """Write a message now, whosever turn it is, and return its ack id. ``source`` hears of its ack."""
        ids = self.ack_ids
        ids.last = ack_id = ids.following
        self.spoke = self.now
        self.link.say(message.stamped(ack_id))
        if message.wants_ack and source is not None:
            self._await(ack_id, source)
        return ack_id

    def forward(self, method: int, request_id: int, header: int, tail: bytes, now: float) -> bool:
        """Write what many connections get, and return True; False if others wait for their turn, or there is no room.

        ``tail`` are the dynamic headers and the body, ``header`` the length of the header with them.
        """
        link = self.link
        if self._waiting or link.unsent > ROOM_BYTES or link.closing is not None or not self.is_established:
            return False
        ids = self.ack_ids
        ids.last = ack_id = (ids.last + 1) & _ID_MASK or 1
        self.spoke = now
        data = pack_front(p.LONG_HEAD + len(tail), header, method, request_id, ack_id) + tail
        if link.framing is not wire.DSA_TCP:
            link.say(data)
            return True
        out = link.out  # as link.send does: a call for each of many would take as long as all the rest
        if not out:
            link.changed.append(link)
        out.append(data)
        link.unsent += len(data)
        return True

    def _await(self, ack_id: int, source: Source) -> None:
        self._awaiting.append((ack_id, source))
        if not self.peer_acks and len(self._awaiting) > MOST_UNACKED:
            ack_id, source = self._awaiting.popleft()
            source.acked(ack_id)

    def ready(self, source: Source) -> None:
        """This source has something to send; it is asked for it in its turn."""
        if source not in self._waiting:
            self._waiting.add(source)
            self._queues[not source.is_priority].append(source)

    def flush(self, now: float) -> None:
        """Write what there is, as far as there is room: an ack first, then one message of each source in turns."""
        self.now = now
        if not self.is_established or self._is_flushing or self.link.closing is not None:
            return
        self._send_ack()
        if not self._waiting:
            return
        self._is_flushing = True
        try:
            self._take_turns(now)
        finally:
            self._is_flushing = False

    def _take_turns(self, now: float) -> None:
        urgent, others = self._queues
        link, ids = self.link, self.ack_ids
        while queue := urgent or others:
            if link.unsent > ROOM_BYTES:
                link.ask_room()
                return
            source = queue.popleft()
            message = source.take(ids.following, now)
            if message is None:
                self._waiting.discard(source)
            else:
                queue.append(source)
                self.write(message, source)
