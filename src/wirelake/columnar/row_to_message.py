"""Rows back to messages: the inverse of ``rows.row_of``, for tables and struct columns that are to be sent.

A message is told by ``message``, by ``code``, or by the word that its header line begins with. Columns that the message
does not have are ignored. A body that is null is made from its decoded parts; one that is given counts as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ..codec.content import read_shown_free
from ..codec.frame import struct_fields
from ..codec.json import read_choice
from ..errors import EncodeError
from ..spec import nodes as n
from ..spec.declare import Cell, tag_rows
from ..spec.resolve import Layout, MessageNode

UNSET = msgspec.UNSET
_CELL_VALUE = {"FLOAT": "double", "DOUBLE": "double", "STRING": "text", "BYTES": "bytes", "NONE": ""}


def message_of(layout: Layout, row: Mapping[str, Any]) -> Any:
    """The message in a row; EncodeError names the field that is missing or of the wrong kind."""
    node = node_of(layout, row)
    try:
        return _message(layout, node, row)
    except EncodeError as error:
        error.protocol, error.message = layout.protocol.name, node.name
        raise


def kind_columns(layout: Layout) -> tuple[str, ...]:
    """Return the columns that say which message a row is."""
    return ("message", "code", *(part.code for part in layout.frame.parts if isinstance(part, n.Line)))


def node_of(layout: Layout, row: Mapping[str, Any]) -> MessageNode:
    """Return which message a row is; EncodeError if it does not say."""
    name, code, word = (*map(row.get, kind_columns(layout)), None)[:3]
    for given, is_it in (
        (name, lambda node: node.name == name),
        (code, lambda node: node.code == code),
        (word, lambda node: node.word == word),
    ):
        if given is not None:
            found = next(filter(is_it, layout.messages.values()), None)
            found = found or (layout.other(word) if given is word else None)
            if found is None:
                raise EncodeError(
                    f"{given!r} is not a message of {layout.protocol.name}", rule="unknown_message", path="message"
                )
            return found
    raise EncodeError("neither message nor code says which message it is", rule="unknown_message", path="message")


def _message(layout: Layout, node: MessageNode, row: Mapping[str, Any]) -> Any:
    reader = _Reader(
        layout, row, {made.how.field: made.name for made in node.derived if isinstance(made.how, n.OrderOf)}
    )
    values: dict[str, Any] = {}
    for field in node.fields:
        if isinstance(field.wire, n.Signature | n.Length | n.WireOnly):
            continue
        value = row.get(field.column or field.key)
        read = reader.field(field, value, field.key)
        if read is not UNSET:
            values[field.name] = read
        elif isinstance(field.wire, n.Body):
            values[field.name] = None  # not empty but missing: it is made from its parts
    return node.cls(**values, layout=layout)


class _Reader:
    """Values of columns -> values of fields."""

    def __init__(self, layout: Layout, row: Mapping[str, Any], orders: Mapping[str, str]) -> None:
        self.layout = layout
        self.row = row
        self.orders = orders
        """The columns that hold the order of tag tables, by field."""
        self.raw_text: dict[str, bytes] = dict(row.get("raw_text") or ())

    def field(self, field: n.Field, value: Any, path: str) -> Any:
        """The value of a field, UNSET where the default is to be taken."""
        if value is None and path not in self.raw_text:
            if field.default is ... and getattr(field.wire, "null", None) is not None:
                return None
            if field.default is ... and not isinstance(field.wire, n.Body):
                raise EncodeError("is missing", rule="field_missing", path=path)
            return UNSET
        return self.value(field.wire, value, path)

    def _choice(self, wire: n.Choice[Any], value: Any, path: str) -> Any:
        try:
            return read_choice(wire, self._json(value, path), self.layout)
        except ValueError as error:
            raise EncodeError(str(error), rule="field_type", path=path) from None
        except RecursionError:
            raise EncodeError("values lie too deep inside each other", rule="depth_limit", path=path) from None

    def value(self, wire: Any, value: Any, path: str) -> Any:
        match wire:
            case n.Int() | n.Varint() | n.Bits():
                return int(value) if isinstance(value, Decimal) else value
            case n.Run(content="text" | "strict_text"):
                return self._text(value, path)
            case n.Run(content="msgpack" | "msgpack_map"):
                return read_shown_free(self._json(value, path))
            case n.Run(content="json"):
                return self._json(value, path)
            case n.Choice():
                return self._choice(wire, value, path)
            case n.Run(null=int()) | n.Many(null=int()) if value is None and path not in self.raw_text:
                return None
            case n.Sized(inner=inner):
                return self.value(inner, value, path)
            case n.Nested(struct=cls):
                return self._struct(cls, value, path)
            case n.Many(element=element):
                return self._each(value, path, lambda item, here: self.value(element, item, here))
            case n.Cells():
                return self._each(value, path, self._cell)
            case n.Tags():
                return self._tags(wire, value, path)
            case _:
                return value

    def _text(self, value: Any, path: str) -> Any:
        if value is None and path in self.raw_text:
            return self.raw_text[path].decode("utf-8", "surrogateescape")
        return value

    def _json(self, value: Any, path: str) -> Any:
        try:
            return json.loads(value)
        except (TypeError, ValueError) as error:
            raise EncodeError(f"is not JSON text: {error}", rule="field_type", path=path) from None

    def _struct(self, cls: Any, value: Any, path: str) -> Any:
        values = {}
        for field in struct_fields(cls, self.layout):
            if isinstance(field.wire, n.Length | n.WireOnly):
                continue
            name = field.column or field.key
            inner = self.field(field, _member(value, name, path), f"{path}.{name}")
            if inner is not UNSET:
                values[field.name] = inner
        return cls(**values)

    def _each(self, value: Any, path: str, read: Callable[[Any, str], Any]) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise EncodeError(f"a list is needed, not {type(value).__name__}", rule="field_type", path=path)
        return tuple(read(item, f"{path}[{i}]") for i, item in enumerate(value))

    def _cell(self, value: Any, path: str) -> Cell:
        kind = _member(value, "type", path)
        where = _CELL_VALUE.get(kind, "long")
        return Cell(_member(value, "fid", path), kind, _member(value, where, path) if where else None)

    def _tags(self, wire: n.Tags[Any], value: Any, path: str) -> Any:
        values: dict[str, Any] = {}
        for tag in tag_rows(wire.struct):
            given = _member(value, tag.name, path)
            here = f"{path}.{tag.name}"
            if given is not None or here in self.raw_text:
                values[tag.name] = given if tag.wire is None else self.value(tag.wire, given, here)
        order = self.row.get(self.orders.get(path, "")) or ()
        return wire.struct(**values, order=tuple(name for name in dict.fromkeys(order) if name in values))


def _member(value: Any, name: str, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise EncodeError(f"a structure is needed, not {type(value).__name__}", rule="field_type", path=path)
    return value.get(name)
