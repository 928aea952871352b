"""The nodes of the broker itself, and where they are listed and subscribed to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from ...codec.content import write_msgpack
from .desk import Desk
from .lists import Listing
from .local_calls import Answer
from .paths import join_path
from .queues import Update
from .values import Values
from .wire import REMOVED, encode_text, write_value

SUMMARY = ("$is", "$type", "$writable", "$invokable")
"""Metadata of a child that the list of its parent shows too."""
PROFILE = "2.0/node"

SetValue = Callable[[Any, Answer], None]
Invoke = Callable[[dict[str, Any], Answer], None]


class Node:
    """A node. ``on_set`` and ``on_invoke`` do what its metadata says that it can; ``alias`` is the path that it stands
    for.
    """

    __slots__ = ("_tree", "alias", "children", "entries", "name", "on_invoke", "on_set", "parent", "value")

    def __init__(self, tree: Tree, parent: Node | None, name: str, entries: dict[str, Any]) -> None:
        self._tree = tree
        self.parent = parent
        self.name = name
        self.entries = {"$is": PROFILE, **entries}
        """Metadata and attributes."""
        self.children: dict[str, Node] = {}
        self.value: Any = None
        self.on_set: SetValue | None = None
        self.on_invoke: Invoke | None = None
        self.alias = ""

    @property
    def path(self) -> str:
        return "" if self.parent is None else join_path(self.parent.path, self.name)

    def add(self, name: str, **entries: Any) -> Node:
        """Add a child, or return the one that has this name. ``type`` is ``$type``, and so on."""
        child = self.children.get(name)
        if child is None:
            child = Node(self._tree, self, name, {f"${key}": value for key, value in entries.items()})
            self.children[name] = child
            self._tree.changed(self, name, child.summary)
        return child

    def add_value(self, name: str, type_: str, value: Any, on_set: SetValue | None = None) -> Node:
        child = self.add(name, type=type_, **({"writable": "config"} if on_set is not None else {}))
        child.on_set = on_set
        child.set_value(value)
        return child

    def add_action(self, name: str, on_invoke: Invoke, **params: str) -> Node:
        """Add an action; ``params`` are types by name, whose underscores stand for spaces."""
        shown = [{"name": key.replace("_", " "), "type": kind} for key, kind in params.items()]
        child = self.add(name, invokable="config", params=shown, result="value")
        child.on_invoke = on_invoke
        return child

    def add_placeholder(self, name: str, **entries: Any) -> None:
        """Show a child whose tree is somebody else's."""
        self._tree.changed(self, name, {f"${key}": value for key, value in entries.items()})
        self.children[name] = Node(self._tree, self, name, {f"${key}": value for key, value in entries.items()})

    def remove(self, name: str) -> None:
        child = self.children.pop(name, None)
        if child is not None:
            self._tree.changed(self, name, None)
            self._tree.gone(child)

    def set_value(self, value: Any) -> None:
        self.value = value
        self._tree.value_changed(self)

    def set_entry(self, key: str, value: Any) -> None:
        """Change an attribute or metadata; None removes it."""
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value
        self._tree.changed(self, key, value)

    @property
    def summary(self) -> dict[str, Any]:
        return {key: self.entries[key] for key in SUMMARY if key in self.entries}

    def packed(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries, as a list has them."""
        for key, value in self.entries.items():
            yield encode_text(key), write_msgpack(value)
        for name, child in self.children.items():
            yield encode_text(name), write_msgpack(child.summary)

    def walk(self) -> Iterator[Node]:
        yield self
        for child in self.children.values():
            yield from child.walk()


class Tree:
    """All nodes of ours. It is the source of their lists and values."""

    path = ""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._values: dict[Node, Values] = {}
        self._lists: dict[Node, Listing] = {}
        self.root = Node(self, None, "", {})

    def list_of(self, node: Node) -> Listing:
        listing = self._lists.get(node)
        if listing is None:
            listing = self._lists[node] = Listing(self, node.path)
            listing.fill(dict(node.packed()))
        return listing

    def values_of(self, node: Node) -> Values:
        """Return the merged subscription of a node that has a value."""
        values = self._values.get(node)
        if values is None:
            values = self._values[node] = Values(self, node.path)
            values.last = Update([(b"", self._body(node))])
        return values

    def changed(self, node: Node, key: str, value: Any) -> None:
        listing = self._lists.get(node)
        if listing is not None:
            listing.change(encode_text(key), REMOVED if value is None else write_msgpack(value))

    def value_changed(self, node: Node) -> None:
        values = self._values.get(node)
        if values is not None:
            values.push(self._body(node))

    def gone(self, node: Node) -> None:
        """A node is no more: its streams end."""
        for one in node.walk():
            values, listing = self._values.pop(one, None), self._lists.pop(one, None)
            for merged in (values, listing):
                if merged is not None:
                    merged.end(NOT_SUPPORTED)

    def ask_values(self, values: Values) -> None:
        """The node is here: its values come by themselves."""

    def end_values(self, values: Values) -> None:
        self._values = {node: one for node, one in self._values.items() if one is not values}

    def ask_list(self, listing: Listing) -> None:
        """The node is here, and its list is full."""

    def end_list(self, listing: Listing) -> None:
        self._lists = {node: one for node, one in self._lists.items() if one is not listing}

    def _body(self, node: Node) -> bytes:
        at = self.desk.epoch + self.desk.now
        stamp = datetime.fromtimestamp(at if math.isfinite(at) else 0.0, UTC).isoformat(timespec="milliseconds")
        return write_value(node.value, {"ts": stamp})


NOT_SUPPORTED = 0x41
