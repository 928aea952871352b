"""The nodes below ``home``: folders, values and aliases that users add, and that are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .local_calls import Answer
from .paths import InvalidPath, check_path, is_name, names_of
from .store import Put, Remove
from .system_nodes import BadParameter, checked, text
from .tree import Node

if TYPE_CHECKING:
    from .server import DsaBroker

NODE = "node"
"""The kind of fact that these nodes are."""
ATTRIBUTE = "@"
MOST_NODES = 100_000


class HomeNodes:
    """Builds the nodes of users and keeps them."""

    def __init__(self, broker: DsaBroker) -> None:
        self._desk = broker.desk
        self._tree = broker.tree
        self._count = 0
        self.top = self._equip(broker.tree.root.add("home"))

    def _equip(self, node: Node) -> Node:
        """Give a node the actions by which users change what is below it."""
        node.add_action(
            "add-folder", checked(lambda params, answer: self._add(node, params, {}, answer)), Name="string"
        )
        node.add_action("add-alias", checked(lambda params, answer: self._add_alias(node, params, answer)),
                        Name="string", Target="string")  # fmt: skip
        node.add_action("add-value", checked(lambda params, answer: self._add_value(node, params, answer)),
                        Name="string", Type="string", Value="dynamic")  # fmt: skip
        node.add_action("remove", checked(lambda params, answer: self._remove(node, params, answer)), Name="string")
        for action in node.children.values():
            action.set_entry("$invokable", "write")
        return node

    def restore(self, path: str, fact: dict[str, Any]) -> None:
        """Take back a node that was kept; its parent was there before."""
        node = self.top
        names = names_of(path)
        for name in names[1:-1]:
            child = node.children.get(name)
            if child is None:
                return
            node = child
        self._make(node, names[-1], fact)

    def _make(self, parent: Node, name: str, fact: dict[str, Any]) -> Node:
        self._count += 1
        node = parent.add(name, **({"type": fact["type"], "writable": "write"} if "type" in fact else {}))
        node.alias = fact.get("alias", "")
        if "type" in fact:
            node.on_set = checked(lambda value, answer: self._set(node, value, answer))
            node.set_value(fact.get("value"))
        elif not node.alias:
            self._equip(node)
        for key, value in fact.get("attributes", {}).items():
            node.set_entry(key, value)
        return node

    def _add(self, parent: Node, params: dict[str, Any], fact: dict[str, Any], answer: Answer) -> None:
        name = text(params, "Name")
        if not is_name(name):
            raise BadParameter("Name cannot be that of a node")
        if name in parent.children:
            raise BadParameter(f"there is a node {name!r} already")
        if self._count >= MOST_NODES:
            raise BadParameter(f"there are {MOST_NODES} nodes, and no more are kept")
        node = self._make(parent, name, fact)
        self._desk.keep(Put(NODE, node.path, fact), answer)

    def _add_alias(self, parent: Node, params: dict[str, Any], answer: Answer) -> None:
        try:
            target = check_path(text(params, "Target"))
        except InvalidPath as error:
            raise BadParameter(f"Target: {error}") from None
        if not target:
            raise BadParameter("Target has to be the path of a node")
        self._add(parent, params, {"alias": target}, answer)

    def _add_value(self, parent: Node, params: dict[str, Any], answer: Answer) -> None:
        self._add(parent, params, {"type": text(params, "Type", "dynamic"), "value": params.get("Value")}, answer)

    def _remove(self, parent: Node, params: dict[str, Any], answer: Answer) -> None:
        node = parent.children.get(text(params, "Name"))
        if node is None or node.on_invoke is not None:
            raise BadParameter("there is no such node")
        paths = [one.path for one in node.walk() if one.on_invoke is None]
        parent.remove(node.name)
        self._count -= len(paths)
        for path in paths[:-1]:
            self._desk.keep(Remove(NODE, path), None)
        self._desk.keep(Remove(NODE, paths[-1]), answer)

    def _set(self, node: Node, value: Any, answer: Answer) -> None:
        node.set_value(value)
        self._desk.keep(Put(NODE, node.path, self._fact(node)), answer)

    def is_ours(self, node: Node) -> bool:
        """Whether users may give it attributes."""
        at: Node | None = node
        while at is not None and at is not self.top:
            at = at.parent
        return at is not None and node is not self.top and node.on_invoke is None

    def set_attribute(self, node: Node, key: str, value: Any, answer: Answer) -> None:
        if not key.startswith(ATTRIBUTE) or len(key) < 2:
            raise BadParameter("an attribute begins with @")
        node.set_entry(key, value)
        self._desk.keep(Put(NODE, node.path, self._fact(node)), answer)

    def _fact(self, node: Node) -> dict[str, Any]:
        attributes = {key: value for key, value in node.entries.items() if key.startswith(ATTRIBUTE)}
        fact: dict[str, Any] = {"attributes": attributes} if attributes else {}
        if node.alias:
            fact["alias"] = node.alias
        if "$type" in node.entries:
            fact |= {"type": node.entries["$type"], "value": node.value}
        return fact
