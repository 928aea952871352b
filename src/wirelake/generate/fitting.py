"""Lengths in fields of the header: made to say what follows them, with the fields on which they depend."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec

from ..codec.encoder import bytes_behind
from ..errors import EncodeError
from ..spec import nodes as n
from ..spec.check_wires import size_given
from ..spec.conditions import conditions_of, holds
from ..spec.resolve import Layout, MessageNode


def fitted(layout: Layout, node: MessageNode, message: Any) -> Any:
    """Return the message with the lengths that its header says; itself, where that says none."""
    message = _with_sizes(layout.at(node), node, message)
    parts = layout.at(node).frame.parts
    size = next((part for part in parts if isinstance(part, n.Size) and n.By.of(part.wire) is not None), None)
    by = n.By.of(size.wire) if size is not None else None
    if size is None or by is None:
        return message
    number = bytes_behind(layout, message, size)
    for one in by.chain:
        found = _say(node, message, by, one, number)
        if found is not None:
            return found
    raise EncodeError(f"no field says {number} bytes", rule="count_fits", path=size.name)


def _with_sizes(layout: Layout, node: MessageNode, message: Any) -> Any:
    """Return the message with the sizes of the fields of its header that others there hold."""
    sizes: dict[str, int] = {}
    for field in layout.loose.values():
        by, value = n.By.of(size_given(field.wire)), getattr(message, field.name)
        if by is not None and by == n.By(by.field) and value is not None:
            sizes[by.field] = len(value.encode("utf-8", "surrogateescape")) if isinstance(value, str) else len(value)
    return msgspec.structs.replace(message, **sizes) if sizes else message


def _say(node: MessageNode, message: Any, by: n.By, one: n.By, number: int) -> Any:
    """Return the message with a length in this field, None if it cannot be there."""
    taken = (getattr(message, one.less) or 0) if one.less else 0
    value = (number - one.plus + taken) * one.per
    low, high = _limits(node.field(one.field).wire)
    if not low <= value <= high:
        return None
    asked = [when for name in by.names for when in conditions_of(node.field(name).when)]
    switches = sorted({when.field for when in asked} - {one.field})
    for chosen in product(*(_settings(message, name, asked) for name in switches)):
        made = {**dict(zip(switches, chosen, strict=True)), one.field: value}
        values = made | {name: _other(node, message, name) for name in by.names if name not in made}
        there = {name: _is_there(node, values, name) for name in values}
        first = next((each.field for each in by.chain if there[each.field]), None)
        if first == one.field:
            kept = {name: each if there[name] else None for name, each in values.items()}
            return msgspec.structs.replace(message, **kept)
    return None


def _settings(message: Any, name: str, asked: list[Any]) -> list[Any]:
    """Return the values that a field may take to fulfil conditions, or not."""
    now = getattr(message, name)
    found = [now]
    for when in (when for when in asked if when.field == name):
        found += when.one_of
        if isinstance(now, int):
            found += [
                now | when.bits,
                now & ~when.bits,
                *(limit for limit in (when.least, when.most) if limit is not None),
            ]
        if when.is_bare:
            found += [0, 1]
    return list(dict.fromkeys(found))


def _other(node: MessageNode, message: Any, name: str) -> Any:
    """Return a value for a length that another one replaces."""
    now = getattr(message, name)
    return now if now is not None else _limits(node.field(name).wire)[0]


def _is_there(node: MessageNode, values: dict[str, Any], name: str) -> bool:
    return all(holds(when, values.get(when.field)) for when in conditions_of(node.field(name).when))


def _limits(wire: Any) -> tuple[int, int]:
    if isinstance(wire, n.Bits):
        return wire.wire.low or 0, wire.wire.high if wire.wire.high is not None else (1 << wire.width) - 1
    return n.limits(wire)
