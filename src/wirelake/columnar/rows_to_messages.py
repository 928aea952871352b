"""Many rows of one message back to messages: what a field needs is found out once, not for each row.

It reads what is plain: values that are there, of types that messages take as they are, in structures and lists. A row
with anything else goes to ``row_to_message``, which has all the rules and names what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ..codec.frame import struct_fields
from ..spec import nodes as n
from ..spec.resolve import Layout, MessageNode
from .row_to_message import message_of

Convert = Callable[[Any], Any]
_Plan = tuple[tuple[str, str, Convert | None, bool, bool], ...]
"""Of each field: its name, its column, what converts its value, whether it has to be there, whether it is a body."""


class _NotPlain(Exception):
    """The exact reader has to look at it."""


_DOUBTS = (_NotPlain, TypeError, ValueError, AttributeError, KeyError)


def needed_columns(layout: Layout, node: MessageNode, available: Sequence[str]) -> list[str]:
    """Return the columns that a message is made from."""
    fields = {field.column or field.key for field in node.fields}
    orders = {made.name for made in node.derived if isinstance(made.how, n.OrderOf)}
    return [name for name in available if name in fields | orders | {"message", "code", "raw_text"} | {*layout.options}]


@lru_cache(maxsize=1024)
def message_reader(layout: Layout, node: MessageNode) -> Callable[[Mapping[str, Any]], Any]:
    """Return what makes such a message of a row, as ``message_of`` does."""
    plan = _plan(layout, node)

    def read(row: Mapping[str, Any]) -> Any:
        if plan is not None and not row.get("raw_text"):
            try:
                return node.cls(**_values(plan, row.get), layout=layout)
            except _DOUBTS:
                pass
        return message_of(layout, row)

    return read


def _values(plan: _Plan, get: Callable[[str], Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, column, convert, is_needed, is_body in plan:
        value = get(column)
        if value is not None:
            values[name] = value if convert is None else convert(value)
        elif is_body:
            values[name] = None
        elif is_needed:
            raise _NotPlain
    return values


def _plan(layout: Layout, node: MessageNode) -> _Plan | None:
    """Return how to read the fields of a message; None if some are not plain."""
    if any(isinstance(made.how, n.OrderOf) for made in node.derived):
        return None
    fields = [field for field in node.fields if not isinstance(field.wire, n.Signature | n.Length | n.WireOnly)]
    try:
        return tuple(_step(layout, field, field.column or field.key) for field in fields)
    except _NotPlain:
        return None


def _step(layout: Layout, field: n.Field, column: str) -> tuple[str, str, Convert | None, bool, bool]:
    is_body = isinstance(field.wire, n.Body)
    return field.name, column, _convert(layout, field.wire), field.default is ... and not is_body, is_body


def _convert(layout: Layout, wire: Any) -> Convert | None:
    match wire:
        case n.Int():
            return _whole if wire.size == 8 and not wire.signed else None
        case n.Bool() | n.Fixed() | n.Body():
            return None
        case n.Run(content="text" | "strict_text" | "bytes", null=None):
            return None
        case n.Nested(struct=cls):
            return _structure(layout, cls)
        case n.Many(element=element, null=None):
            return _each(_convert(layout, element))
        case _:
            raise _NotPlain


def _whole(value: Any) -> Any:
    return int(value) if type(value) is Decimal else value


def _each(convert: Convert | None) -> Convert:
    def read(values: Any) -> tuple[Any, ...]:
        if type(values) is not list or None in values:
            raise _NotPlain
        return tuple(values) if convert is None else tuple(map(convert, values))

    return read


def _structure(layout: Layout, cls: Any) -> Convert:
    fields = [field for field in struct_fields(cls, layout) if not isinstance(field.wire, n.Length | n.WireOnly)]
    plan = tuple(_step(layout, field, field.column or field.key) for field in fields)

    def read(value: Any) -> Any:
        return cls(**_values(plan, value.get))

    return read
