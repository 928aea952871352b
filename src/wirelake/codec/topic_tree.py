"""Many patterns at once: which of them match a topic, without a look at each.

Patterns lie in a tree of segments, in which every node knows who holds what from there on: so a topic costs the nodes
on its way, not the patterns behind them. A search that takes long can be cut into slices. What matches is what
``topics.match_topic`` says of each pattern alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

from ..spec.nodes import Topics

SLICE = 500
"""Nodes after which a search may be interrupted."""
PER_NODE = 16
"""Holders that take as long as a node."""

Who = TypeVar("Who", bound=Hashable)
_NOTHING: dict[Any, Any] = {}
Holders = dict[Who, int]
"""Who holds patterns, and how many."""


class _Node(Generic[Who]):
    """What follows one segment of some patterns. *Open* patterns contain the wildcard for the rest: the
    length of a topic does not matter to them. There may be very many nodes, so what is empty is shared.
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
    """Patterns by the rules of a protocol, and who holds them.

    ``strict``: a wildcard is exactly one segment, or the rest, as levels always have it; else as segments are matched
    where they are deployed, so that a topic may be one segment short, and any number with a wildcard for the rest. What
    follows that wildcard never matters.
    """

    def __init__(self, rules: Topics, strict: bool = False) -> None:
        self._one, self._rest = rules.one, rules.rest
        self._strict = strict or rules.style == "levels"
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
        segments, one, rest = self.segments(topic), self._one, self._rest
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
                if one in children:
                    stack.append((children[one], at + 1))
                if segment in children and segment not in (one, rest):
                    stack.append((children[segment], at + 1))
            work += 1
            if work >= SLICE:
                yield work
                work = 0
        yield work

    def _matching(self, node: _Node[Who], is_end: bool) -> tuple[Holders[Who], ...]:
        """The holders whose patterns match a topic that ends at this node, or goes on."""
        rest = node.children.get(self._rest)
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
        return found[: found.index(self._rest) + 1] if self._rest in found else found

    def _count(self, path: list[_Node[Who]], pattern: str, who: Who, change: int) -> None:
        last = path[-1]
        if self._rest not in pattern:
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
