"""Who wants which topics. Routes are remembered until a subscription changes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic

from ...codec.topic_tree import Patterns, Who
from ...protocols.ceda import PROTOCOL

assert PROTOCOL.topics is not None
RULES = PROTOCOL.topics
MAX_ROUTES = 1 << 16


def is_pattern(text: str) -> bool:
    return RULES.one in text


class Subscriptions(Generic[Who]):
    """Patterns and literal topics of any number of subscribers."""

    def __init__(self, strict: bool = False) -> None:
        self._strict = strict
        self._literal: dict[str, dict[Who, None]] = {}
        self._patterns: Patterns[Who] = Patterns(RULES, strict)
        self._routes: dict[str, tuple[Who, ...]] = {}
        self._begun: dict[str, dict[str, None]] = {}
        """The topics of routes, by their first segment."""
        self._gone: set[Who] = set()
        """Those who leave slowly."""
        self._changes = 0
        self._once: tuple[str, tuple[Who, ...]] | None = None
        """What a search found while subscriptions changed: good for one message."""
        self.quick: dict[bytes, tuple[Who, ...]] = {}
        """Routes by the bytes of their topic, which the owner fills; what a change concerns is taken out."""
        self.of: dict[Who, dict[str, None]] = {}
        self.topics = self.patterns = 0
        """How many there are of all subscribers."""

    def add(self, who: Who, text: str) -> bool:
        """Whether this is new."""
        mine = self.of.setdefault(who, {})
        if text in mine:
            return False
        mine[text] = None
        if is_pattern(text):
            self.patterns += 1
            self._patterns.add(text, who)
        else:
            self.topics += 1
            self._literal.setdefault(text, {})[who] = None
        self._forget(text)
        return True

    def remove(self, who: Who, text: str) -> bool:
        """Whether it was there."""
        mine = self.of.get(who)
        if mine is None or text not in mine:
            return False
        del mine[text]
        if not mine:
            del self.of[who]
        self._take_out(who, text)
        self._forget(text)
        return True

    def _take_out(self, who: Who, text: str) -> None:
        if is_pattern(text):
            self.patterns -= 1
            self._patterns.remove(text, who)
        else:
            self.topics -= 1
            holders = self._literal[text]
            del holders[who]
            if not holders:
                del self._literal[text]

    def leave(self, who: Who) -> None:
        """Takes everything back."""
        mine = self.of.pop(who, {})
        for text in mine:
            self._take_out(who, text)
        if any(map(self.is_wild, mine)):
            self._changes += 1
            self._forget_all()
        else:
            for text in mine:
                self._forget(text)

    def leave_slowly(self, who: Who) -> Iterator[int]:
        """The same in slices, of somebody who never comes back; no route leads there from the first slice on."""
        mine = self.of.pop(who, {})
        self._gone.add(who)
        self._changes += 1
        self._forget_all()
        for text in mine:
            yield 1 + text.count(".")
            self._take_out(who, text)
        self._gone.discard(who)

    def has(self, who: Who, text: str) -> bool:
        return text in self.of.get(who, ())

    def search(self, topic: str) -> Iterator[int]:
        """Find the route of a topic, which ``route`` gives then; say now and then how much work that was."""
        if topic in self._routes:
            return
        changes = self._changes
        everybody: dict[Who, None] = dict(self._literal.get(topic, ()))
        yield from self._patterns.search(topic, everybody)
        found = tuple(who for who in everybody if who not in self._gone) if self._gone else tuple(everybody)
        if changes != self._changes:
            self._once = (topic, found)
            return
        if len(self._routes) >= MAX_ROUTES:
            self._forget_all()
        self._routes[topic] = found
        self._begun.setdefault(self._first(topic), {})[topic] = None

    def route(self, topic: str) -> tuple[Who, ...]:
        """Everybody who wants this topic, each once."""
        found = self._routes.get(topic)
        if found is None and self._once is not None and self._once[0] == topic:
            found, self._once = self._once[1], None
        if found is None:
            for _ in self.search(topic):
                pass
            found = self._routes[topic]
        return found

    def holds(self, topic: str) -> bool:
        """Whether the route of a topic is remembered: one that was found while subscriptions changed is not."""
        return topic in self._routes

    def matches(self, texts: Iterable[str], topics: Iterable[str]) -> Iterator[str | int]:
        """The topics that one of these texts asks for; between them how much work they were."""
        literal = set()
        patterns: Patterns[None] = Patterns(RULES, self._strict)
        for text in texts:
            if is_pattern(text):
                patterns.add(text, None)
            else:
                literal.add(text)
        for topic in topics:
            found: dict[None, None] = {}
            yield from patterns.search(topic, found)
            if found or topic in literal:
                yield topic

    def is_wild(self, text: str) -> bool:
        """Whether a change of this concerns every route."""
        return is_pattern(text) and self._first(text) in (RULES.one, RULES.rest)

    def _first(self, text: str) -> str:
        return text.partition(".")[0] if self._strict else text.lstrip(".").partition(".")[0]

    def _forget(self, text: str) -> None:
        self._changes += 1
        if self.is_wild(text):
            self._forget_all()
            return
        topics = self._begun.pop(self._first(text), ()) if is_pattern(text) else (text,)
        for topic in topics:
            self._routes.pop(topic, None)
            self.quick.pop(topic.encode("utf-8", "replace"), None)

    def _forget_all(self) -> None:
        self._routes.clear()
        self._begun.clear()
        self.quick.clear()
