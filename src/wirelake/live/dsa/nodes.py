"""The tree of a link: nodes with values, attributes, metadata, actions and children, which change while it runs.

A node knows who watches it (lists and subscriptions of a responder), and tells them what changed; what is sent when is
theirs. Everything that can be wrong with a name or a value is an error of the call that brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from ...codec.content import write_msgpack
from ...protocols import dsa as p
from . import wire
from .events import ABSENT
from .paths import is_name, names_of
from .permissions import LEVELS, level_named
from .queues import Update

TYPES = ("number", "string", "bool", "binary", "map", "array", "dynamic")
RESULTS = ("value", "table", "stream")
SUMMARY = ("$is", "$type", "$writable", "$invokable")
"""What the list of a parent says about a child."""
_KINDS: Mapping[str, tuple[type, ...]] = {
    "number": (int, float), "string": (str,), "bool": (bool,), "binary": (bytes, bytearray, memoryview),
    "map": (dict,), "array": (list, tuple), "dynamic": (object,),
}  # fmt: skip


class Watcher(Protocol):
    """A list of a node, or a subscription to it."""

    def changed(self, key: str) -> None:
        """A child, an attribute or metadata is new, different or gone."""
        ...

    def valued(self, update: Update) -> None:
        """There is a new value."""
        ...

    def removed(self) -> None:
        """The node is gone."""
        ...


class Node:
    """One node. Made by ``add`` of its parent, or of the tree."""

    __slots__ = (
        "_keys", "_parent", "_sequence", "_update", "_value", "children", "handler", "listers", "name", "on_set",
        "subscribers", "tree",
    )  # fmt: skip

    def __init__(self, tree: Nodes, name: str, parent: Node | None) -> None:
        self.tree = tree
        self.name = name
        self.children: dict[str, Node] = {}
        self.handler: Callable[..., Any] | None = None
        """What runs when the node is invoked."""
        self.on_set: Callable[..., Any] | None = None
        """What is asked when somebody sets the value."""
        self.listers: dict[Watcher, None] = {}
        self.subscribers: dict[Watcher, None] = {}
        self._parent = parent
        self._keys: dict[str, tuple[Any, bytes]] = {}
        self._value: Any = ABSENT
        self._update: Update | None = None
        self._sequence = 0

    def __repr__(self) -> str:
        return f"<node {self.path!r}>"

    @property
    def path(self) -> str:
        names = []
        node = self
        while node._parent is not None:
            names.append(node.name)
            node = node._parent
        return "/".join(reversed(names))

    @property
    def is_attached(self) -> bool:
        """Whether it is part of the tree still."""
        node = self
        while node._parent is not None:
            if node._parent.children.get(node.name) is not node:
                return False
            node = node._parent
        return True

    # --- children

    def __getitem__(self, name: str) -> Node:
        return self.children[name]

    def __contains__(self, name: str) -> bool:
        return name in self.children

    def __iter__(self) -> Iterator[Node]:
        return iter(self.children.values())

    def add(
        self,
        name: str,
        *,
        value: Any = ABSENT,
        type: str = "",
        writable: str | bool = "",
        profile: str = "",
        on_set: Callable[..., Any] | None = None,
        **keys: Any,
    ) -> Node:
        """Add a child. With a ``value`` or a ``type`` it can be subscribed to; ``writable`` is ``write`` or ``config``,
        the permission that setting it takes. ``on_set(node, value)`` may refuse a value by an exception. ``keys`` are
        attributes: ``unit="K"`` is ``@unit``.
        """
        if name in self.children:
            raise ValueError(f"{self.path or 'the root'} has a child {name} already")
        if not is_name(name):
            raise ValueError(f"{name!r} cannot be the name of a node")
        child = Node(self.tree, name, self)
        child.on_set = on_set
        if profile:
            child.put("$is", profile)
        if type or value is not ABSENT:
            child.put("$type", _checked(type or type_of(value), TYPES, "a type"))
        if writable:
            child.put("$writable", _checked("write" if writable is True else writable, ("write", "config"), "writable"))
        for key, content in keys.items():
            child.put(f"@{key}", content)
        if value is not ABSENT:
            child.set(value)
        self.children[name] = child
        self._tell(name)
        return child

    def remove(self) -> None:
        """Take the node out of the tree, with everything below it."""
        parent = self._parent
        if parent is None:
            raise ValueError("the root cannot be removed")
        if parent.children.get(self.name) is self:
            del parent.children[self.name]
            self._gone()
            parent._tell(self.name)

    def _gone(self) -> None:
        waiting = [self]
        while waiting:
            node = waiting.pop()
            for watcher in (*node.listers, *node.subscribers):
                watcher.removed()
            node.listers.clear()
            node.subscribers.clear()
            waiting += node.children.values()

    # --- metadata and attributes

    def put(self, key: str, value: Any) -> None:
        """Set metadata (``$…``) or an attribute (``@…``)."""
        if key[:1] not in ("$", "@") or len(key) < 2:
            raise ValueError(f"{key!r} is neither metadata ($…) nor an attribute (@…)")
        packed = write_msgpack(value)
        wire.write_pair(wire.encode_text(key), packed)
        self._keys[key] = (value, packed)
        self._tell(key)
        if key in SUMMARY and self._parent is not None and self._parent.children.get(self.name) is self:
            self._parent._tell(self.name)

    def drop(self, key: str) -> None:
        """Remove metadata or an attribute."""
        if self._keys.pop(key, None) is not None:
            self._tell(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return metadata or an attribute."""
        found = self._keys.get(key)
        return default if found is None else found[0]

    def keys(self) -> list[str]:
        """Return everything a list shows: metadata, attributes, names of children."""
        return [*(key for key in self._keys if not key.startswith("$$$")), *self.children]

    def packed(self, key: str) -> bytes:
        """Return what a list says about a key, REMOVED if it is not there."""
        if key[:1] in ("$", "@"):
            found = self._keys.get(key)
            return wire.REMOVED if found is None or key.startswith("$$$") else found[1]
        child = self.children.get(key)
        return wire.REMOVED if child is None else child.summary

    @property
    def summary(self) -> bytes:
        return write_msgpack({key: self._keys[key][0] for key in SUMMARY if key in self._keys})

    # --- the value

    @property
    def has_value(self) -> bool:
        """Whether it can be subscribed to."""
        return "$type" in self._keys

    @property
    def value(self) -> Any:
        """The value, None if there is none yet."""
        return None if self._value is ABSENT else self._value

    @property
    def update(self) -> Update | None:
        """The newest value as it is sent."""
        return self._update

    def set(self, value: Any, *, meta: Mapping[str, Any] | None = None) -> None:
        """Give the node a new value, now. ``meta`` is sent along with it."""
        if not self.has_value:
            raise ValueError(f"{self.path} has no value: add it with a type")
        self.check(value)
        moment = self.tree.clock()
        full = {"ts": stamp(moment), **(meta or {})} if moment is not None else dict(meta or {})
        body = wire.write_value(value, full)
        self._value = value
        self._update = Update(self._cut(body))
        for watcher in list(self.subscribers):
            watcher.valued(self._update)
        if self.subscribers:
            self.tree.wake()

    def check(self, value: Any) -> None:
        """Refuse a value that is not of the node's type; null is of every type."""
        kind = self._keys["$type"][0]
        allowed = _KINDS.get(kind, (object,))
        if value is None or (isinstance(value, allowed) and not (kind == "number" and isinstance(value, bool))):
            return
        raise TypeError(f"{self.path} takes a {kind}, not {type_of(value)}")

    def _cut(self, body: bytes) -> list[tuple[bytes, bytes]]:
        """Headers without a status, and body, of each message that the value takes."""
        if len(body) <= p.MAX_BODY:
            return [(b"", body)]
        self._sequence += 1
        count = -(-len(body) // p.MAX_BODY)
        return [
            (
                wire.write_headers(p.Headers(page_id=page or -count, sequence_id=self._sequence)),
                body[page * p.MAX_BODY : (page + 1) * p.MAX_BODY],
            )
            for page in range(count)
        ]

    def _tell(self, key: str) -> None:
        if self.listers:
            for watcher in list(self.listers):
                watcher.changed(key)
            self.tree.wake()


class Nodes:
    """A tree of nodes. ``clock`` gives the time of day for new values, or None; ``wake`` is called after changes that
    somebody watches.
    """

    def __init__(self, clock: Callable[[], float | None] | None = None) -> None:
        self.clock = clock or (lambda: None)
        self.wake: Callable[[], None] = lambda: None
        self.root = Node(self, "", None)
        for name in ("main", "pub", "sys"):
            self.root.add(name)

    def find(self, path: str) -> Node | None:
        node: Node | None = self.root
        for name in names_of(path):
            if node is None:
                break
            node = node.children.get(name)
        return node

    def __getitem__(self, path: str) -> Node:
        node = self.find(path)
        if node is None:
            raise KeyError(path)
        return node

    def __contains__(self, path: str) -> bool:
        return self.find(path) is not None

    def add(self, path: str, **options: Any) -> Node:
        """Add a node, and those above it that are missing. The options are those of ``Node.add``."""
        *above, name = names_of(path) or [""]
        node = self.root
        for step in above:
            node = node.children.get(step) or node.add(step)
        return node.add(name, **options)

    def action(
        self,
        path: str,
        *,
        params: Sequence[Mapping[str, Any]] | Mapping[str, str] = (),
        result: str = "value",
        permission: str = "read",
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare the action at a path: ``@nodes.action("main/reset")``. ``params`` are names and types; ``result`` is
        value, table or stream; ``permission`` is what invoking it takes.
        """
        if permission not in LEVELS or not level_named(permission):
            raise ValueError(f"permission has to be list, read, write or config, not {permission!r}")
        _checked(result, RESULTS, "result")
        described = (
            [{"name": name, "type": kind} for name, kind in params.items()]
            if isinstance(params, Mapping)
            else [dict(param) for param in params]
        )

        def declare(handler: Callable[..., Any]) -> Callable[..., Any]:
            node = self.add(path, **options)
            node.handler = handler
            if described:
                node.put("$params", described)
            node.put("$result", result)
            node.put("$invokable", permission)
            return handler

        return declare


def type_of(value: Any) -> str:
    """Return the name of a value's type; ``dynamic`` where it has none of its own."""
    if isinstance(value, bool):
        return "bool"
    if value is None:
        return "dynamic"
    return next(name for name, kinds in _KINDS.items() if isinstance(value, kinds))


def stamp(moment: float) -> str:
    """Return a time of day as value metadata has it."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def _checked(word: str, allowed: Sequence[str], name: str) -> str:
    if word not in allowed:
        raise ValueError(f"{name} has to be {' or '.join(allowed)}, not {word!r}")
    return word
