"""Handshakes of a broker: with links that come, and with brokers above that it has called."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocols import dsa as p
from ..core.link import Link
from . import wire
from .connection import Connection
from .handshake import SALT_BYTES, Claim, ClientHandshake, HandshakeRefused, ServerHandshake
from .peers import Client, Peer
from .upstream import Way
from .wire import Received

if TYPE_CHECKING:
    from .server import DsaBroker


class Guest:
    """A connection: in its handshake, and then that of a peer."""

    __slots__ = ("connection", "handshake", "is_greeted", "is_waiting", "peer", "way")

    def __init__(self, handshake: ServerHandshake | ClientHandshake, way: Way | None) -> None:
        self.connection: Connection
        self.handshake = handshake
        self.way = way
        """The upstream broker that it leads to."""
        self.peer: Peer | None = None
        self.is_greeted = False
        """Whether its first handshake message has come."""
        self.is_waiting = False
        """Whether its admission is being stored."""


class Greetings:
    """Brings connections from their first byte to the peer that they belong to."""

    def __init__(self, broker: DsaBroker) -> None:
        self._broker = broker

    def greet(self, link: Link, way: Way) -> None:
        """Begin the handshake with an upstream broker."""
        salt = self._broker.chance.randbytes(SALT_BYTES)
        path, token = way.peer.path, way.upstream.token
        handshake = ClientHandshake(self._broker.identity, salt, token=token, is_responder=True, path=path)
        guest = way.guest = Guest(handshake, way)
        self.begin(link, guest)
        guest.connection.say(wire.control(p.F0, handshake.hello()), self._broker.desk.now)

    def receive(self, link: Link) -> None:
        """A link has come: it speaks first."""
        handshake = ServerHandshake(self._broker.identity, self._broker.chance.randbytes(SALT_BYTES))
        self.begin(link, Guest(handshake, None))

    def begin(self, link: Link, guest: Guest) -> None:
        guest.connection = Connection(
            link, partial(self._broker.take, guest), self._broker.desk.now, counts=self._broker.counts
        )
        link.state = guest
        self._broker.timers.set(guest, guest.connection.deadline)

    def step(self, guest: Guest, message: Received) -> None:
        connection, handshake, now = guest.connection, guest.handshake, self._broker.desk.now
        if guest.is_waiting:
            raise HandshakeRefused("a message before the handshake was done")
        connection.step(now)
        if isinstance(handshake, ClientHandshake):
            if message.method == p.F1:
                connection.say(wire.control(p.F2, handshake.answer(message)), now)
            else:
                handshake.finish(message)
                assert guest.way is not None
                self._enter(guest, guest.way.peer)
                self._broker.upstreams.came(guest.way)
        elif not guest.is_greeted:
            guest.is_greeted = True
            connection.say(wire.control(p.F1, handshake.hello(message)), now)
        else:
            self._admit(guest, handshake.check(message))

    def turn_away(self, guest: Guest, reason: str, status: int) -> None:
        link = guest.connection.link
        self._broker.counts["handshakes_refused"] += 1
        self._broker.note("warn", f"refused: {reason}", peer=link.peer)
        if self._broker.options.refusal_status and guest.way is None:
            guest.connection.say(wire.refusal(p.F3, status), self._broker.desk.now)
        link.close("refused", 1008)

    def _admit(self, guest: Guest, claim: Claim) -> None:
        """Let a client in that has proved who it is, once all about it that is new is kept."""
        link = guest.connection.link
        if link.is_inside:
            client: Client | None = Client(claim.dsid)
        else:
            client = self._broker.admission.admit(claim)
        if client is None:
            self._admit_to_quarantine(guest, claim)
            return
        guest.is_waiting = True

        def then() -> None:
            guest.is_waiting = False
            if link.closing is None and link.state is guest:
                self._welcome(guest, client, claim)

        if link.is_inside:
            self._broker.admission.name(client)
            then()
            return
        self._broker.admission.enter(client, is_responder=claim.is_responder, then=then)
        if client.from_token and client.from_token in self._broker.admission.tokens:
            self._broker.system.show_token(self._broker.admission.tokens[client.from_token])

    def _welcome(self, guest: Guest, client: Client, claim: Claim) -> None:
        peer = self._broker.sessions.session_of(client)
        if peer.connection is not None:
            peer = self._broker.sessions.another_session(peer)
        peer.is_trusted = guest.connection.link.is_inside
        peer.is_responder = claim.is_responder
        if claim.is_responder:
            self._broker.sessions.place(client)
        self._say_welcome(guest, peer.path if claim.is_responder else "", allow_requester=True)
        self._enter(guest, peer)
        if not peer.is_trusted:
            self._broker.system.show_client(client, self._broker.sessions.count(client.dsid))
        self._broker.note("info", "connected", peer=guest.connection.link.peer, **peer.facts)

    def _admit_to_quarantine(self, guest: Guest, claim: Claim) -> None:
        peer = self._broker.sessions.quarantine(claim.dsid)
        peer.is_responder = claim.is_responder
        self._say_welcome(guest, peer.path if claim.is_responder else "", allow_requester=False)
        self._enter(guest, peer)
        self._broker.note("warn", "in quarantine", peer=guest.connection.link.peer, **peer.facts)

    def _say_welcome(self, guest: Guest, path: str, *, allow_requester: bool) -> None:
        assert isinstance(guest.handshake, ServerHandshake)
        body = guest.handshake.welcome(path, allow_requester=allow_requester)
        guest.connection.say(wire.control(p.F3, body), self._broker.desk.now)

    def _enter(self, guest: Guest, peer: Peer) -> None:
        """The handshake is done: the session goes on, or begins."""
        guest.peer = peer
        connection = guest.connection
        connection.ack_ids = peer.ack_ids
        connection.establish(self._broker.desk.now)
        self._broker.timers.set(guest, connection.deadline)
        self._broker.timers.drop(("session", peer))
        if peer.waiting:
            self._broker.timers.set(("resume", peer), self._broker.desk.now + self._broker.options.resume_seconds)
        peer.come(connection)
        self._broker.desk.touch(connection)
