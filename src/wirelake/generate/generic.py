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
from ..spec.columns import value_of
from ..spec.conditions import holds
from ..spec.conduct import REFUSED, REPLY, REQUEST, STATUS, Selection
from ..spec.derive import derive, found, next_state, reach
from ..spec.resolve import MessageNode
from ..spec.states import is_opaque, states
from . import draws
from .fitting import fitted
from .simulation import Link, Process, Stage
from .truth import Direction, Exchange, Outcome, opposite
from .values import random_message, with_element

_NO_REPLY = 0.02
DIRECTION = "direction"
"""What conditions call the side that sends."""
_SIDES: tuple[tuple[Direction, str], ...] = (("to_server", "client"), ("to_client", "server"))
_TRIES = 20
_MOST_REFUSALS = 200
_REMEMBERED = 200
"""So many correlations are not used again."""


def begin(stage: Stage) -> None:
    for number in range(stage.connections):
        stage.start(_connection(stage, number), stage.pause(50_000))


def _connection(stage: Stage, number: int) -> Process:
    """Connect; and once more, where opaque bytes are all that may still be sent on a connection."""
    yield from _talk(stage, number)
    while stage.more and stage.layout.protocol.options.get(n.STATE):
        yield from _talk(stage, number)


def _talk(stage: Stage, number: int) -> Process:
    link = stage.connect(number)
    talk = _Talk(stage, link)
    yield stage.delay(500)
    while stage.more and (choices := talk.choices()):
        yield stage.pause(20_000)
        if stage.breaks():
            talk.break_rule()
        else:
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
        self.asked: set[Any] = set()
        self.last_reply: tuple[Direction, MessageNode, Any] | None = None
        self.parts = stage.layout.protocol.conduct.parts
        self.replies = {code for node in self.layout.messages.values() for code in node.answers}
        self.in_order = stage.layout.protocol.conduct.matching.in_order
        self.places = dict.fromkeys(("to_server", "to_client"), states(stage.layout.protocol).get(n.BEGIN))
        """The frames that each side may send now; None where it may send any."""
        named = (self.layout.named(part.reply) for part in self.parts if part.part == REQUEST)
        self.replies |= {node.code for node in named if node is not None}

    def choices(self) -> list[tuple[Direction, MessageNode | None]]:
        """What may come next; None stands for a reply to an open request."""
        found: list[tuple[Direction, MessageNode | None]] = [
            (direction, node)
            for direction, node in self._permitted()
            if not self._is_reply(direction, node) and not self._is_end(self._next(direction, node))
        ]
        if any(self._may_reply(entry) for entry in self.open):
            found += [("to_client", None)] * max(1, len(found))
        return found or [(side, node) for side, node in self._permitted() if not self._is_reply(side, node)]

    def farewells(self) -> list[tuple[Direction, MessageNode]]:
        """Messages behind which nothing more may come."""
        return [(direction, node) for direction, node in self._permitted() if self._is_end(self._next(direction, node))]

    def _is_end(self, state: str | None) -> bool:
        return self.cycle is not None and not (self.cycle.client.get(state or "") or self.cycle.server.get(state or ""))

    def _permitted(self) -> Iterator[tuple[Direction, MessageNode]]:
        for direction, side in _SIDES:
            for node in self.layout.messages.values():
                if node.sent_by in (side, "both") and self._next(direction, node) is not None:
                    yield direction, node

    def _next(self, direction: Direction, node: MessageNode) -> str | None:
        """The state behind this message; None if it is not allowed now."""
        if not self._fits(direction, node):
            return None
        if self.cycle is None:
            return ""
        side = self.cycle.client if direction == "to_server" else self.cycle.server
        return side.get(self.state, {}).get(node.name)

    def step(self, direction: Direction, node: MessageNode | None) -> None:
        if node is None:
            self.reply()
            return
        message = self._fresh(node)
        reply = self._reply_to(direction, node, message)
        if reply is None:
            self.link.send(direction, message)
        else:
            exchange, correlation = self._ask(direction, node, message)
            is_lost = self.stage.chance(_NO_REPLY) and not self.in_order
            if any(_selects(one, direction, node, message) for one in self.layout.protocol.conduct.no_reply):
                exchange.outcome = "no_reply_wanted"
            elif not is_lost or self._waits_after(direction, node):
                self.open.append((exchange, reply, correlation))
        self.state = self._next(direction, node) or self.state
        self._move(direction, node, message)

    def _fits(self, direction: Direction, node: MessageNode) -> bool:
        """Return whether the frame of a message may come now."""
        places = self.places[direction]
        return places is None or node.frame in places

    def _move(self, direction: Direction, node: MessageNode, message: Any) -> None:
        """Follow a message to the frames that come next; behind opaque bytes nothing can be told apart."""
        protocol = self.layout.protocol
        if state := next_state(message):
            self.places[direction] = states(protocol)[state]
        if is_opaque(protocol, node.frame):
            self.places[direction] = ()

    def _is_reply(self, direction: Direction, node: MessageNode) -> bool:
        """Return whether a message of this side only ever replies."""
        found = node.code in self.replies
        for part in self.parts:
            is_about_sides = part.conditions and all(one.field == DIRECTION for one in part.conditions)
            if is_about_sides and _is_named(part, node) and all(holds(one, direction) for one in part.conditions):
                found = part.part == REPLY
        return found

    def _reply_to(self, direction: Direction, node: MessageNode, message: Any) -> MessageNode | None:
        """Return the message that replies to this one, if one does."""
        answers = [self.layout.messages[code] for code in node.answers]
        found = None if not answers else self.stage.pick(answers) if len(answers) > 1 else answers[0]
        for part in self.parts:
            if _selects(part, direction, node, message):
                named = self.layout.named(part.reply) if part.part == REQUEST else None
                found = found if named is not None and part.reply == node.name and found is not None else named
        return found

    def _waits_after(self, direction: Direction, node: MessageNode) -> bool:
        """Return whether behind this request nothing but a reply may come: without one, the connection would stand."""
        if self.cycle is None:
            return False
        state = self._next(direction, node) or self.state
        replies = {self.layout.messages[code].name for code in self.replies}
        allowed = {*self.cycle.client.get(state, {}), *self.cycle.server.get(state, {})}
        return bool(allowed) and allowed <= replies

    def _ask(self, direction: Direction, node: MessageNode, message: Any, **how: Any) -> tuple[Exchange, Any]:
        correlation = _read(message, _place(node, "correlation"))
        address = _read(message, _place(node, "address"))
        return self.link.ask(direction, message, _shown(address), _shown(correlation), **how), correlation

    def _fresh(self, node: MessageNode) -> Any:
        """A message whose correlation was not used lately, if that is possible."""
        path = _place(node, "correlation")
        for _ in range(_TRIES):
            message = self._message(node)
            if path and isinstance(path[0], n.Lookup) and _read(message, path) is None:
                number = _numbered(node, path[0], self.stage.rng.randrange(1 << 20))
                message = self._with(node, message, path, number)
            if not path or _read(message, path) not in (*self.used, _absent(node, path)):
                break
        if path:
            self.used.append(_read(message, path))
            self.asked.add(_read(message, path))
        return message

    def _outcome(self, direction: Direction, node: MessageNode, message: Any) -> Outcome:
        """Return what the conduct says that a reply means."""
        outcome: Outcome = "ok"
        for result in self.layout.protocol.conduct.results:
            if _selects(result, direction, node, message):
                outcome = result.result
        return outcome

    def _refuses(self, node: MessageNode, message: Any) -> bool:
        """Return whether a message ends a handshake by a refusal, behind which nothing more may come."""
        refusals = (one for one in self.layout.protocol.conduct.introductions if one.handshake == REFUSED)
        return any(_selects(one, "to_client", node, message) for one in refusals)

    def _message(self, node: MessageNode) -> Any:
        """A random message that refuses nobody, and whose address, if it is a text, reads like one."""
        for _ in range(_MOST_REFUSALS):
            message = random_message(self.layout, node, self.stage.rng)
            if not self._refuses(node, message):
                break
        path = _place(node, "address")
        wire = _wire(node.fields, path)
        if not isinstance(wire, n.Run) or wire.content not in ("text", "strict_text") or _read(message, path) is None:
            return message
        least, most = wire.least, wire.length if isinstance(wire.length, int) else wire.most
        if n.By.of(wire.length) is not None:
            least = most = len(_read(message, path).encode())  # an earlier field says so already
        return self._with(node, message, path, draws.address(self.stage.rng, least, most))

    def _with(self, node: MessageNode, message: Any, path: tuple[Any, ...], value: Any) -> Any:
        """Return the message with another value; lengths in its header change with it."""
        return fitted(self.layout, node, _write(message, path, value))

    # --- breaking rules

    def break_rule(self) -> None:
        """Send a valid message out of sequence, if the declaration forbids any now."""
        faults = [
            fault for fault in (self._out_of_state, self._reply_to_nothing, self._reply_again) if fault(send=False)
        ]
        if faults:
            self.stage.pick(faults)(send=True)

    def _out_of_state(self, *, send: bool) -> bool:
        """A message that the life cycle does not allow in this state."""
        forbidden = [
            (direction, node)
            for direction, side in _SIDES
            for node in self.layout.messages.values()
            if node.sent_by in (side, "both") and self._next(direction, node) is None and self._fits(direction, node)
        ]
        if forbidden and send:
            direction, node = self.stage.pick(forbidden)
            message = self._fresh(node)
            if node.answer is None:
                self.link.violate("state", direction, message)
            else:
                self._ask(direction, node, message, breaks="state")
            self._move(direction, node, message)
        return bool(forbidden)

    def _reply_to_nothing(self, *, send: bool) -> bool:
        """A reply with a correlation that no request had."""
        direction: Direction = "to_client"
        known = [self.layout.messages[code] for code in self.replies]
        nodes = [node for node in known if self._next(direction, node) is not None and node.sent_by != "client"]
        nodes = [node for node in nodes if _place(node, "correlation") and self._has_one_reply()]
        if nodes and send:
            message = self._message(node := self.stage.pick(nodes))
            correlation = _read(message, _place(node, "correlation"))
            if correlation not in self.asked:
                self.link.violate("unexpected_reply", direction, message)
                self.asked.add(correlation)
                self.used.append(correlation)
        return bool(nodes)

    def _reply_again(self, *, send: bool) -> bool:
        """The last reply once more."""
        if self.last_reply is None or not self._has_one_reply():
            return False
        direction, node, correlation = self.last_reply
        if self._next(direction, node) is None:
            return False
        if send:
            self.link.violate("duplicate_reply", direction, self._reply_with(node, correlation))
        return True

    def _has_one_reply(self) -> bool:
        conduct = self.layout.protocol.conduct
        return conduct.streams is None and conduct.facts is None and not conduct.matching.shared

    def _may_reply(self, entry: tuple[Exchange, MessageNode, Any]) -> bool:
        return self._next(opposite(entry[0].direction), entry[1]) is not None

    def reply(self) -> bool:
        """Reply to one open request, not always the oldest."""
        possible = [entry for entry in self.open if self._may_reply(entry)]
        if not possible:
            return False
        entry = possible[0] if self.in_order else self.stage.pick(possible[:4])
        self.open.remove(entry)
        exchange, node, correlation = entry
        message = self._reply_with(node, correlation)
        self.link.reply(exchange, message, self._outcome(opposite(exchange.direction), node, message))
        if (following := self._following(exchange, node, message)) is not None:
            self.open.appendleft((exchange, following, correlation))
        self.last_reply = opposite(exchange.direction), node, correlation
        self.state = self._next(opposite(exchange.direction), node) or self.state
        self._move(opposite(exchange.direction), node, message)
        return True

    def _following(self, exchange: Exchange, node: MessageNode, message: Any) -> MessageNode | None:
        """Return another reply, after one behind which more may come."""
        streams, asked = self.layout.protocol.conduct.streams, self.layout.named(exchange.message)
        if streams is None or streams.once or asked is None:
            return None
        if not any(_selects(one, opposite(exchange.direction), node, message) for one in streams.continues):
            return None
        others = [self.layout.messages[code] for code in asked.answers if code != node.code]
        return self.stage.pick(others) if others else None

    def _reply_with(self, node: MessageNode, correlation: Any) -> Any:
        path = _place(node, "correlation")
        for _ in range(_TRIES):
            message = self._message(node)
            if not path or _read(message, path) is not _absent(node, path):
                break
        is_there = path and _read(message, path) is not _absent(node, path)
        return self._with(node, message, path, correlation) if is_there and correlation is not None else message


def _absent(node: MessageNode, path: tuple[Any, ...]) -> Any:
    """Return what a field is that its condition leaves out; of one that is always there, what no field is."""
    return None if not isinstance(path[0], n.Lookup) and node.field(path[0]).when is not None else _ALWAYS


_ALWAYS = object()


def _is_named(selection: Selection, node: MessageNode) -> bool:
    return not selection.messages or node.name in selection.messages


def _selects(selection: Selection, direction: Direction, node: MessageNode, message: Any) -> bool:
    """Return whether a message is among those that the conduct selects."""
    return _is_named(selection, node) and all(
        holds(one, _value(one.field, direction, node, message)) for one in selection.conditions
    )


def _value(path: str, direction: Direction, node: MessageNode, message: Any) -> Any:
    """Return what a condition is about; None where the message has no such field."""
    if path == DIRECTION:
        return direction
    if path == STATUS:
        return _read(message, _place(node, "status"))
    for made in node.derived:
        if made.name == path and isinstance(made.how, n.Lookup):
            return derive(made.how, message)
    names = {field.column or field.key: field.name for field in node.fields}
    first, _, inner = path.partition(".")
    value = getattr(message, names[first]) if first in names else None
    return reach(value, inner) if inner and value is not None else value


def _numbered(node: MessageNode, how: n.Lookup, number: int) -> Any:
    """Return a number as a list says it under a key."""
    match value_of(node.cls, how):
        case n.Int() | n.Varint() | n.Digits() as wire:
            low, high = n.limits(wire)
            return low + number % (high - low + 1)
        case n.Fixed(size=size):
            return number.to_bytes(max(size, 3), "big")[-size:]
        case n.Run(content="bytes"):
            return f"{number}".encode()
        case _:
            return f"{number}"


def _place(node: MessageNode, role: str) -> tuple[Any, ...]:
    """Return where the field with this role is: its path, or how it is looked up; empty if there is none."""
    looked_up = (made.how for made in node.derived if made.role == role and isinstance(made.how, n.Lookup))
    return next(((how,) for how in looked_up), _path(node.fields, role))


def _path(fields: tuple[n.Field, ...], role: str) -> tuple[str, ...]:
    """Return where the field with this role is, also inside structures; empty if there is none."""
    for field in fields:
        if field.role == role:
            return (field.name,)
        inner = _path(field.wire.struct.__wire_fields__, role) if isinstance(field.wire, n.Nested | n.Tags) else ()
        if inner:
            return (field.name, *inner)
    return ()


def _wire(fields: tuple[n.Field, ...], path: tuple[Any, ...]) -> Any:
    """Return the wire node at a path."""
    if path and isinstance(path[0], n.Lookup):
        return None
    for name in path:
        field = next(f for f in fields if f.name == name)
        fields = getattr(getattr(field.wire, "struct", None), "__wire_fields__", ())
    return field.wire if path else None


def _read(record: Any, path: tuple[Any, ...]) -> Any:
    if path and isinstance(path[0], n.Lookup):
        return found(path[0], getattr(record, path[0].field))
    return reduce(getattr, path, record) if path else None


def _write(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    first, *rest = path
    if isinstance(first, n.Lookup):
        elements = with_element(type(record), first, getattr(record, first.field), value)
        return msgspec.structs.replace(record, **{first.field: elements})
    inner = _write(getattr(record, first), tuple(rest), value) if rest else value
    return msgspec.structs.replace(record, **{first: inner})


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value.hex() if isinstance(value, bytes) else str(value)
