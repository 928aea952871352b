"""Who wants which topics. Patterns lie in a tree of segments, so that a topic costs what it finds, not what there is;
routes are remembered until a subscription changes them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ...protocols.ceda import PROTOCOL

assert PROTOCOL.topics is not None
ONE, REST = PROTOCOL.topics.one, PROTOCOL.topics.rest
MAX_ROUTES = 1 << 16

Who = TypeVar("Who", bound=Hashable)
Holders = dict[Who, None]


def is_pattern(text: str) -> bool:
    return ONE in text


@dataclass(slots=True, eq=False)
class _Node(Generic[Who]):
    """What follows one segment of some patterns. ``open`` counts the patterns from here on that contain ``**``."""

    children: dict[str, _Node[Who]] = field(default_factory=dict)
    here: dict[str, Holders[Who]] = field(default_factory=dict)
    open: int = 0

    def all(self) -> Iterator[Holders[Who]]:
        yield from self.here.values()
        for child in self.children.values():
            yield from child.all()

    def with_rest(self) -> Iterator[Holders[Who]]:
        """Patterns from here on that contain ``**``."""
        if self.open:
            yield from (holders for pattern, holders in self.here.items() if REST in pattern)
            for child in self.children.values():
                yield from child.with_rest()


class Patterns(Generic[Who]):
    """Patterns and who holds them. ``strict``: as people read the document; else as deployed, where a topic may be one
    segment short, and with ``**`` any number.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._root: _Node[Who] = _Node()

    def add(self, pattern: str, who: Who) -> None:
        node = self._root
        path = [node]
        for segment in self.segments(pattern):
            node = node.children.setdefault(segment, _Node())
            path.append(node)
        if pattern not in node.here:
            node.here[pattern] = {}
            for each in path:
                each.open += REST in pattern
        node.here[pattern][who] = None

    def remove(self, pattern: str, who: Who) -> None:
        path = [self._root]
        segments = self.segments(pattern)
        for segment in segments:
            path.append(path[-1].children[segment])
        here = path[-1].here
        del here[pattern][who]
        if here[pattern]:
            return
        del here[pattern]
        for each in path:
            each.open -= REST in pattern
        for parent, segment in zip(reversed(path[:-1]), reversed(segments), strict=True):
            child = parent.children[segment]
            if child.here or child.children:
                break
            del parent.children[segment]

    def find(self, topic: str) -> Iterator[Holders[Who]]:
        """The holders of every pattern that matches."""
        segments = self.segments(topic)
        if segments or self._strict:
            yield from self._below(self._root, segments, 0)

    def segments(self, text: str) -> list[str]:
        """Empty segments count only where the document is taken at its word."""
        found = text.split(".")
        return found if self._strict else [segment for segment in found if segment]

    def _below(self, node: _Node[Who], segments: list[str], at: int) -> Iterator[Holders[Who]]:
        if at == len(segments):
            yield from self._at_end(node)
            return
        if not self._strict and node.here:
            yield from (holders for pattern, holders in node.here.items() if REST in pattern)
        segment, children = segments[at], node.children
        if REST in children:
            yield from children[REST].all()
        if ONE in children:
            yield from self._below(children[ONE], segments, at + 1)
        if segment in children and segment not in (ONE, REST):
            yield from self._below(children[segment], segments, at + 1)

    def _at_end(self, node: _Node[Who]) -> Iterator[Holders[Who]]:
        """The topic ends here, patterns may go on."""
        yield from node.here.values()
        if self._strict:
            if REST in node.children:
                yield from node.children[REST].all()
            return
        for child in node.children.values():
            yield from (holders for pattern, holders in child.here.items() if REST not in pattern)
            yield from child.with_rest()


class Subscriptions(Generic[Who]):
    """Patterns and literal topics of any number of subscribers."""

    def __init__(self, strict: bool = False) -> None:
        self._strict = strict
        self._literal: dict[str, Holders[Who]] = {}
        self._patterns: Patterns[Who] = Patterns(strict)
        self._routes: dict[str, tuple[Who, ...]] = {}
        self.quick: dict[bytes, tuple[Who, ...]] = {}
        """Routes by the bytes of their topic, which the owner fills; what a change concerns is taken out."""
        self.of: dict[Who, dict[str, None]] = {}

    def add(self, who: Who, text: str) -> bool:
        """Whether this is new."""
        mine = self.of.setdefault(who, {})
        if text in mine:
            return False
        mine[text] = None
        if is_pattern(text):
            self._patterns.add(text, who)
        else:
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
        if is_pattern(text):
            self._patterns.remove(text, who)
        else:
            holders = self._literal[text]
            del holders[who]
            if not holders:
                del self._literal[text]
        self._forget(text)
        return True

    def leave(self, who: Who) -> None:
        """Takes everything back."""
        for text in list(self.of.get(who, ())):
            self.remove(who, text)

    def has(self, who: Who, text: str) -> bool:
        return text in self.of.get(who, ())

    def route(self, topic: str) -> tuple[Who, ...]:
        """Everybody who wants this topic, each once."""
        found = self._routes.get(topic)
        if found is None:
            if len(self._routes) >= MAX_ROUTES:
                self._routes.clear()
                self.quick.clear()
            everybody = dict(self._literal.get(topic, {}))
            for holders in self._patterns.find(topic):
                everybody.update(holders)
            found = self._routes[topic] = tuple(everybody)
        return found

    def matching(self, texts: Iterable[str], topics: Iterable[str]) -> list[str]:
        """The topics that one of these texts asks for."""
        literal = set()
        patterns: Patterns[None] = Patterns(self._strict)
        for text in texts:
            if is_pattern(text):
                patterns.add(text, None)
            else:
                literal.add(text)
        return [topic for topic in topics if topic in literal or any(True for _ in patterns.find(topic))]

    def _forget(self, text: str) -> None:
        if is_pattern(text):
            self._routes.clear()
            self.quick.clear()
        else:
            self._routes.pop(text, None)
            self.quick.pop(text.encode("utf-8", "replace"), None)
