"""Where a path leads: to a node of the broker, or into the tree of a peer; through aliases, if there are any."""

from __future__ import annotations

from dataclasses import dataclass

from .paths import InvalidPath, check_path, join_path
from .peers import Peer
from .tree import Node, Tree
from .wire import status_name

NOT_SUPPORTED, INVALID_MESSAGE, ALIAS_LOOP = 0x41, 0x44, 0x61


class NoRoute(Exception):
    """A path leads nowhere; ``status`` says why."""

    def __init__(self, status: int) -> None:
        super().__init__(status_name(status))
        self.status = status


@dataclass(frozen=True, slots=True)
class Route:
    """``path`` is the target in the tree of the broker, ``rest`` that in the tree of ``peer``. ``hops`` are the paths
    on the way, aliases first; ``aliases`` how many were followed, those before us included.
    """

    path: str
    node: Node | None
    peer: Peer | None
    rest: str
    hops: tuple[str, ...]
    aliases: int


class Routes:
    """Finds routes. ``places`` has the peers by the path where their trees begin."""

    def __init__(self, tree: Tree, max_aliases: int) -> None:
        self._tree = tree
        self._max_aliases = max_aliases
        self.places: dict[str, Peer] = {}

    def find(self, target: str | None, aliases: int = 0) -> Route:
        """Return where a target path leads. NoRoute if it is invalid, too many aliases, or nothing is there."""
        try:
            path = check_path(target or "")
        except InvalidPath:
            raise NoRoute(INVALID_MESSAGE) from None
        hops: list[str] = []
        while True:
            if aliases > self._max_aliases:
                raise NoRoute(ALIAS_LOOP)
            hops.append(path)
            found = self._walk(path)
            if isinstance(found, str):
                path = found
                aliases += 1
                continue
            node, peer, rest = found
            if node is None and peer is None:
                raise NoRoute(NOT_SUPPORTED)
            return Route(path, node, peer, rest, tuple(hops), aliases)

    def _walk(self, path: str) -> str | tuple[Node | None, Peer | None, str]:
        """Go from the root towards the target; return the path to go on with at an alias."""
        node: Node | None = self._tree.root
        at = 0
        while True:
            peer = self.places.get(path[:at]) if at else None
            if peer is not None:
                return None, peer, path[at + 1 :]
            if node is None:
                return None, None, ""
            if node.alias:
                return join_path(node.alias, path[at + 1 :])
            if at >= len(path):
                return node, None, ""
            start = at + 1 if at else 0
            end = path.find("/", start)
            at = len(path) if end < 0 else end
            node = node.children.get(path[start:at])
