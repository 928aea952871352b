"""The domains that serve us: dialled, lost, dialled again; what they offer; requests to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocols import casual
from ...protocols.casual import OfferedQueue, OfferedService
from ..core.address import parse_address
from ..core.effects import Dial, Done, Failed, Result
from ..core.link import Link
from . import events
from .connections import Outbound, Replied
from .options import PeerSettings
from .wire import CASUAL_REVERSE, VERSION

if TYPE_CHECKING:
    from .branches import Branch
    from .session import CasualSession


@dataclass(slots=True, eq=False)
class Peer:
    """A domain that we ask, or that we dial so that it asks us. ``name`` is its address, or for one that dials us to
    serve, the name of its domain.
    """

    name: str
    settings: PeerSettings | None
    resource: int
    connection: Outbound | None = None
    link: Link | None = None
    failures: int = 0
    dialling: Dial | None = None
    services: dict[str, tuple[OfferedService, float]] = field(default_factory=dict)
    """What it offers, with hops counted from here, and until when we believe it."""
    queues: dict[str, tuple[OfferedQueue, float]] = field(default_factory=dict)
    branches: dict[Branch, None] = field(default_factory=dict)
    """Branches with work there that is not prepared: they are lost with the connection."""
    dial: Callable[[Peer], None] | None = None

    @property
    def is_ready(self) -> bool:
        return self.connection is not None and self.connection.is_ready

    def due(self, now: float) -> None:
        assert self.dial is not None
        self.dial(self)


class Peers:
    """All of them, by name."""

    def __init__(self, session: CasualSession) -> None:
        self.session = session
        self.by_name: dict[str, Peer] = {}
        self._count = 0
        self._is_leaving = False

    def add(self, name: str, settings: PeerSettings | None = None) -> Peer:
        self._count += 1
        peer = self.by_name[name] = Peer(name, settings, -self._count, dial=self._dial)
        return peer

    def named(self, name: str) -> Peer:
        """Return the peer of a record in the store; it is dialled if it is not in the settings any more."""
        peer = self.by_name.get(name)
        if peer is None:
            peer = self.add(name)
            try:
                peer.settings = PeerSettings(parse_address(name))
            except ValueError:
                return peer  # one that dials us
            self._dial(peer)
        return peer

    def ready(self) -> list[Peer]:
        return [peer for peer in self.by_name.values() if peer.is_ready]

    # --- connections

    def dial(self, settings: PeerSettings) -> None:
        """Dial a peer of the settings, now and whenever the connection is lost."""
        peer = self.by_name.get(settings.name) or self.add(settings.name)
        peer.settings = settings
        self._dial(peer)

    def _dial(self, peer: Peer) -> None:
        if peer.settings is not None and peer.dialling is None and peer.link is None and not self._is_leaving:
            peer.dialling = Dial(peer.settings.address)
            self.session.want_then(peer.dialling, lambda result, now: self._dialled(peer, result, now))

    def _dialled(self, peer: Peer, result: Result, now: float) -> None:
        peer.dialling = None
        match result:
            case Done(value=link):
                peer.link = link
                assert peer.settings is not None
                if peer.settings.reverse:
                    self.session.serve(link, now, peer)
                else:
                    self.greet(link, now, peer)
            case Failed(error=error):
                self.session.events.append(events.PeerLost(peer.name, str(getattr(error, "detail", error))))
                self.again(peer, now)

    def again(self, peer: Peer, now: float) -> None:
        """Dial again after a while, longer after each failure."""
        if peer.settings is not None and not self._is_leaving:
            options = self.session.options
            delay = min(options.retry_seconds * 2.0 ** min(peer.failures, 32), options.most_retry_seconds)
            peer.failures += 1
            self.session.timers.set(peer, now + delay * self.session.chance.uniform(0.8, 1.2))

    def greet(self, link: Link, now: float, peer: Peer | None = None) -> Outbound:
        """Introduce ourselves on a connection whose peer serves."""
        session = self.session
        profile = peer.settings.profile if peer is not None and peer.settings is not None else ""
        connection = Outbound(link, profile or session.options.profile, peer=peer)
        connection.most_unsent = session.options.limits.unsent
        link.state = connection
        if peer is not None:
            peer.connection = connection
        connection.hello = session.ids.uuid()
        domain, offer = session.identity, casual.Offer((VERSION,))
        connection.send(casual.DomainConnectRequest(connection.hello, session.ids.uuid(), domain, offer))
        session.timers.set(connection, now + session.options.handshake_seconds)
        return connection

    def greeted(self, connection: Outbound, message: casual.DomainConnectReply, now: float) -> None:
        if message.correlation != connection.hello or message.protocol.version != VERSION:
            reason = f"the peer chose version {message.protocol.version}, we speak {VERSION}"
            if connection.peer is not None:
                self.session.events.append(events.PeerLost(connection.peer.name, reason, is_refused=True))
            connection.link.close(reason)
            return
        self.session.timers.drop(connection)
        connection.is_ready = True
        connection.domain_id, connection.domain_name = message.domain.id, message.domain.name
        peer = connection.peer or self._adopt(connection)
        peer.failures = 0
        self.session.discovery.refresh(peer, now)
        self.session.events.append(events.PeerReady(peer.name, connection.domain_name))
        self.session.coordinator.peer_is_ready(peer, now)

    def _adopt(self, connection: Outbound) -> Peer:
        """A domain that dialled us to serve is known by its name: its address is another one each time."""
        name = connection.domain_name or connection.link.peer
        peer = self.by_name.get(name) or self.add(name)
        if peer.link is not None:
            peer.link.close("the domain has connected again")
        connection.peer, peer.connection, peer.link = peer, connection, connection.link
        return peer

    def lost(self, connection: Outbound, now: float) -> None:
        """The connection is gone: every request has its local reply, and work that is not prepared is lost."""
        connection.is_lost = True
        self.session.timers.drop(connection)
        peer = connection.peer
        if peer is not None and peer.connection is connection:
            peer.connection = peer.link = None
            for branch in list(peer.branches):
                branch.spoil()
            peer.branches.clear()
            closing = connection.link.closing
            reason = closing.reason if closing is not None else "the peer closed the connection"
            self.session.events.append(events.PeerLost(peer.name, reason))
            self.again(peer, now)
        connection.lose(self.session.timers, now)

    def lost_reverse(self, peer: Peer, now: float) -> None:
        """A connection that we dialled so that the peer asks is gone."""
        peer.link = None
        self.again(peer, now)

    def leave(self) -> None:
        """Dial nobody any more."""
        self._is_leaving = True

    # --- requests

    def ask(
        self,
        peer: Peer,
        message: Any,
        expects: tuple[type, ...],
        seconds: float | None,
        replied: Replied,
        now: float,
    ) -> None:
        """Send a request; ``replied`` gets the reply, or None: no connection, lost, or no reply within ``seconds``."""
        connection = peer.connection
        if connection is None or not connection.is_ready or connection.link.closing is not None:
            replied(None, now)
            return
        pending = connection.ask(message, expects, replied)
        if seconds is not None:
            self.session.timers.set(pending, now + seconds)


def is_reverse(link: Link) -> bool:
    """Tell whether who dialled this link serves us."""
    return link.side == "server" and link.framing is CASUAL_REVERSE
