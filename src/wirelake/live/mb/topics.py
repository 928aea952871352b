"""Who of the services around a broker gets what: subscriptions by topic and pattern. What was found for a topic is kept
until a subscription changes it.
"""

from __future__ import annotations

from ...codec.topic_tree import Patterns
from ...codec.topics import is_pattern, is_topic
from ...protocols.mb import PROTOCOL
from .connection import Service
from .listing import Listing
from .options import BrokerOptions
from .wire import PUBLISH, REQUEST, Fault

assert PROTOCOL.topics is not None
RULES = PROTOCOL.topics
RESERVED = 16
"""Subscriptions that a service may have even if all together have too many: so nobody can shut others out."""
MAX_ROUTES = 4096
"""How many topics' routes are remembered; then the memory starts anew."""


def is_valid_topic(text: str, *, wildcards: bool) -> bool:
    """Whether a service may name this when it subscribes."""
    return is_pattern(RULES, text) if wildcards else is_topic(text)


def has_wildcards(topic: str) -> bool:
    return RULES.one in topic or RULES.rest in topic


class Subscriptions:
    """Those of one kind, publish or request: for each topic or pattern the services in the order they came, with
    their priority. Topics are in lower case.
    """

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[Service, float]] = {}
        self.routes: dict[str, tuple[Service, ...]] = {}
        """For publishes: who gets a topic's messages. Kept by ``receivers``."""
        self._best: dict[str, tuple[Service, ...]] = {}
        self._patterns: Patterns[str] = Patterns(RULES)

    def add(self, service: Service, topic: str, priority: float = 0) -> None:
        found = self.by_topic.get(topic)
        if found is None:
            found = self.by_topic[topic] = {}
            if has_wildcards(topic):
                self._patterns.add(topic, topic)
        found[service] = priority
        self._forget(topic)

    def remove(self, service: Service, topic: str) -> bool:
        found = self.by_topic.get(topic)
        if found is None or service not in found:
            return False
        del found[service]
        if not found:
            del self.by_topic[topic]
            if has_wildcards(topic):
                self._patterns.remove(topic, topic)
        self._forget(topic)
        return True

    def receivers(self, topic: str) -> tuple[Service, ...]:
        """Every service with a matching subscription, once."""
        return self._keep(self.routes, topic, tuple(self._matching(topic)))

    def best(self, topic: str) -> tuple[Service, ...]:
        """The services that have the highest priority for this topic."""
        known = self._best.get(topic)
        if known is not None:
            return known
        matching = self._matching(topic)
        highest = max(matching.values(), default=0)
        return self._keep(self._best, topic, tuple(s for s, priority in matching.items() if priority == highest))

    def exactly(self, topic: str) -> tuple[Service, ...]:
        """Those who named this topic itself."""
        return tuple(self.by_topic.get(topic, ()))

    def _matching(self, topic: str) -> dict[Service, float]:
        wanted: dict[str, None] = {topic: None}
        for _ in self._patterns.search(topic, wanted):
            pass
        matching: dict[Service, float] = {}
        for one in wanted:
            for service, priority in self.by_topic.get(one, {}).items():
                matching[service] = max(priority, matching.get(service, priority))
        return matching

    def _keep(
        self, memory: dict[str, tuple[Service, ...]], topic: str, found: tuple[Service, ...]
    ) -> tuple[Service, ...]:
        if len(memory) >= MAX_ROUTES:
            memory.clear()
        memory[topic] = found
        return found

    def _forget(self, topic: str) -> None:
        if has_wildcards(topic):
            self.routes.clear()
            self._best.clear()
        else:
            self.routes.pop(topic, None)
            self._best.pop(topic, None)


class Topics:
    """All subscriptions, and how many there may be."""

    def __init__(self, options: BrokerOptions) -> None:
        self.published = Subscriptions()
        self.requested = Subscriptions()
        self.listing = Listing()
        self._by_action = {PUBLISH: self.published, REQUEST: self.requested}
        self._options = options
        self._count = 0

    def subscribe(self, service: Service, action: str, topic: str, priority: float = 0) -> None:
        if topic not in service.topics[action]:
            self._check_limits(service)
            self._count += 1
        service.topics[action][topic] = priority
        subscriptions = self._by_action[action]
        subscriptions.add(service, topic, priority)
        self.listing.change(action, topic, subscriptions.by_topic[topic])

    def unsubscribe(self, service: Service, action: str, topic: str) -> bool:
        """False if it was not subscribed."""
        subscriptions = self._by_action[action]
        if service.topics[action].pop(topic, None) is None:
            return False
        self._count -= 1
        subscriptions.remove(service, topic)
        self.listing.change(action, topic, subscriptions.by_topic.get(topic, {}))
        return True

    def forget(self, service: Service) -> None:
        """The service is gone, and its subscriptions with it."""
        for action, topics in service.topics.items():
            for topic in list(topics):
                self.unsubscribe(service, action, topic)

    def _check_limits(self, service: Service) -> None:
        own, all_together = self._options.max_subscriptions, self._options.max_all_subscriptions
        count = sum(map(len, service.topics.values()))
        if own and count >= own:
            raise Fault("SERVICE_UNAVAILABLE", f"more than {own} subscriptions of one service")
        if all_together and self._count >= all_together and count >= RESERVED:
            raise Fault("SERVICE_UNAVAILABLE", f"more than {all_together} subscriptions of all services")
