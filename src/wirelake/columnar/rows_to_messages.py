"""Many rows of one message back to messages: what a field needs is found out once, not for each row.

It reads what is plain: values of exactly the type that a message takes, in structures and lists. A row with anything
else is left to ``row_to_message``, which has all the rules and names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ..codec.frame import struct_fields
from ..spec import nodes as n
from ..spec.resolve import Layout, MessageNode

Convert = Callable[[Any], Any]
Read = Callable[[Mapping[str, Any]], Any]
_Plan = tuple[tuple[str, str, Convert, bool, bool], ...]
"""Of each field: its name, its column, what converts its value, whether it has to be there, whether it is a body."""
_MANY_LAYOUTS = 1024


class NotPlain(Exception):
    """A row has something for the exact reader."""


def needed_columns(node: MessageNode, available: Iterable[str]) -> list[str]:
    """Return the columns that a plain row of a message is made from."""
    fields = {field.column or field.key for field in node.fields} | {"raw_text"}
    return [name for name in available if name in fields]


@lru_cache(maxsize=_MANY_LAYOUTS)
def message_reader(layout: Layout, node: MessageNode) -> Read | None:
    """Return what makes such a message of a plain row, and raises NotPlain for another; None if no row is plain."""
    try:
        plan = _plan(layout, node.fields)
    except NotPlain:
        return None

    def read(row: Mapping[str, Any]) -> Any:
        if row.get("raw_text"):
            raise NotPlain
        return node.cls(**_values(plan, row), layout=layout)

    return read


def _plan(layout: Layout, fields: Sequence[n.Field]) -> _Plan:
    """Return how to read fields."""
    kept = (field for field in fields if not isinstance(field.wire, n.Signature | n.Length | n.WireOnly))
    return tuple(_step(layout, field) for field in kept)


def _step(layout: Layout, field: n.Field) -> tuple[str, str, Convert, bool, bool]:
    is_body = isinstance(field.wire, n.Body)
    is_needed = field.default is ... and not is_body
    return field.name, field.column or field.key, _convert(layout, field.wire), is_needed, is_body


def _values(plan: _Plan, row: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, column, convert, is_needed, is_body in plan:
        value = row.get(column)
        if value is not None:
            values[name] = convert(value)
        elif is_body:
            values[name] = None  # not empty but missing: it is made from its parts
        elif is_needed:
            raise NotPlain
    return values


def _convert(layout: Layout, wire: Any) -> Convert:
    match wire:
        case n.Int():
            return _whole
        case n.Bool():
            return _exactly(bool)
        case n.Fixed() | n.Body() | n.Run(content="bytes", null=None):
            return _exactly(bytes)
        case n.Run(content="text" | "strict_text", null=None):
            return _exactly(str)
        case n.Nested(struct=cls):
            return _structure(layout, cls)
        case n.Many(element=element, null=None):
            return _each(_convert(layout, element))
        case _:
            raise NotPlain


def _exactly(kind: type) -> Convert:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise NotPlain
        return value

    return check


def _whole(value: Any) -> Any:
    """Return a number; Spark has unsigned ones of eight bytes as decimals."""
    if type(value) is int:
        return value
    if type(value) is Decimal and value == int(value):
        return int(value)
    raise NotPlain


def _each(convert: Convert) -> Convert:
    def read(values: Any) -> tuple[Any, ...]:
        if type(values) is not list:
            raise NotPlain
        return tuple(map(convert, values))  # null is of no type

    return read


def _structure(layout: Layout, cls: Any) -> Convert:
    plan = _plan(layout, struct_fields(cls, layout))
    if any(is_body for *_, is_body in plan):
        raise NotPlain

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise NotPlain
        return cls(**_values(plan, value))

    return read
