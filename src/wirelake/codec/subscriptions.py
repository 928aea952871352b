"""Who wants which topics, by name or by pattern. Routes are remembered until a subscription changes them.

A broker keeps its subscribers here, and a client its own wishes. What matches is what ``topics.match_topic`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic

from ..spec.nodes import Topics
from .topic_tree import Patterns, Who
from .topics import has_wildcards

MAX_ROUTES = 1 << 16


class Subscriptions(Generic[Who]):
    """Patterns and literal topics of any number of subscribers. ``pick``: what of those who want a topic is remembered
    as its route.
    """

    def __init__(
        self, rules: Topics, strict: bool = False, pick: Callable[[Iterable[Who]], tuple[Any, ...]] = tuple
    ) -> None:
        self._rules = rules
        self._strict = strict
        self._pick = pick
        self._patterns: Patterns[Who] = Patterns(rules, strict)
        self._begun: dict[str, dict[str, None]] = {}
        """The topics of routes, by their first segment."""
        self._gone: set[Who] = set()
        """Those who leave slowly."""
        self._changes = 0
        self._once: tuple[str, tuple[Any, ...]] | None = None
        """What a search found while subscriptions changed: good for one message."""
        self.routes: dict[str, tuple[Any, ...]] = {}
        self.quick: dict[bytes, tuple[Any, ...]] = {}
        """Routes by the bytes of their topic, which the owner fills; what a change concerns is taken out."""
        self.holders: dict[str, dict[Who, None]] = {}
        """Who has subscribed a text, in the order in which they came."""
        self.of: dict[Who, dict[str, None]] = {}
        self.topics = self.patterns = 0
        """How many there are of all subscribers."""

    def add(self, who: Who, text: str) -> bool:
        """Whether this is new."""
        mine = self.of.setdefault(who, {})
        if text in mine:
            return False
        mine[text] = None
        self.holders.setdefault(text, {})[who] = None
        if has_wildcards(self._rules, text):
            self.patterns += 1
            self._patterns.add(text, who)
        else:
            self.topics += 1
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
        holders = self.holders[text]
        del holders[who]
        if not holders:
            del self.holders[text]
        if has_wildcards(self._rules, text):
            self.patterns -= 1
            self._patterns.remove(text, who)
        else:
            self.topics -= 1

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
        if topic in self.routes:
            return
        changes = self._changes
        everybody: dict[Who, None] = dict(self.holders.get(topic, ()))
        yield from self._patterns.search(topic, everybody)
        found = self._pick(who for who in everybody if who not in self._gone)
        if changes != self._changes:
            self._once = (topic, found)
            return
        if len(self.routes) >= MAX_ROUTES:
            self._forget_all()
        self.routes[topic] = found
        self._begun.setdefault(self._first(topic), {})[topic] = None

    def route(self, topic: str) -> tuple[Any, ...]:
        """Everybody who wants this topic, each once."""
        found = self.routes.get(topic)
        if found is None and self._once is not None and self._once[0] == topic:
            found, self._once = self._once[1], None
        if found is None:
            for _ in self.search(topic):
                pass
            found = self.routes[topic]
        return found

    def matches(self, texts: Iterable[str], topics: Iterable[str]) -> Iterator[str | int]:
        """The topics that one of these texts asks for; between them how much work they were."""
        literal = set()
        patterns: Patterns[None] = Patterns(self._rules, self._strict)
        for text in texts:
            if has_wildcards(self._rules, text):
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
        return has_wildcards(self._rules, text) and self._first(text) in (self._rules.one, self._rules.rest)

    def _first(self, text: str) -> str:
        return next(iter(self._patterns.segments(text)), "")

    def _forget(self, text: str) -> None:
        self._changes += 1
        if self.is_wild(text):
            self._forget_all()
            return
        first = self._first(text)
        topics: Iterable[str] = (text,)
        if has_wildcards(self._rules, text):
            topics = self._begun.pop(first, ())
        elif first in self._begun:
            self._begun[first].pop(text, None)
        for topic in topics:
            self.routes.pop(topic, None)
            self.quick.pop(topic.encode("utf-8", "replace"), None)

    def _forget_all(self) -> None:
        self.routes.clear()
        self._begun.clear()
        self.quick.clear()
