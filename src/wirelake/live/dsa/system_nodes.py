"""The nodes below ``sys``: what an administrator sees of clients, tokens, roles, quarantine and upstream brokers, and
the actions that change them. An action replies when the change is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...codec.content import write_msgpack
from .admission import Token, read_time_range
from .handshake import make_token
from .local_calls import Answer
from .paths import InvalidPath, check_path, is_name
from .peers import Client
from .permissions import DEFAULT, Role, level_named, name_of
from .store import Put, Remove
from .tree import Node
from .upstream import read_upstream

if TYPE_CHECKING:
    from .server import DsaBroker

CLOSED, INVALID_PARAMETER = 0x20, 0x45
ROLE = "role"
"""The kind of fact that roles are."""


class BadParameter(ValueError):
    """A parameter of an action is missing or wrong: which one, and what would be right."""


def text(params: dict[str, Any], name: str, usual: str | None = None) -> str:
    value = params.get(name, usual)
    if not isinstance(value, str):
        raise BadParameter(f"{name} has to be a text")
    return value


def number_of(params: dict[str, Any], name: str, usual: int) -> int:
    value = params.get(name, usual)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # C++ and JavaScript make no difference
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadParameter(f"{name} has to be a whole number")
    return value


def truth(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadParameter(f"{name} has to be true or false")
    return value


def checked(action: Callable[[Any, Answer], None]) -> Callable[[Any, Answer], None]:
    """An action that says what is wrong with its parameters."""

    def run(params: Any, answer: Answer) -> None:
        try:
            action(params, answer)
        except ValueError as error:
            answer(INVALID_PARAMETER, detail=str(error))

    return run


class SystemNodes:
    """Builds the nodes and keeps them true."""

    def __init__(self, broker: DsaBroker) -> None:
        self._broker = broker
        self._desk = broker.desk
        self._admission = broker.admission
        self._roles = broker.roles
        top = broker.tree.root.add("sys")
        self._clients, self._tokens, self._roles_node = top.add("clients"), top.add("tokens"), top.add("roles")
        self.quarantine, self._upstream = top.add("quarantine"), top.add("upstream")
        self._switches = {
            "allow-all": self._add_switch(self._clients, "allow-all", "allow-all"),
            "quarantine": self._add_switch(self.quarantine, "enabled", "quarantine"),
        }
        self.quarantine.add_action("authorize", checked(self._authorize), Id="string", Role="string")
        self._tokens.add_action(
            "add", checked(self._add_token),
            Role="string", Time_Range="string", Count="number", Max_Session="number", Managed="bool",
        )  # fmt: skip
        self._roles_node.add_action("add-role", checked(self._add_role), Name="string")
        self._upstream.add_action(
            "add", checked(self._add_upstream), Name="string", Url="string", Token="string", Role="string"
        )

    def _add_switch(self, parent: Node, name: str, switch: str) -> Node:
        def change(value: Any, answer: Answer) -> None:
            is_on = truth(value, name)
            self._admission.switch(switch, is_on, answer)
            node.set_value(is_on)

        node = parent.add_value(name, "bool", False, checked(change))
        return node

    def show_all(self) -> None:
        """Show everything that is known when the broker starts."""
        self._switches["allow-all"].set_value(self._admission.allows_all)
        self._switches["quarantine"].set_value(self._admission.has_quarantine)
        for client in self._admission.clients.values():
            self.show_client(client)
        for token in self._admission.tokens.values():
            self.show_token(token)
        for name in self._roles.names():
            self.show_role(name)

    # --- clients

    def show_client(self, client: Client, sessions: int = 0) -> None:
        node = self._clients.children.get(client.dsid)
        if node is None:
            node = self._clients.add(client.dsid)
            node.add_value(
                "role", "string", client.role, checked(lambda value, answer: self._set_role(client, value, answer))
            )
            node.add_value("path", "string", "")
            node.add_value("max-session", "number", client.max_session, checked(
                lambda value, answer: self._set_sessions(client, value, answer)
            ))  # fmt: skip
            node.add_value("current-session", "number", 0)
            node.add_value("from-token", "string", client.from_token)
            node.add_action("remove", lambda _, answer: self._remove_client(client.dsid, answer))
        shown = {"path": f"downstream/{client.name}" if client.name else "", "role": client.role}
        for name, value in (*shown.items(), ("max-session", client.max_session), ("current-session", sessions)):
            child = node.children[name]
            if child.value != value:
                child.set_value(value)

    def _set_role(self, client: Client, value: Any, answer: Answer) -> None:
        role = text({"role": value}, "role")
        if role not in self._roles:
            raise BadParameter(f"there is no role {role!r}")
        client.role = role
        self._admission.keep_client(client, answer)
        self.show_client(client, self._broker.sessions.count(client.dsid))

    def _set_sessions(self, client: Client, value: Any, answer: Answer) -> None:
        count = number_of({"max-session": value}, "max-session", 1)
        if count < 1:
            raise BadParameter("max-session is 1 or more")
        client.max_session = count
        self._admission.keep_client(client, answer)
        self.show_client(client, self._broker.sessions.count(client.dsid))

    def _remove_client(self, dsid: str, answer: Answer) -> None:
        if dsid in self._admission.clients:
            self._admission.remove_client(dsid, answer)
            self._clients.remove(dsid)
            self._broker.sessions.expel(dsid)
        else:
            answer()

    def _authorize(self, params: dict[str, Any], answer: Answer) -> None:
        """Let a client that is in quarantine come in: it is known from now on, and connects again."""
        dsid, role = text(params, "Id"), text(params, "Role", DEFAULT) or DEFAULT
        if dsid not in self._broker.sessions.quarantined:
            raise BadParameter("Id names no client that is in quarantine")
        if role not in self._roles:
            raise BadParameter(f"there is no role {role!r}")
        client = Client(dsid, role)

        def admitted() -> None:
            self.show_client(client)
            self._broker.sessions.release(dsid)
            answer()

        self._admission.enter(client, is_responder=False, then=admitted)

    # --- tokens

    def show_token(self, token: Token) -> None:
        node = self._tokens.children.get(token.name)
        if node is None:
            node = self._tokens.add(token.name)
            node.add_value("role", "string", token.role)
            node.add_value("time-range", "string", token.time_range)
            node.add_value("count", "number", token.count)
            node.add_value("max-session", "number", token.max_session)
            node.add_value("managed", "bool", token.is_managed)
            node.add_action("remove", lambda _, answer: self._remove_token(token.name, answer))
        if node.children["count"].value != token.count:
            node.children["count"].set_value(token.count)

    def _add_token(self, params: dict[str, Any], answer: Answer) -> None:
        role = text(params, "Role", DEFAULT) or DEFAULT
        if role not in self._roles:
            raise BadParameter(f"there is no role {role!r}")
        start, end = read_time_range(text(params, "Time Range", ""))
        count, sessions = number_of(params, "Count", 1), number_of(params, "Max Session", 1)
        if sessions < 1:
            raise BadParameter("Max Session is 1 or more")
        is_managed = truth(params.get("Managed", False), "Managed")
        secret = make_token(self._broker.chance)
        while secret[:16] in self._admission.tokens:
            secret = make_token(self._broker.chance)
        token = Token(secret, role, start, end, max(count, -1), sessions, is_managed)
        self._admission.keep_token(token, lambda: answer(CLOSED, write_msgpack({"Token": token.secret})))
        self.show_token(token)

    def _remove_token(self, name: str, answer: Answer) -> None:
        if name not in self._admission.tokens:
            answer()
            return
        token = self._admission.remove_token(name, answer)
        self._tokens.remove(name)
        if token.is_managed:
            brought = [client.dsid for client in self._admission.clients.values() if client.from_token == name]
            for dsid in brought:
                self._remove_client(dsid, lambda *_, **__: None)

    # --- roles

    def show_role(self, name: str) -> None:
        role = self._roles.get(name)
        assert role is not None
        node = self._roles_node.children.get(name)
        if node is None:
            node = self._roles_node.add(name)
            node.add_value("level", "string", "", checked(lambda value, answer: self._set_level(name, value, answer)))
            node.add_value(
                "fallback", "string", "", checked(lambda value, answer: self._set_fallback(name, value, answer))
            )
            node.add_value("rules", "map", {})
            node.add_action("add-rule", checked(
                lambda params, answer: self._add_rule(name, params, answer)
            ), Path="string", Permission="string")  # fmt: skip
            node.add_action("remove-rule", checked(
                lambda params, answer: self._remove_rule(name, params, answer)
            ), Path="string")  # fmt: skip
            node.add_action("remove", checked(lambda _, answer: self._remove_role(name, answer)))
        node.children["level"].set_value("" if role.level is None else name_of(role.level))
        node.children["fallback"].set_value(role.fallback)
        node.children["rules"].set_value({path: name_of(level) for path, level in role.rules.items()})

    def _keep_role(self, role: Role, answer: Answer) -> None:
        self._roles.put(role)
        self._desk.keep(Put(ROLE, role.name, asdict(role)), answer)
        self.show_role(role.name)

    def _role(self, name: str) -> Role:
        role = self._roles.get(name)
        if role is None:
            raise BadParameter(f"there is no role {name!r}")
        return role

    def _add_role(self, params: dict[str, Any], answer: Answer) -> None:
        name = text(params, "Name")
        if not is_name(name):
            raise BadParameter("Name cannot be that of a node")
        if name in self._roles:
            raise BadParameter(f"there is a role {name!r} already")
        self._keep_role(Role(name), answer)

    def _add_rule(self, name: str, params: dict[str, Any], answer: Answer) -> None:
        try:
            path = check_path(text(params, "Path"))
        except InvalidPath as error:
            raise BadParameter(f"Path: {error}") from None
        level = level_named(text(params, "Permission").lower())
        role = self._role(name)
        self._keep_role(Role(name, role.level, role.fallback, {**role.rules, path: level}), answer)

    def _remove_rule(self, name: str, params: dict[str, Any], answer: Answer) -> None:
        role, path = self._role(name), text(params, "Path")
        rules = {rule: level for rule, level in role.rules.items() if rule != path}
        if len(rules) == len(role.rules):
            raise BadParameter("there is no rule for this path")
        self._keep_role(Role(name, role.level, role.fallback, rules), answer)

    def _set_level(self, name: str, value: Any, answer: Answer) -> None:
        level = text({"level": value}, "level")
        role = self._role(name)
        self._keep_role(Role(name, level_named(level) if level else None, role.fallback, dict(role.rules)), answer)

    def _set_fallback(self, name: str, value: Any, answer: Answer) -> None:
        fallback, role = text({"fallback": value}, "fallback"), self._role(name)
        if fallback and fallback not in self._roles:
            raise BadParameter(f"there is no role {fallback!r}")
        self._keep_role(Role(name, role.level, fallback, dict(role.rules)), answer)

    def _remove_role(self, name: str, answer: Answer) -> None:
        if name == DEFAULT:
            raise BadParameter("the role default stays: clients without a role have it")
        self._roles.remove(name)
        self._desk.keep(Remove(ROLE, name), answer)
        self._roles_node.remove(name)

    # --- upstream brokers

    def _add_upstream(self, params: dict[str, Any], answer: Answer) -> None:
        name = text(params, "Name")
        role = text(params, "Role", DEFAULT) or DEFAULT
        if not is_name(name) or name in self._broker.upstreams:
            raise BadParameter("Name is taken, or cannot be that of a node")
        if role not in self._roles:
            raise BadParameter(f"there is no role {role!r}")
        self._broker.upstreams.add(read_upstream(name, text(params, "Url"), text(params, "Token", ""), role), answer)

    def show_upstream(self, name: str, url: str) -> Node:
        node = self._upstream.add(name)
        node.add_value("url", "string", url)
        node.add_value("connected", "bool", False)
        node.add_action("remove", lambda _, answer: self._broker.upstreams.remove(name, answer))
        return node

    def upstream_node(self, name: str) -> Node | None:
        return self._upstream.children.get(name)

    def hide_upstream(self, name: str) -> None:
        self._upstream.remove(name)
