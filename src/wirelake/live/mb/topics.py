"""Who of the services around a broker gets what, and how much they may subscribe. Topics are in lower case."""

from __future__ import annotations

from collections.abc import Iterable

from ...codec.subscriptions import Subscriptions
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
Subscriber = tuple[Service, float]
"""With its priority, which counts for requests."""


def is_valid_topic(text: str, *, wildcards: bool) -> bool:
    return is_pattern(RULES, text) if wildcards else is_topic(text)


def everybody(found: Iterable[Subscriber]) -> tuple[Service, ...]:
    """Every service with a matching subscription, once."""
    return tuple(dict.fromkeys(service for service, _ in found))


def best(found: Iterable[Subscriber]) -> tuple[Service, ...]:
    """The services that have the highest priority for a topic."""
    matching = list(found)
    highest = max((priority for _, priority in matching), default=0)
    return everybody(one for one in matching if one[1] == highest)


class Topics:
    def __init__(self, options: BrokerOptions) -> None:
        self.published: Subscriptions[Subscriber] = Subscriptions(RULES, pick=everybody)
        self.requested: Subscriptions[Subscriber] = Subscriptions(RULES, pick=best)
        self.listing = Listing()
        self._by_action = {PUBLISH: self.published, REQUEST: self.requested}
        self._options = options

    def subscribers(self, topic: str) -> tuple[Service, ...]:
        """Those who have subscribed this topic itself."""
        return everybody(self.published.holders.get(topic, ()))

    def subscribe(self, service: Service, action: str, topic: str, priority: float = 0) -> None:
        topics, subscriptions = service.topics[action], self._by_action[action]
        before = topics.get(topic)
        if before == priority:
            return
        if before is None:
            self._check_limits(service)
        else:
            subscriptions.remove((service, before), topic)
        topics[topic] = priority
        subscriptions.add((service, priority), topic)
        self.listing.change(action, topic, subscriptions.holders[topic])

    def unsubscribe(self, service: Service, action: str, topic: str) -> bool:
        """False if it was not subscribed."""
        subscriptions = self._by_action[action]
        priority = service.topics[action].pop(topic, None)
        if priority is None:
            return False
        subscriptions.remove((service, priority), topic)
        self.listing.change(action, topic, subscriptions.holders.get(topic, ()))
        return True

    def forget(self, service: Service) -> None:
        """The service is gone, and its subscriptions with it."""
        for action, topics in service.topics.items():
            for topic in list(topics):
                self.unsubscribe(service, action, topic)

    def _check_limits(self, service: Service) -> None:
        own, all_together = self._options.max_subscriptions, self._options.max_all_subscriptions
        count = sum(map(len, service.topics.values()))
        everything = sum(one.topics + one.patterns for one in self._by_action.values())
        if own and count >= own:
            raise Fault("SERVICE_UNAVAILABLE", f"more than {own} subscriptions of one service")
        if 0 < all_together <= everything and count >= RESERVED:
            raise Fault("SERVICE_UNAVAILABLE", f"more than {all_together} subscriptions of all services")
