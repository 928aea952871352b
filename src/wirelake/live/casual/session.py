"""A casual domain: one session that listens and dials, serves other domains and asks them.

It is made of parts, each in its own file: ``peers`` (domains that serve us), ``discovery``, ``calls``, ``queues``,
``branches`` (of transactions), ``resource`` (what other coordinators ask), ``coordinator`` (what we ask of domains
below us), ``conversations``, ``requests`` (of our own application). Here is what they share: connections, time,
effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

from ...codec.quick_frames import QuickFrames
from ...errors import DecodeError, LimitExceeded
from ...protocols import casual
from ...protocols.casual import Domain as Identity
from ...protocols.casual import OfferedService
from ..core.effects import Done, Effect, Result, Store
from ..core.link import Link
from ..core.session import SERVER, Session, World
from ..core.timers import Timers
from .branches import Branch, Branches
from .calls import Calls
from .connections import Connection, Inbound, Outbound
from .conversations import Conversations
from .coordinator import Coordinator
from .discovery import ADMIN, Discovery
from .handlers import MODES, ServiceEntry
from .options import DomainOptions, PeerSettings, QueueSettings
from .peers import Peer, Peers, is_reverse
from .queues import SHARED_POLL_SECONDS, Queues
from .requests import Requests
from .resource import Resource
from .store import Load
from .wire import HEADER_BYTES, KNOWN_CODES, LATE, LAYOUT, VERSION, XA_RBTIMEOUT, Ids, Units, decode

ADOPT_SECONDS = 10.0
"""How often a shared store is asked for what hubs that died have left."""


class _Later:
    """Something to do at a time."""

    __slots__ = ("due",)

    def __init__(self, due: Callable[[float], None]) -> None:
        self.due = due


class CasualSession(Session):
    """``services`` by name are what it offers, ``queues`` are those of its store, ``peers`` the domains it dials.
    ``is_shared``: other processes use the same store.
    """

    most_effects = 64  # one peer must not fill a batch of the store: others wait for it

    def __init__(
        self,
        options: DomainOptions | None = None,
        *,
        services: Mapping[str, ServiceEntry] | None = None,
        queues: Iterable[QueueSettings] = (),
        peers: Iterable[PeerSettings] = (),
        is_shared: bool = False,
        **world: Unpack[World],
    ) -> None:
        super().__init__(**world)
        self.options = options or DomainOptions()
        self.services: Mapping[str, ServiceEntry] = {} if services is None else services
        self.ids = Ids(self.chance)
        self.identity = Identity(self.ids.uuid(), self.options.name)
        self.timers: Timers[Any] = Timers()
        self.is_shared = is_shared
        self.is_loaded = False
        self._after: dict[Effect, Callable[[Result, float], None]] = {}
        self._before_load: list[Callable[[float], None]] = []
        self._last_time = 0
        self._now: float | None = None
        self.branches = Branches(self)
        self.coordinator = Coordinator(self)
        self.resource = Resource(self)
        self.discovery = Discovery(self)
        self.queues = Queues(self, queues)
        self.calls = Calls(self)
        self.conversations = Conversations(self)
        self.requests = Requests(self)
        self._inbound: dict[type, Callable[[Inbound, Any, float], None]] = {
            casual.DomainDiscoverRequest: self.discovery.asked,
            casual.ServiceCallRequest: self.calls.called,
            casual.QueueEnqueueRequest: self.queues.enqueue_asked,
            casual.QueueDequeueRequest: self.queues.dequeue_asked,
            casual.ResourcePrepareRequest: self.resource.prepare_asked,
            casual.ResourceCommitRequest: self.resource.commit_asked,
            casual.ResourceRollbackRequest: self.resource.rollback_asked,
        }
        self._is_leaving = False
        if is_shared:
            self.queues.poll_seconds = SHARED_POLL_SECONDS
        self.peers = Peers(self)
        self._settings = tuple(peers)

    def open(self, now: float) -> None:
        """Begin: read the store, then serve and dial."""
        self.branches.load(self._loaded, now)

    # --- what the parts use

    @property
    def deadline(self) -> float | None:
        return self.timers.deadline

    def tick(self, now: float) -> None:
        for timer in self.timers.due(now):
            timer.due(now)

    def at(self, when: float, due: Callable[[float], None]) -> None:
        """Do something at a time."""
        self.timers.set(_Later(due), when)

    def time(self, now: float) -> int:
        """Return the time of day in nanoseconds; it never goes back."""
        if now != self._now:
            self._now = now
            self._last_time = max(self._last_time, int((self.epoch + now) * 1e9))
        return self._last_time

    def moment(self, time: int) -> float:
        """Return the ``now`` at which it will be that time of day."""
        return time / 1e9 - self.epoch + 1e-6

    def tombstone(self, branch: Branch, now: float) -> int:
        """Return until when the outcome of a branch is kept; a transaction of ours needs none."""
        if branch.ended is not None:
            return 0
        return self.time(now) + int(self.options.tombstone_seconds * 1e9)

    def want_then(self, effect: Effect, after: Callable[[Result, float], None]) -> None:
        """Ask for an effect, and call ``after`` when it has ended."""
        self._after[effect] = after
        self.want(effect)

    def completed(self, effect: Effect, result: Result, now: float) -> None:
        super().completed(effect, result, now)
        self._after.pop(effect)(result, now)

    def store(self, request: Any, after: Callable[[Result, float], None], now: float, *, is_long: bool = False) -> None:
        self.want_then(Store(request, is_long), after)

    def watch(self, branch: Branch, now: float) -> None:
        """Roll back an active branch after a while, if that is wanted."""
        if self.options.branch_seconds:
            self.at(now + self.options.branch_seconds, lambda now: self.resource.abandon(branch, XA_RBTIMEOUT, now))

    def offer(self, name: str, units: Units) -> OfferedService | None:
        """Return a service of ours as it is offered to other domains."""
        service = self.services.get(name)
        if service is None or service.category == ADMIN:
            return None
        timeout = units.duration(service.timeout or None)
        return OfferedService(name, service.category, MODES.index(service.transaction), timeout, 0)

    # --- the beginning

    def _loaded(self, now: float) -> None:
        self.is_loaded = True
        for link_began in self._before_load:
            link_began(now)
        self._before_load.clear()
        for one in self._settings:
            self.peers.dial(one)
        if self.is_shared:
            self.at(now + ADOPT_SECONDS, self._adopt)

    def _adopt(self, now: float) -> None:
        def loaded(result: Result, now: float) -> None:
            if isinstance(result, Done):
                self.branches.adopt(result.value, now)
            self.at(now + ADOPT_SECONDS, self._adopt)

        self.store(Load(self.time(now)), loaded, now)

    # --- connections

    def connected(self, link: Link, now: float) -> None:
        if link.side != SERVER:
            return  # ours: what it is for is known when the dial has ended
        if is_reverse(link):
            self.peers.greet(link, now)
        else:
            self.serve(link, now)

    def serve(self, link: Link, now: float, peer: Peer | None = None) -> Inbound:
        """Wait for requests on a connection; ``peer`` is whom we dialled for it."""
        profile = peer.settings.profile if peer is not None and peer.settings is not None else ""
        connection = Inbound(link, profile or self.options.profile, limits=self.options.limits, dialled=peer)
        connection.most_unsent = self.options.limits.unsent
        connection.frames = QuickFrames(LAYOUT, self.options.limits.frame)
        link.state = connection
        self.timers.set(connection, now + self.options.handshake_seconds)
        if not self.is_loaded:
            link.pause()
            self._before_load.append(lambda now: link.resume())
        return connection

    def receive(self, link: Link, data: bytes, now: float) -> None:
        connection: Connection | None = link.state
        if connection is None:
            return
        connection.heard = now
        try:
            connection.frames.read(data, self._take, (connection, now))
        except LimitExceeded as error:
            self._break_off(connection, error)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        for body in bodies:
            self.receive(link, body, now)

    def _take(self, context: tuple[Connection, float], data: bytes, start: int, stop: int) -> bool:
        connection, now = context
        self.counts["messages"] += 1
        frame = data[start - HEADER_BYTES : stop]
        try:
            message = decode(frame)
        except DecodeError as error:
            return self._misread(connection, frame, error)
        if type(connection) is Inbound:
            serve = self._inbound.get(type(message))
            if serve is not None and connection.is_ready:
                serve(connection, message, now)
            else:
                self._serve(connection, message, now)
        else:
            assert isinstance(connection, Outbound)
            self._hear(connection, message, now)
        return connection.link.closing is not None

    def _misread(self, connection: Connection, frame: bytes, error: DecodeError) -> bool:
        """Skip a message of unknown type, which is none before the handshake; tell whether the stream ends here."""
        code = int.from_bytes(frame[:8], "big")
        if code in KNOWN_CODES:
            self._break_off(connection, error)
            return True
        if isinstance(connection, Inbound) and not connection.is_ready:
            connection.link.close("a message came before the handshake")
            return True
        self.counts["unknown_skipped"] += 1
        self.note("warn", "skipped a message of unknown type", peer=connection.link.peer, type=code)
        return False

    def _break_off(self, connection: Connection, error: DecodeError) -> None:
        self.counts["undecodable"] += 1
        self.note("warn", "closed a connection: undecodable bytes", peer=connection.link.peer, reason=str(error))
        connection.link.close(f"undecodable: {error.rule}")

    def _serve(self, connection: Inbound, message: Any, now: float) -> None:
        """A peer that asks sent something that is no request, or came too early."""
        kind = type(message)
        if kind is casual.DomainConnectRequest:
            self._introduce(connection, message, now)
        elif not connection.is_ready:
            self.note("warn", "closed a connection: no handshake", peer=connection.link.peer, message=kind.__name__)
            connection.link.close("a message came before the handshake")
        elif not self.conversations.served(connection, message, now):
            self._ignore(connection, message)

    def _introduce(self, connection: Inbound, message: casual.DomainConnectRequest, now: float) -> None:
        if connection.is_ready:
            connection.link.close("a second handshake")
            return
        version = VERSION if VERSION in message.protocol.versions else 0
        chosen = casual.Chosen(version)
        connection.send(casual.DomainConnectReply(message.correlation, message.execution, self.identity, chosen))
        self.timers.drop(connection)
        if not version:
            connection.link.close("no common version")
            return
        if max(message.protocol.versions) > VERSION:
            connection.profile = LATE  # only implementations that changed units offer more
        connection.is_ready = True
        connection.domain_id, connection.domain_name = message.domain.id, message.domain.name
        self._watch_idle(connection, now)

    def _watch_idle(self, connection: Inbound, now: float) -> None:
        """Close a connection over which nothing came for long, unless the peer waits for something of ours."""
        limit = self.options.idle_seconds
        if not limit or connection.is_lost:
            return
        if connection.requests or connection.branches or connection.conversations:
            connection.heard = now
        if now >= connection.heard + limit:
            self.counts["idle_closed"] += 1
            connection.link.close("idle")
        else:
            self.at(connection.heard + limit, lambda now: self._watch_idle(connection, now))

    def _hear(self, connection: Outbound, message: Any, now: float) -> None:
        """A peer that serves us sent something."""
        if type(message) is casual.DomainConnectReply and not connection.is_ready:
            self.peers.greeted(connection, message, now)
        elif not connection.is_ready:
            connection.link.close("a message came before the handshake")
        elif not connection.reply(message, self.timers, now) and not self.conversations.heard(connection, message, now):
            self._ignore(connection, message)

    def _ignore(self, connection: Connection, message: Any) -> None:
        self.counts["unexpected_ignored"] += 1
        fields = {"peer": connection.link.peer, "message": type(message).__name__}
        self.note("info", "ignored a message that nobody waits for", **fields)

    def disconnected(self, link: Link, now: float) -> None:
        connection: Connection | None = link.state
        link.state = None
        if connection is None:
            return
        connection.is_lost = True
        self.timers.drop(connection)
        self.conversations.lost(connection, now)
        if isinstance(connection, Outbound):
            self.peers.lost(connection, now)
        elif isinstance(connection, Inbound):
            self.queues.lost(connection, now)
            self.resource.lost(connection, now)
            if connection.dialled is not None:
                self.peers.lost_reverse(connection.dialled, now)

    def leaving(self, now: float) -> None:
        self.peers.leave()
