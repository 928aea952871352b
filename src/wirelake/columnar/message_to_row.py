"""A message of the record codec as a row of its table.

It is what the kernel's columns must equal, and what stands in where the kernel declines.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..codec.content import dump_json, show_free, show_json
from ..codec.json import show_choice
from ..spec import nodes as n
from ..spec.columns import Column, columns
from ..spec.derive import derive, looked_into
from ..spec.resolve import Layout

UNSET = msgspec.UNSET


def row_of(message: Any, wanted: frozenset[str] | None = None) -> dict[str, Any]:
    """The row: envelope columns that a message has, and its fields by column name. Absent is None."""
    layout: Layout = message.layout
    node = layout.of(message)
    table = columns(layout.protocol)
    raw_text: dict[str, bytes] = {}
    row: dict[str, Any] = {}
    for name, column in table.items():
        if wanted is not None and name not in wanted:
            continue
        if column.kind == "option":
            row[name] = layout.shown[name]
        elif column.kind == "word":
            row[name] = node.word or None
    looked = looked_into(message)
    body_absent = node.body is not None and getattr(message, node.body.name) is None
    for field in node.fields:
        if isinstance(field.wire, n.Length | n.WireOnly):
            continue
        name = field.column or field.key
        if wanted is not None and name not in wanted:
            continue
        if field.view_of and (not looked or body_absent):
            continue
        value = getattr(message, field.name)
        if value is not UNSET and (value is not None or table[name].free):
            row[name] = _cell(table[name], value, field.key, raw_text, layout)
    for made in node.derived:
        if wanted is None or made.name in wanted:
            value = derive(made.how, message)
            row[made.name] = _text(value, made.name, raw_text) if isinstance(value, str) else value
    row["length"] = message.wire_length
    row["message"] = node.name
    row["code"] = node.code
    row["notes"] = list(message.notes) or None
    row["raw_text"] = list(raw_text.items()) or None
    return row


def _cell(column: Column, value: Any, path: str, raw_text: dict[str, bytes], layout: Layout) -> Any:
    is_absent = value is None and (not column.free or isinstance(column.wire, n.Choice))
    if is_absent:
        return None
    if column.free:
        return render(value, column, layout)
    match column.kind:
        case "struct":
            return _struct(column, value, path, raw_text, layout)
        case "list":
            element = column.children["element"]
            return [_cell(element, item, f"{path}[{i}]", raw_text, layout) for i, item in enumerate(value)]
        case "cells":
            return [_typed(cell) for cell in value]
        case "order":
            return list(value)
        case _:
            if isinstance(value, str):
                return _text(value, path, raw_text)
            return value


def _text(value: str, path: str, raw_text: dict[str, bytes]) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raw_text[path] = value.encode("utf-8", "surrogateescape")
        return None
    return value


def _struct(column: Column, value: Any, path: str, raw_text: dict[str, bytes], layout: Layout) -> dict[str, Any]:
    found: dict[str, Any] = {}
    is_table = isinstance(column.wire, n.Tags)
    names = {(f.column or f.key): f.name for f in value.__wire_fields__}
    for name, child in column.children.items():
        if child.how is not None:
            found[name] = derive(child.how, value)
            continue
        if name not in names:
            continue
        inner = getattr(value, names[name])
        if inner is UNSET or (is_table and name not in value.order):
            continue
        found[name] = (
            _cell(child, inner, f"{path}.{name}", raw_text, layout) if inner is not None or child.free else None
        )
    return found


def _typed(cell: Any) -> dict[str, Any]:
    kind = {"FLOAT": "double", "DOUBLE": "double", "STRING": "text", "BYTES": "bytes", "NONE": ""}.get(
        cell.type, "long"
    )
    typed: dict[str, Any] = {"fid": cell.fid, "type": cell.type}
    if kind:
        typed[kind] = cell.value
    return typed


def render(value: Any, column: Column, layout: Layout | None = None) -> str:
    """A free-form value as JSON text."""
    if isinstance(column.wire, n.Choice):
        assert layout is not None
        return dump_json(show_choice(column.wire, value, layout))
    return dump_json(show_json(value) if column.wire.content == "json" else show_free(value))
