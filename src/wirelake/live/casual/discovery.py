"""Which domain offers a service or a queue: what peers say, for how long we believe it, and what we say ourselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocols import casual
from ...protocols.casual import OfferedQueue, OfferedService
from .connections import Inbound
from .peers import Peer
from .wire import MOST_TIME

if TYPE_CHECKING:
    from .session import CasualSession

ADMIN = ".admin"
"""The category of services that are never offered to other domains."""


@dataclass(slots=True, eq=False)
class Answers:
    """What peers say to one question."""

    left: int
    done: Callable[[Answers, float], None]
    services: list[tuple[str, OfferedService]] = field(default_factory=list)
    queues: list[tuple[str, OfferedQueue]] = field(default_factory=list)


class Discovery:
    """Asks peers, remembers, and replies to those who ask us."""

    def __init__(self, session: CasualSession) -> None:
        self.session = session
        self._executions: set[bytes] = set()
        """Chains in which we ask: a question that comes back to us is not passed on again."""

    # --- we ask

    def refresh(self, peer: Peer, now: float) -> None:
        """Ask a peer that is new, or back, for what we have used of it."""
        self._ask(peer, tuple(peer.services), tuple(peer.queues), self.session.ids.uuid(), lambda _, now: None, now)

    def ask(
        self,
        services: tuple[str, ...],
        queues: tuple[str, ...],
        done: Callable[[Answers, float], None],
        now: float,
        *,
        execution: bytes | None = None,
        without: bytes = b"",
        only: Peer | None = None,
    ) -> None:
        """Ask all peers that are there, but the domain ``without``, or ``only`` one; ``done`` is called once."""
        execution = execution or self.session.ids.uuid()
        ready = self.session.peers.ready()
        asked = [only] if only is not None else [p for p in ready if p.connection and p.connection.domain_id != without]
        answers = Answers(len(asked), done)
        if not asked or execution in self._executions:
            done(answers, now)
            return
        self._executions.add(execution)

        def collect(peer: Peer) -> Callable[[Any, float], None]:
            return lambda reply, now: self._collect(answers, peer, reply, execution, now)

        for peer in asked:
            self._ask(peer, services, queues, execution, collect(peer), now)

    def _collect(self, answers: Answers, peer: Peer, reply: Any, execution: bytes, now: float) -> None:
        answers.left -= 1
        if reply is not None:
            answers.services += [(peer.name, offer) for offer in _farther(peer, reply.services)]
            answers.queues += [(peer.name, offer) for offer in reply.queues]
        if not answers.left:
            self._executions.discard(execution)
            answers.done(answers, now)

    def _ask(
        self,
        peer: Peer,
        services: tuple[str, ...],
        queues: tuple[str, ...],
        execution: bytes,
        replied: Callable[[Any, float], None],
        now: float,
    ) -> None:
        session = self.session
        request = casual.DomainDiscoverRequest(session.ids.uuid(), execution, session.identity, services, queues)

        def remember(reply: Any, now: float) -> None:
            if reply is not None:
                self._remember(peer, services, queues, reply, now)
            replied(reply, now)

        seconds = session.options.discovery_seconds
        session.peers.ask(peer, request, (casual.DomainDiscoverReply,), seconds, remember, now)

    def _remember(self, peer: Peer, services: tuple[str, ...], queues: tuple[str, ...], reply: Any, now: float) -> None:
        until = now + self.session.options.refresh_seconds
        for service in services:
            peer.services.pop(service, None)
        for queue in queues:
            peer.queues.pop(queue, None)
        for offer in _farther(peer, reply.services):
            if offer.hops <= self.session.options.limits.hops:
                peer.services[offer.name] = (offer, until)
        for offered in reply.queues:
            peer.queues[offered.name] = (offered, until)

    def find_service(
        self,
        name: str,
        found: Callable[[Peer | None, float], None],
        now: float,
        *,
        execution: bytes | None = None,
        without: bytes = b"",
    ) -> None:
        """Find the nearest peer that offers a service; ask if nobody fresh is known."""
        peer = self._known(name, now, without)
        if peer is not None:
            found(peer, now)
            return
        asked = lambda answers, now: found(self._known(name, now, without), now)  # noqa: E731
        self.ask((name,), (), asked, now, execution=execution, without=without)

    def _known(self, name: str, now: float, without: bytes) -> Peer | None:
        offers = [
            (peer.services[name][0].hops, peer)
            for peer in self.session.peers.ready()
            if name in peer.services and peer.services[name][1] > now
            if peer.connection is not None and peer.connection.domain_id != without
        ]
        return min(offers, key=lambda offer: offer[0])[1] if offers else None

    def find_queue(self, name: str, found: Callable[[Peer | None, float], None], now: float) -> None:
        peer = self._known_queue(name, now)
        if peer is not None:
            found(peer, now)
        else:
            self.ask((), (name,), lambda answers, now: found(self._known_queue(name, now), now), now)

    def _known_queue(self, name: str, now: float) -> Peer | None:
        offers = (peer for peer in self.session.peers.ready() if name in peer.queues and peer.queues[name][1] > now)
        return next(offers, None)

    # --- we are asked

    def asked(self, connection: Inbound, message: casual.DomainDiscoverRequest, now: float) -> None:
        session = self.session
        if not connection.begin(message.correlation, len(message.services) + len(message.queues)):
            return
        own = [offer for name in dict.fromkeys(message.services) if (offer := session.offer(name, connection.units))]
        own_names = {offer.name for offer in own}
        queues = tuple(
            OfferedQueue(name, session.queues.retries[name])
            for name in dict.fromkeys(message.queues)
            if name in session.queues.retries
        )
        unknown = tuple(name for name in dict.fromkeys(message.services) if name not in own_names)

        def reply(answers: Answers, now: float) -> None:
            nearest: dict[str, OfferedService] = {}
            for _, offer in answers.services:
                is_nearer = offer.name not in nearest or offer.hops < nearest[offer.name].hops
                if is_nearer and offer.hops <= session.options.limits.hops and offer.category != ADMIN:
                    nearest[offer.name] = offer
            farther = tuple(_passed_on(nearest[name], connection) for name in unknown if name in nearest)
            services = tuple(own) + farther
            connection.end(message.correlation)
            connection.send(
                casual.DomainDiscoverReply(message.correlation, message.execution, session.identity, services, queues)
            )

        if not unknown:
            reply(Answers(0, reply), now)
        else:
            self.ask(unknown, (), reply, now, execution=message.execution, without=message.domain.id)


def _farther(peer: Peer, offers: tuple[OfferedService, ...]) -> list[OfferedService]:
    """Services as they are seen from here: one hop farther away than from who told us, with times in nanoseconds."""
    size = peer.connection.units.size if peer.connection is not None else 1
    return [OfferedService(one.name, one.category, one.transaction, one.timeout * size, one.hops + 1) for one in offers]


def _passed_on(offer: OfferedService, connection: Inbound) -> OfferedService:
    timeout = min(offer.timeout // connection.units.size, MOST_TIME)
    return OfferedService(offer.name, offer.category, offer.transaction, timeout, offer.hops)
