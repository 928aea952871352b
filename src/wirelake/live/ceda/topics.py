"""Who wants which topics. Patterns lie in a tree of segments, in which every node knows who holds what from there on:
so a topic costs the nodes on its way, not the patterns behind them. Routes are remembered until a subscription changes
them. A search that takes long can be cut into slices.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from ...protocols.ceda import PROTOCOL

assert PROTOCOL.topics is not None
ONE, REST = PROTOCOL.topics.one, PROTOCOL.topics.rest
WILD = (ONE, REST)
MAX_ROUTES = 1 << 16
SLICE = 500
"""Nodes after which a search may be interrupted."""
PER_NODE = 16
"""Holders that take as long as a node."""

Who = TypeVar("Who", bound=Hashable)
_NOTHING: dict[Any, Any] = {}
Holders = dict[Who, int]
"""Who holds patterns, and how many."""


def is_pattern(text: str) -> bool:
    return ONE in text


class _Node(Generic[Who]):
    """What follows one segment of some patterns. *Open* patterns contain ``**``: the length of a topic does not matter
    to them. There may be very many nodes, so what is empty is shared.
    """

    __slots__ = ("below", "children", "following", "here", "open")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Who]] = _NOTHING
        self.here: Holders[Who] = _NOTHING
        """Of patterns that end here and are not open."""
        self.following: Holders[Who] = _NOTHING
        """Of those that end one segment later."""
        self.open: Holders[Who] = _NOTHING
        """Of open patterns that end here."""
        self.below: Holders[Who] = _NOTHING
        """Of open patterns that end here or later."""

    def child(self, segment: str) -> _Node[Who]:
        found = self.children.get(segment)
        if found is None:
            if self.children is _NOTHING:
                self.children = {}
            found = self.children[segment] = _Node()
        return found


class Patterns(Generic[Who]):
    """Patterns and who holds them. ``strict``: as people read the document; else as deployed, where a topic may be one
    segment short, and with ``**`` any number. What follows a ``**`` never matters.
    """

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._root: _Node[Who] = _Node()

    def add(self, pattern: str, who: Who) -> None:
        path = [self._root]
        for segment in self._path(pattern):
            path.append(path[-1].child(segment))
        self._count(path, pattern, who, 1)

    def remove(self, pattern: str, who: Who) -> None:
        path, segments = [self._root], self._path(pattern)
        for segment in segments:
            path.append(path[-1].children[segment])
        self._count(path, pattern, who, -1)
        for parent, segment in zip(reversed(path[:-1]), reversed(segments), strict=True):
            child = parent.children[segment]
            if child.here or child.open or child.children:
                break
            del parent.children[segment]

    def search(self, topic: str, found: dict[Who, None]) -> Iterator[int]:
        """Put everybody with a pattern that matches into ``found``; say now and then how much work that was."""
        segments = self.segments(topic)
        work, end = 0, len(segments)
        stack = [(self._root, 0)] if segments or self._strict else []
        while stack:
            node, at = stack.pop()
            for holders in self._matching(node, at == end):
                if holders:
                    found.update(dict.fromkeys(holders))
                    work += len(holders) // PER_NODE
            if at < end:
                segment, children = segments[at], node.children
                if ONE in children:
                    stack.append((children[ONE], at + 1))
                if segment in children and segment not in WILD:
                    stack.append((children[segment], at + 1))
            work += 1
            if work >= SLICE:
                yield work
                work = 0
        yield work

    def _matching(self, node: _Node[Who], is_end: bool) -> tuple[Holders[Who], ...]:
        """The holders whose patterns match a topic that ends at this node, or goes on."""
        rest = node.children.get(REST)
        if self._strict:
            here = (node.here, node.open) if is_end else ()
            return here if rest is None else (*here, rest.open)
        if is_end:
            return node.here, node.following, node.below
        return (node.open,) if rest is None else (node.open, rest.open)

    def segments(self, text: str) -> list[str]:
        """Empty segments count only where the document is taken at its word."""
        found = text.split(".")
        return found if self._strict else [segment for segment in found if segment]

    def _path(self, pattern: str) -> list[str]:
        found = self.segments(pattern)
        return found[: found.index(REST) + 1] if REST in found else found

    def _count(self, path: list[_Node[Who]], pattern: str, who: Who, change: int) -> None:
        last = path[-1]
        if REST not in pattern:
            last.here = _counted(last.here, who, change)
            path[-2].following = _counted(path[-2].following, who, change)
            return
        last.open = _counted(last.open, who, change)
        for node in path:
            node.below = _counted(node.below, who, change)


def _counted(holders: Holders[Who], who: Who, change: int) -> Holders[Who]:
    """One pattern more or less."""
    if holders is _NOTHING:
        holders = {}
    count = holders.get(who, 0) + change
    if count:
        holders[who] = count
    else:
        del holders[who]
    return holders or _NOTHING


class Subscriptions(Generic[Who]):
    """Patterns and literal topics of any number of subscribers."""

    def __init__(self, strict: bool = False) -> None:
        self._strict = strict
        self._literal: dict[str, dict[Who, None]] = {}
        self._patterns: Patterns[Who] = Patterns(strict)
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

    def matches(self, texts: Iterable[str], topics: Iterable[str]) -> Iterator[str | int]:
        """The topics that one of these texts asks for; between them how much work they were."""
        literal = set()
        patterns: Patterns[None] = Patterns(self._strict)
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
        return is_pattern(text) and self._first(text) in WILD

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
