"""A DSA broker: links connect to it, hang their trees into its own, and reach those of others through it.

Its parts: ``admission`` knows who may come in, ``routes`` where paths lead, ``dispatch`` what becomes of requests,
``values`` and ``lists`` merge streams, ``forwards`` passes on what is not merged, ``peers`` are the sessions,
``system_nodes`` and ``home_nodes`` the broker's own nodes, ``upstream`` the brokers above. This file has connections,
time, and what is kept.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ...protocols import dsa as p
from ..core.effects import Dial, Effect, Result, Store
from ..core.link import Link
from ..core.session import SERVER, Session
from ..core.timers import Timers
from . import wire
from .admission import Admission, NotAdmitted
from .connection import Connection
from .desk import Desk
from .dispatch import Dispatch
from .handshake import SALT_BYTES, Claim, ClientHandshake, HandshakeRefused, Identity, ServerHandshake
from .home_nodes import HomeNodes
from .keeping import Keeping
from .options import BrokerOptions
from .peers import Client, Peer
from .permissions import Role, Roles
from .queues import Update, Wish
from .routes import NoRoute, Routes
from .store import Kept, KeptQueue
from .subscribers import Subscriber
from .system_nodes import SystemNodes
from .tree import Tree
from .upstream import Upstream, Upstreams, Way
from .wire import Received

DOWNSTREAM, QUARANTINE = "downstream", "sys/quarantine"
DENIED, NOT_SUPPORTED = 0x40, 0x41


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


class DsaBroker(Session):
    """``roles``, ``allow_all``, ``quarantine`` and ``upstreams`` are what the settings say. ``has_store``: effects are
    stored, so what is kept outlives the process.
    """

    def __init__(
        self,
        identity: Identity,
        options: BrokerOptions | None = None,
        *,
        roles: Mapping[str, Role] | None = None,
        allow_all: bool | None = None,
        quarantine: bool | None = None,
        upstreams: Iterable[Upstream] = (),
        has_store: bool = False,
        epoch: float = 0.0,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(epoch=epoch, chance=chance)
        self.identity = identity
        self.options = options or BrokerOptions()
        self.timers: Timers[Any] = Timers()
        """Of connections, sessions, durable queues, stores that failed, and upstream brokers."""
        self.desk = Desk(self.options, self.counts, note=self.note)
        self._keeping = Keeping(self, has_store=has_store)
        self.desk.keep = self._keeping.keep
        self.roles = Roles()
        for role in (roles or {}).values():
            self.roles.put(role)
        self._settings_roles = frozenset(roles or {})
        self.admission = Admission(self.desk, allow_all=allow_all, quarantine=quarantine)
        self.tree = Tree(self.desk)
        self.routes = Routes(self.tree, self.options.max_aliases)
        for name in (DOWNSTREAM, "upstream"):
            self.tree.root.add(name)
        self.home = HomeNodes(self)
        self.system = SystemNodes(self)
        _add_profiles(self.tree)
        self.upstreams = Upstreams(self)
        self.peers: dict[str, Peer] = {}
        """The session of each dsId."""
        self.others: dict[str, list[Peer]] = {}
        """Further sessions of clients that may have several."""
        self.quarantined: dict[str, Peer] = {}
        self._dispatch = Dispatch(self)
        self._settings_upstreams = tuple(upstreams)
        self._is_loaded = False
        self._early: list[Link] = []
        """Connections that came before everything was loaded."""
        self._keeping.load(self._loaded)

    @property
    def deadline(self) -> float | None:
        return self.timers.deadline

    # --- start

    def _loaded(self, kept: Kept) -> None:
        restored_nodes = []
        for kind, key, fact in kept.facts:
            match kind:
                case "role":
                    self._restore_role(Role(**fact))
                case "node":
                    restored_nodes.append((key, fact))
                case "upstream":
                    self.upstreams.restore(key, fact)
                case _:
                    self.admission.restore(kind, key, fact)
        for key, fact in sorted(restored_nodes, key=lambda node: node[0].count("/")):
            self.home.restore(key, fact)
        for client in self.admission.clients.values():
            self._place(client)
        self.system.show_all()
        for upstream in self._settings_upstreams:
            if upstream.name not in self.upstreams:
                self.upstreams.begin(upstream)
        for queue in kept.queues:
            self._restore_queue(queue)
        self._is_loaded = True
        for link in self._early:
            link.resume()
        self._early.clear()

    def _restore_role(self, role: Role) -> None:
        """What the settings say about a role counts, and rules that were added to it while it ran."""
        settings = self.roles.get(role.name) if role.name in self._settings_roles else None
        if settings is not None:
            level = role.level if settings.level is None else settings.level
            role = Role(role.name, level, settings.fallback or role.fallback, {**role.rules, **settings.rules})
        self.roles.put(role)

    def _restore_queue(self, kept: KeptQueue) -> None:
        """A durable subscription collects again, before its requester is back."""
        dsid, path, qos, size, seconds, is_priority = kept.record
        client = self.admission.clients.get(dsid)
        try:
            route = self.routes.find(path)
        except NoRoute:
            route = None
        peer = self._session_of(client) if client is not None else None
        if peer is None or route is None:
            self._keeping.drop_queue(kept.queue)
            return
        subscriber = Subscriber(peer, 0, path, Wish(qos, size, seconds, bool(is_priority)))
        subscriber.detach()
        subscriber.key = kept.queue
        for number, at, pages in kept.updates:
            subscriber.queue.restore(number, Update([(head, body) for head, body in pages]), at - self.epoch)
        peer.waiting.setdefault(path, []).append(subscriber)
        values = route.peer.values_of(route.rest) if route.peer is not None else None
        if values is None and route.node is not None:
            values = self.tree.values_of(route.node)
        assert values is not None
        values.resume(subscriber)
        self.timers.set(("session", peer), self.desk.now + self.options.session_seconds)

    # --- connections

    def connected(self, link: Link, now: float) -> None:
        self._begin(now)
        if link.side == SERVER:
            handshake = ServerHandshake(self.identity, self.chance.randbytes(SALT_BYTES))
            self._greeted(link, Guest(handshake, None))
            if not self._is_loaded:
                link.pause()
                self._early.append(link)

    def greet(self, link: Link, way: Way) -> None:
        """Begin the handshake with an upstream broker."""
        salt = self.chance.randbytes(SALT_BYTES)
        path, token = way.peer.path, way.upstream.token
        handshake = ClientHandshake(self.identity, salt, token=token, is_responder=True, path=path)
        guest = way.guest = Guest(handshake, way)
        self._greeted(link, guest)
        guest.connection.say(wire.control(p.F0, handshake.hello()), self.desk.now)

    def _greeted(self, link: Link, guest: Guest) -> None:
        guest.connection = Connection(link, partial(self._message, guest), self.desk.now, counts=self.counts)
        link.state = guest
        self.timers.set(guest, guest.connection.deadline)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        guest: Guest | None = link.state
        if guest is None or link.closing is not None:
            return
        self._begin(now)
        self.desk.touch(guest.connection)
        error = guest.connection.receive(data, now)
        if error is not None:
            fields = {"rule": error.rule, "path": error.path, "offset": error.offset}
            self.note("warn", "closed: undecodable", peer=link.peer, **fields)
        self.desk.flush()

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        """The borders of WebSocket frames mean nothing."""
        for body in bodies:
            self.receive(link, body, now)

    def writable(self, link: Link, now: float) -> None:
        guest: Guest | None = link.state
        if guest is not None:
            self._begin(now)
            self.desk.touch(guest.connection)
            self.desk.flush()

    def disconnected(self, link: Link, now: float) -> None:
        self._begin(now)
        guest: Guest | None = link.state
        if guest is not None:
            link.state = None
            self.timers.drop(guest)
            if guest.peer is not None and guest.peer.connection is guest.connection:
                self._left(guest.peer)
            if guest.way is not None and guest.way.guest is guest:
                self.upstreams.gone(guest.way)
        self.desk.flush()

    def tick(self, now: float) -> None:
        self._begin(now)
        for key in self.timers.due(now):
            match key:
                case Guest():
                    key.connection.tick(now)
                    if key.connection.link.closing is None:
                        self.timers.set(key, key.connection.deadline)
                case Way():
                    self.upstreams.dial(key)
                case ("session", Peer() as peer):
                    self._expire(peer)
                case ("resume", Peer() as peer):
                    peer.forget_waiting()
                case _:
                    self._keeping.retry(key)
        self.desk.flush()

    def completed(self, effect: Effect, result: Result, now: float) -> None:
        super().completed(effect, result, now)
        self._begin(now)
        match effect:
            case Store():
                self._keeping.completed(effect, result)
            case Dial():
                self.upstreams.dialled(effect, result)
        self.desk.flush()

    def _begin(self, now: float) -> None:
        """Whatever happens begins with this."""
        self.desk.now, self.desk.epoch = now, self.epoch

    # --- handshakes

    def _message(self, guest: Guest, message: Received) -> object:
        if guest.peer is not None:
            self.counts["messages"] += 1
            peer, method = guest.peer, message.method
            if method >= p.SUB_R:
                peer.answered(message)
            elif method == p.CLOSE:
                if not peer.close_stream(message.request_id):
                    peer.answered_by_close(message)
            else:
                self._dispatch.request(peer, message)
            return guest.connection.link.closing is not None
        self.counts["handshake_messages"] += 1
        try:
            self._step(guest, message)
        except HandshakeRefused as refused:
            self._turn_away(guest, refused.detail, refused.status)
        except NotAdmitted as refused:
            self._turn_away(guest, str(refused), DENIED)
        return guest.connection.link.closing is not None

    def _step(self, guest: Guest, message: Received) -> None:
        connection, handshake, now = guest.connection, guest.handshake, self.desk.now
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
                self.upstreams.came(guest.way)
        elif not guest.is_greeted:
            guest.is_greeted = True
            connection.say(wire.control(p.F1, handshake.hello(message)), now)
        else:
            self._admit(guest, handshake.check(message))

    def _turn_away(self, guest: Guest, reason: str, status: int) -> None:
        link = guest.connection.link
        self.counts["handshakes_refused"] += 1
        self.note("warn", f"refused: {reason}", peer=link.peer)
        if self.options.refusal_status and guest.way is None:
            guest.connection.say(wire.refusal(p.F3, status), self.desk.now)
        link.close("refused", 1008)

    def _admit(self, guest: Guest, claim: Claim) -> None:
        """Let a client in that has proved who it is, once all about it that is new is kept."""
        link = guest.connection.link
        if link.is_inside:
            client: Client | None = Client(claim.dsid)
        else:
            client = self.admission.admit(claim)
        if client is None:
            self._admit_to_quarantine(guest, claim)
            return
        guest.is_waiting = True

        def then() -> None:
            guest.is_waiting = False
            if link.closing is None and link.state is guest:
                self._welcome(guest, client, claim)

        if link.is_inside:
            self.admission.name(client)
            then()
            return
        self.admission.enter(client, is_responder=claim.is_responder, then=then)
        if client.from_token and client.from_token in self.admission.tokens:
            self.system.show_token(self.admission.tokens[client.from_token])

    def _welcome(self, guest: Guest, client: Client, claim: Claim) -> None:
        peer = self._session_of(client)
        if peer.connection is not None:
            peer = self._another_session(peer)
        peer.is_trusted = guest.connection.link.is_inside
        peer.is_responder = claim.is_responder
        if claim.is_responder:
            self._place(client)
        self._say_welcome(guest, peer.path if claim.is_responder else "", allow_requester=True)
        self._enter(guest, peer)
        if not peer.is_trusted:
            self.system.show_client(client, self.sessions_of(client.dsid))
        self.note("info", "connected", peer=guest.connection.link.peer, **peer.facts)

    def _admit_to_quarantine(self, guest: Guest, claim: Claim) -> None:
        path = f"{QUARANTINE}/{claim.dsid}"
        peer = self.quarantined.get(claim.dsid)
        if peer is None:
            peer = self.quarantined[claim.dsid] = Peer(self.desk, Client(claim.dsid), path)
            peer.is_quarantined = True
            self.routes.places[path] = peer
            self.system.quarantine.add_placeholder(claim.dsid)
        elif peer.connection is not None:
            self._displace(peer)
        peer.is_responder = claim.is_responder
        self._say_welcome(guest, path if claim.is_responder else "", allow_requester=False)
        self._enter(guest, peer)
        self.note("warn", "in quarantine", peer=guest.connection.link.peer, **peer.facts)

    def _say_welcome(self, guest: Guest, path: str, *, allow_requester: bool) -> None:
        assert isinstance(guest.handshake, ServerHandshake)
        body = guest.handshake.welcome(path, allow_requester=allow_requester)
        guest.connection.say(wire.control(p.F3, body), self.desk.now)

    def _enter(self, guest: Guest, peer: Peer) -> None:
        """The handshake is done: the session goes on, or begins."""
        guest.peer = peer
        connection = guest.connection
        connection.ack_ids = peer.ack_ids
        connection.establish(self.desk.now)
        self.timers.set(guest, connection.deadline)
        self.timers.drop(("session", peer))
        if peer.waiting:
            self.timers.set(("resume", peer), self.desk.now + self.options.resume_seconds)
        peer.come(connection)
        self.desk.touch(connection)

    # --- sessions

    def _session_of(self, client: Client) -> Peer:
        peer = self.peers.get(client.dsid)
        if peer is None:
            path = f"{DOWNSTREAM}/{client.name}" if client.name else ""
            peer = self.peers[client.dsid] = Peer(self.desk, client, path)
        elif client.name:
            peer.path = f"{DOWNSTREAM}/{client.name}"
        return peer

    def _place(self, client: Client) -> None:
        """Hang the tree of a responder into ours, where it stays also while the link is away."""
        if client.name:
            peer = self._session_of(client)
            self.routes.places[peer.path] = peer
            node = self.tree.root.children[DOWNSTREAM]
            if client.name not in node.children:
                node.add_placeholder(client.name)

    def _another_session(self, peer: Peer) -> Peer:
        """The client is connected already: it may have several sessions, or the new one wins."""
        client = peer.client
        others = self.others.setdefault(client.dsid, [])
        if len(others) + 1 < client.max_session:
            other = Peer(self.desk, client, "")
            others.append(other)
            return other
        self._displace(peer)
        return peer

    def _displace(self, peer: Peer) -> None:
        connection = peer.connection
        assert connection is not None
        peer.go()
        connection.link.close("another connection of the same dsId came")

    def sessions_of(self, dsid: str) -> int:
        peer = self.peers.get(dsid)
        return (peer is not None and peer.connection is not None) + len(self.others.get(dsid, ()))

    def _left(self, peer: Peer) -> None:
        """The connection of a peer is gone; its session stays for a while."""
        peer.go()
        client = peer.client
        self.note("info", "disconnected", **peer.facts)
        if peer.is_trusted:
            self._remove_peer(peer)
            self.admission.unname(client)
        elif peer.is_quarantined:
            self._leave_quarantine(peer)
        elif peer in self.others.get(client.dsid, ()):
            self.others[client.dsid].remove(peer)
            peer.end(NOT_SUPPORTED)
        elif self.peers.get(client.dsid) is peer:
            self.timers.set(("session", peer), self.desk.now + self.options.session_seconds)
        if client.dsid in self.admission.clients:
            self.system.show_client(client, self.sessions_of(client.dsid))

    def _expire(self, peer: Peer) -> None:
        if peer.connection is None:
            self.counts["sessions_expired"] += 1
            peer.forget_waiting()
            if not peer.client.name and not peer.values and not peer.lists:
                self.peers.pop(peer.client.dsid, None)

    def _leave_quarantine(self, peer: Peer) -> None:
        self.quarantined.pop(peer.client.dsid, None)
        self.routes.places.pop(peer.path, None)
        self.system.quarantine.remove(peer.client.dsid)
        peer.end(NOT_SUPPORTED)

    def release(self, dsid: str) -> None:
        """A client need not be in quarantine any more: it connects again, and is known then."""
        peer = self.quarantined.get(dsid)
        if peer is not None:
            self._close(peer, "authorized")
            self._leave_quarantine(peer)

    def expel(self, dsid: str) -> None:
        """A client is no longer known: its sessions end, and its tree is gone."""
        for peer in (*self.others.pop(dsid, ()), *filter(None, (self.peers.get(dsid),))):
            self._close(peer, "the client was removed")
            self._remove_peer(peer)

    def _close(self, peer: Peer, reason: str) -> None:
        if peer.connection is not None:
            peer.connection.link.close(reason)

    def _remove_peer(self, peer: Peer) -> None:
        client = peer.client
        if self.peers.get(client.dsid) is peer:
            del self.peers[client.dsid]
        if self.routes.places.get(peer.path) is peer:
            del self.routes.places[peer.path]
            self.tree.root.children[DOWNSTREAM].remove(client.name)
        for timer in ("session", "resume"):
            self.timers.drop((timer, peer))
        peer.end(NOT_SUPPORTED)


def _add_profiles(tree: Tree) -> None:
    """What standard profiles there are, so that a reader who follows ``$is`` finds them."""
    profiles = tree.root.add("pub").add("2.0")
    for name in ("node", "value", "action", "alias"):
        profiles.add(name)
