"""A link and the other end of its connection, in memory: whole conversations without a socket or a clock."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from wirelake.live.core.link import Link
from wirelake.live.core.session import CLIENT, SERVER
from wirelake.live.dsa import wire
from wirelake.live.dsa.client import DsaLink, LinkOptions
from wirelake.live.dsa.connection import AckIds, Connection
from wirelake.live.dsa.handshake import Identity, ServerHandshake
from wirelake.live.dsa.nodes import Nodes
from wirelake.live.dsa.requester import Requester
from wirelake.live.dsa.responder import Responder
from wirelake.live.dsa.wire import DSA_TCP, Outgoing, Received
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

LINK_KEY, PEER_KEY = bytes([1] * 32), bytes([2] * 32)


class Peer:
    """A server's end without rules of its own: what comes is kept in ``got``, and replied to by hand. With ``nodes`` it
    also replies from a tree, as a link does.
    """

    def __init__(self, nodes: Nodes | None = None) -> None:
        self.identity = Identity(PEER_KEY, "broker-")
        self.got: list[Received] = []
        self.events: list[Any] = []
        self.counts: Counter[str] = Counter()
        self.ack_ids = AckIds()
        self.requester = Requester(self.events, self.counts)
        self.responder = Responder(nodes, self.events, self.counts) if nodes is not None else None
        self.connection: Connection
        self.claim: Any = None
        self.salts = random.Random(5)

    def connected(self, link: Link, now: float) -> None:
        self.handshake = ServerHandshake(self.identity, self.salts.randbytes(32))
        self.connection = Connection(link, self.greet, now, ack_ids=self.ack_ids)

    def greet(self, message: Received) -> bool:
        if message.method == p.F0:
            self.connection.say(wire.control(p.F1, self.handshake.hello(message)), 0.0)
        else:
            self.claim = self.handshake.check(message)
            self.connection.say(wire.control(p.F3, self.handshake.welcome("downstream/link")), 0.0)
            self.connection.establish(self.connection.now)
            self.connection.on_message = self.message
            self.requester.attach(self.connection)
            if self.responder is not None:
                self.responder.attach(self.connection, self.connection.now)
        return False

    def message(self, message: Received) -> bool:
        self.got.append(message)
        if message.method >= p.SUB_R:
            self.requester.take(message)
        elif self.responder is not None:
            if message.method == p.CLOSE:
                self.responder.take_close(message)
            else:
                self.responder.take(message, self.connection.now)
        return False

    def say(self, method: int, request_id: int, body: bytes = b"", **headers: Any) -> int:
        """Send a message, and return its ack id."""
        return self.connection.write(Outgoing(method, request_id, wire.write_headers(Headers(**headers)), body))


class Play:
    """A link with its peer; ``run`` lets bytes pass until there are none."""

    def __init__(
        self,
        nodes: Nodes | None = None,
        *,
        peer: Peer | None = None,
        options: LinkOptions | None = None,
        is_up: bool = True,
    ) -> None:
        self.now = 0.0
        self.link = DsaLink(Identity(LINK_KEY, "link-"), nodes, options, chance=random.Random(7))
        self.peer = peer or Peer()
        self.sent: list[bytes] = []
        """What the link has written."""
        self.ours: Link
        self.theirs: Link
        self.is_up = False
        if is_up:
            self.connect()

    def connect(self) -> None:
        self.changed: list[Link] = []
        self.ours = self.link.new_link(DSA_TCP, CLIENT, "peer")
        self.theirs = Link(1, DSA_TCP, self.changed, SERVER, "link")
        self.is_up = True
        self.peer.connected(self.theirs, self.now)
        self.link.connected(self.ours, self.now)
        self.run()

    def run(self) -> None:
        """Deliver everything, both ways."""
        for _ in range(100_000):
            if not self.is_up:
                return
            self.link.flush(self.now)
            self.peer.connection.flush(self.now)
            if not self.ours.out and not self.theirs.out:
                self._room()
                if not self.ours.out and not self.theirs.out:
                    return
            self.step()
        raise AssertionError("the two never stop")

    def step(self) -> None:
        out, self.ours.out = b"".join(self.ours.out), []
        back, self.theirs.out = b"".join(self.theirs.out), []
        self.ours.unsent = self.theirs.unsent = 0
        if out:
            self.sent.append(out)
            self.peer.connection.receive(out, self.now)
        if back and self.ours.closing is None:
            self.link.receive(self.ours, back, self.now)

    def _room(self) -> None:
        if self.ours.wants_room:
            self.ours.wants_room = False
            self.link.writable(self.ours, self.now)
        if self.theirs.wants_room:
            self.theirs.wants_room = False
            self.peer.connection.flush(self.now)

    def raw(self, data: bytes) -> None:
        """The peer sends these bytes."""
        self.link.receive(self.ours, data, self.now)

    def cut(self) -> None:
        """The connection is gone for both."""
        self.is_up = False
        self.link.disconnected(self.ours, self.now)
        self.ours.end()
        self.peer.requester.detach()
        if self.peer.responder is not None:
            self.peer.responder.detach(self.now)

    def wait(self, seconds: float) -> None:
        """Let time pass, with ticks, and a peer that is alive."""
        until = self.now + seconds
        while (due := self.link.deadline) is not None and due <= until:
            self.now = max(due, self.now)
            if self.is_up:
                self.raw(wire.PING)
            self.link.tick(self.now)
        self.now = until

    def events(self, *kinds: type) -> list[Any]:
        """Take what the link has told, of these kinds or of all."""
        told = [event for event in self.link.events if not kinds or isinstance(event, kinds)]
        self.link.events.clear()
        return told

    def take(self, *methods: int) -> list[Received]:
        """Take what the peer got, of these methods or of all."""
        got = [message for message in self.peer.got if not methods or message.method in methods]
        self.peer.got.clear()
        return got


def frames(data: bytes) -> list[Received]:
    found: list[Received] = []
    wire.Reader().read(data, found.append)
    return found
