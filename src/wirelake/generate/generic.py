"""A conversation from the declaration alone: requests get replies, events are sent, the life cycle is obeyed.

For protocols that have no script of their own. Values are random, but a reply carries the correlation of its request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import reduce
from typing import Any

import msgspec

from ..spec import nodes as n
from ..spec.resolve import MessageNode
from .simulation import Link, Process, Stage
from .truth import Direction, Exchange, opposite
from .values import random_message

_NO_REPLY = 0.02
_REMEMBERED = 200
"""So many correlations are not used again."""


def begin(stage: Stage) -> None:
    for number in range(stage.connections):
        stage.start(_connection(stage, number), stage.pause(50_000))


def _connection(stage: Stage, number: int) -> Process:
    link = stage.connect(number)
    talk = _Talk(stage, link)
    yield stage.delay(500)
    while stage.more and (choices := talk.choices()):
        yield stage.pause(20_000)
        talk.step(*stage.pick(choices))
    while talk.open:
        yield stage.delay(2_000)
        if not talk.reply():
            break
    yield stage.delay(1_000)
    if farewells := talk.farewells():
        talk.step(*stage.pick(farewells))
        yield stage.delay(1_000)
    link.close()


class _Talk:
    """One connection: its state in the life cycle and its open requests."""

    def __init__(self, stage: Stage, link: Link) -> None:
        self.stage = stage
        self.link = link
        self.layout = stage.layout
        self.cycle = stage.layout.protocol.life_cycle
        self.state = self.cycle.initial if self.cycle is not None else ""
        self.open: deque[tuple[Exchange, MessageNode, Any]] = deque()
        self.used: deque[Any] = deque(maxlen=_REMEMBERED)
        self.replies = {node.answer for node in self.layout.messages.values() if node.answer is not None}

    def choices(self) -> list[tuple[Direction, MessageNode | None]]:
        """What may come next; None stands for a reply to an open request."""
        found: list[tuple[Direction, MessageNode | None]] = [
            (direction, node)
            for direction, node in self._permitted()
            if node.code not in self.replies and not self._is_end(self._next(direction, node))
        ]
        if any(self._may_reply(entry) for entry in self.open):
            found += [("to_client", None)] * max(1, len(found))
        return found or list(self._permitted())

    def farewells(self) -> list[tuple[Direction, MessageNode]]:
        """Messages behind which nothing more may come."""
        return [(direction, node) for direction, node in self._permitted() if self._is_end(self._next(direction, node))]

    def _is_end(self, state: str | None) -> bool:
        return self.cycle is not None and not (self.cycle.client.get(state or "") or self.cycle.server.get(state or ""))

    def _permitted(self) -> Iterator[tuple[Direction, MessageNode]]:
        sides: tuple[tuple[Direction, str], ...] = (("to_server", "client"), ("to_client", "server"))
        for direction, side in sides:
            for node in self.layout.messages.values():
                if node.sent_by in (side, "both") and self._next(direction, node) is not None:
                    yield direction, node

    def _next(self, direction: Direction, node: MessageNode) -> str | None:
        """The state behind this message; None if it is not allowed now."""
        if self.cycle is None:
            return ""
        side = self.cycle.client if direction == "to_server" else self.cycle.server
        return side.get(self.state, {}).get(node.name)

    def step(self, direction: Direction, node: MessageNode | None) -> None:
        if node is None:
            self.reply()
            return
        message = self._fresh(node)
        if node.answer is None:
            self.link.send(direction, message)
        else:
            correlation = _read(message, _path(node.fields, "correlation"))
            address = _read(message, _path(node.fields, "address"))
            exchange = self.link.ask(direction, message, _shown(address), _shown(correlation))
            if not self.stage.chance(_NO_REPLY):
                self.open.append((exchange, self.layout.messages[node.answer], correlation))
        self.state = self._next(direction, node) or self.state

    def _fresh(self, node: MessageNode) -> Any:
        """A message whose correlation was not used lately, if that is possible."""
        path = _path(node.fields, "correlation") if node.answer is not None else ()
        for _ in range(20):
            message = random_message(self.layout, node, self.stage.rng)
            if not path or _read(message, path) not in self.used:
                break
        if path:
            self.used.append(_read(message, path))
        return message

    def _may_reply(self, entry: tuple[Exchange, MessageNode, Any]) -> bool:
        return self._next(opposite(entry[0].direction), entry[1]) is not None

    def reply(self) -> bool:
        """Reply to one open request, not always the oldest."""
        possible = [entry for entry in self.open if self._may_reply(entry)]
        if not possible:
            return False
        entry = self.stage.pick(possible[:4])
        self.open.remove(entry)
        exchange, node, correlation = entry
        message = random_message(self.layout, node, self.stage.rng)
        path = _path(node.fields, "correlation")
        if path and correlation is not None:
            message = _write(message, path, correlation)
        self.link.reply(exchange, message, status=None)
        self.state = self._next(opposite(exchange.direction), node) or self.state
        return True


def _path(fields: tuple[n.Field, ...], role: str) -> tuple[str, ...]:
    """Return where the field with this role is, also inside structures; empty if there is none."""
    for field in fields:
        if field.role == role:
            return (field.name,)
        inner = _path(field.wire.struct.__wire_fields__, role) if isinstance(field.wire, n.Nested | n.Tags) else ()
        if inner:
            return (field.name, *inner)
    return ()


def _read(record: Any, path: tuple[str, ...]) -> Any:
    return reduce(getattr, path, record) if path else None


def _write(record: Any, path: tuple[str, ...], value: Any) -> Any:
    first, *rest = path
    inner = _write(getattr(record, first), tuple(rest), value) if rest else value
    return msgspec.structs.replace(record, **{first: inner})


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value.hex() if isinstance(value, bytes) else str(value)
