"""What a broker takes back from its store when it starts, together with what its settings say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .permissions import Role
from .queues import Update, Wish
from .routes import NoRoute
from .store import DropQueue, Kept, KeptQueue
from .subscribers import Subscriber
from .upstream import Upstream

if TYPE_CHECKING:
    from .server import DsaBroker


class Restoring:
    """``roles`` are the names of those that the settings have, ``upstreams`` what they say of brokers above."""

    def __init__(self, broker: DsaBroker, roles: Iterable[str], upstreams: Iterable[Upstream]) -> None:
        self._broker = broker
        self._role_names = frozenset(roles)
        self._upstreams = tuple(upstreams)

    def take(self, kept: Kept) -> None:
        restored_nodes = []
        for kind, key, fact in kept.facts:
            match kind:
                case "role":
                    self._restore_role(Role(**fact))
                case "node":
                    restored_nodes.append((key, fact))
                case "upstream":
                    self._broker.upstreams.restore(key, fact)
                case _:
                    self._broker.admission.restore(kind, key, fact)
        for key, fact in sorted(restored_nodes, key=lambda node: node[0].count("/")):
            self._broker.home.restore(key, fact)
        for client in self._broker.admission.clients.values():
            self._broker.sessions.place(client)
        self._broker.system.show_all()
        for upstream in self._upstreams:
            if upstream.name not in self._broker.upstreams:
                self._broker.upstreams.begin(upstream)
        for queue in kept.queues:
            self._restore_queue(queue)

    def _restore_role(self, role: Role) -> None:
        """What the settings say about a role counts, and rules that were added to it while it ran."""
        settings = self._broker.roles.get(role.name) if role.name in self._role_names else None
        if settings is not None:
            level = role.level if settings.level is None else settings.level
            role = Role(role.name, level, settings.fallback or role.fallback, {**role.rules, **settings.rules})
        self._broker.roles.put(role)

    def _restore_queue(self, kept: KeptQueue) -> None:
        """A durable subscription collects again, before its requester is back."""
        dsid, path, qos, size, seconds, is_priority = kept.record
        client = self._broker.admission.clients.get(dsid)
        try:
            route = self._broker.routes.find(path)
        except NoRoute:
            route = None
        peer = self._broker.sessions.session_of(client) if client is not None else None
        if peer is None or route is None:
            self._broker.desk.keep(DropQueue(kept.queue), None)
            return
        subscriber = Subscriber(peer, 0, path, Wish(qos, size, seconds, bool(is_priority)))
        subscriber.detach()
        subscriber.key = kept.queue
        for number, at, pages in kept.updates:
            subscriber.queue.restore(number, Update([(head, body) for head, body in pages]), at - self._broker.epoch)
        peer.waiting.setdefault(path, []).append(subscriber)
        values = route.peer.values_of(route.rest) if route.peer is not None else None
        if values is None and route.node is not None:
            values = self._broker.tree.values_of(route.node)
        assert values is not None
        values.resume(subscriber)
        self._broker.timers.set(("session", peer), self._broker.desk.now + self._broker.options.session_seconds)
