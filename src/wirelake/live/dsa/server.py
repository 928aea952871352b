"""A DSA broker: links connect to it, hang their trees into its own, and reach those of others through it.

Its parts: ``greetings`` does handshakes, ``admission`` knows who may come in, ``sessions`` who is here, ``routes``
where paths lead, ``dispatch`` what becomes of requests. ``values`` and ``lists`` merge streams, ``forwards`` passes on
what is not merged. ``system_nodes`` and ``home_nodes`` are the broker's own nodes, ``upstream`` the brokers above,
``keeping`` and ``restoring`` what outlives the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from ...protocols import dsa as p
from ..core.effects import Dial, Effect, Result, Store
from ..core.link import Link
from ..core.session import SERVER, Session, World
from ..core.timers import Timers
from .admission import Admission, NotAdmitted
from .desk import Desk
from .dispatch import Dispatch
from .greetings import Greetings, Guest
from .handshake import HandshakeRefused, Identity
from .home_nodes import HomeNodes
from .keeping import Keeping
from .options import BrokerOptions
from .peers import Peer
from .permissions import Role, Roles
from .restoring import Restoring
from .routes import Routes
from .sessions import DOWNSTREAM, Sessions
from .store import Kept
from .system_nodes import SystemNodes
from .tree import Tree
from .upstream import Upstream, Upstreams, Way
from .wire import Received

DENIED = 0x40


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
        **world: Unpack[World],
    ) -> None:
        super().__init__(**world)
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
        self.admission = Admission(self.desk, allow_all=allow_all, quarantine=quarantine)
        self.tree = Tree(self.desk)
        self.routes = Routes(self.tree, self.options.max_aliases)
        for name in (DOWNSTREAM, "upstream"):
            self.tree.root.add(name)
        self.home = HomeNodes(self)
        self.system = SystemNodes(self)
        _add_profiles(self.tree)
        self.upstreams = Upstreams(self)
        self.sessions = Sessions(self)
        self.greetings = Greetings(self)
        self._dispatch = Dispatch(self)
        self._restoring = Restoring(self, roles or {}, upstreams)
        self._is_loaded = False
        self._early: list[Link] = []
        """Connections that came before everything was loaded."""
        self._keeping.load(self._loaded)

    @property
    def deadline(self) -> float | None:
        return self.timers.deadline

    def _loaded(self, kept: Kept) -> None:
        self._restoring.take(kept)
        self._is_loaded = True
        for link in self._early:
            link.resume()
        self._early.clear()

    # --- connections

    def connected(self, link: Link, now: float) -> None:
        self._begin(now)
        if link.side == SERVER:
            self.greetings.receive(link)
            if not self._is_loaded:
                link.pause()
                self._early.append(link)

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
                self.sessions.left(guest.peer)
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
                    self.sessions.expire(peer)
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

    def take(self, guest: Guest, message: Received) -> object:
        """Handle a message of a connection; return whether it is to be closed."""
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
            self.greetings.step(guest, message)
        except HandshakeRefused as refused:
            self.greetings.turn_away(guest, refused.detail, refused.status)
        except NotAdmitted as refused:
            self.greetings.turn_away(guest, str(refused), DENIED)
        return guest.connection.link.closing is not None


def _add_profiles(tree: Tree) -> None:
    """What standard profiles there are, so that a reader who follows ``$is`` finds them."""
    profiles = tree.root.add("pub").add("2.0")
    for name in ("node", "value", "action", "alias"):
        profiles.add(name)
