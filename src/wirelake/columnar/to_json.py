"""Rows of a batch as the JSON objects that the record codec prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ..codec.content import show_float
from ..codec.json import float_bits
from ..codec.scales import show_time
from ..spec import nodes as n
from ..spec.columns import Column, columns
from ..spec.resolve import MessageNode
from .decoder import Batch
from .schema import FRONT_NAMES


def all_columns(protocol: n.Protocol) -> tuple[str, ...]:
    """Every column, free-form values included: what it takes to print whole messages."""
    return FRONT_NAMES + tuple(columns(protocol))


def show_rows(protocol: n.Protocol, nodes: dict[str, MessageNode], batch: Batch) -> Iterator[dict[str, Any]]:
    """The object of each row, in order. Rows that the record codec decoded are printed by it."""
    for i, row in enumerate(batch.records.to_pylist()):
        slow = batch.slow.get(i)
        if slow is not None:
            yield slow.to_json()
            continue
        node = nodes[row["message"]]
        notes = {"notes": row["notes"]} if row["notes"] else {}
        yield {
            "ok": True,
            "protocol": protocol.name,
            "message": node.name,
            "code": row["code"],
            "length": row["length"],
            "fields": _fields(columns(protocol), node, row),
        } | notes


def _fields(table: dict[str, Column], node: MessageNode, row: dict[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {name: row[name] for name, column in table.items() if column.kind in ("option", "word")}
    looked = True
    for made in node.derived:
        value = row[made.name]
        if value is not None:
            shown[made.name] = value
        if isinstance(made.how, n.Present):
            looked = value is not None
    for field in node.fields:
        name = field.column or field.key
        value = row[name]
        if value is not None:
            _show_into(shown, field.key, table[name], field.wire, value)
        elif getattr(field.wire, "null_if_empty", False) and looked:
            shown[field.key] = None
    return shown


def _show_into(shown: dict[str, Any], key: str, column: Column, wire: Any, value: Any) -> None:
    if isinstance(wire, n.Nested) and wire.flat:
        for inner in wire.struct.__wire_fields__:
            if not isinstance(inner.wire, n.Length):
                name = inner.column or inner.key
                _show_into(shown, f"{key}.{inner.key}", column.children[name], inner.wire, value[name])
    else:
        shown[key] = _show(column, wire, value)


def _show(column: Column, wire: Any, value: Any) -> Any:
    if column.free:
        return json.loads(value)
    match column.kind:
        case "struct":
            inner = _wires(wire)
            return {
                name: _show(child, inner.get(name), value[name])
                for name, child in column.children.items()
                if value[name] is not None and (name in inner or child.how is not None)
            }
        case "list":
            return [_show(column.children["element"], wire.element, item) for item in value]
        case "cells":
            return [_show_cell(cell, wire) for cell in value]
        case _:
            if isinstance(value, bytes):
                if isinstance(wire, n.Body) and wire.text:
                    return _payload(value)
                return value.hex()
            if isinstance(value, datetime):
                return show_time(value)
            return show_float(value) if isinstance(value, float) else value


def _wires(wire: Any) -> dict[str, Any]:
    """The wires of the fields that this value really has, by column name."""
    if isinstance(wire, n.Nested):
        return {(f.column or f.key): f.wire for f in wire.struct.__wire_fields__}
    return {f.name: f.wire.wire for f in wire.struct.__wire_fields__}


def _payload(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def _show_cell(cell: dict[str, Any], wire: n.Cells[Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {"fid": cell["fid"], "type": cell["type"], "value": None}
    kind = next(k.wire for k in wire.types if k.name == cell["type"])
    match kind:
        case n.Float(size=size):
            shown["value"] = show_float(cell["double"])
            shown["bits"] = f"{float_bits(cell['double'], size):0{size * 2}x}"
        case n.Int():
            shown["value"] = cell["long"]
        case n.Run(content="bytes"):
            shown["value"] = cell["bytes"].hex()
        case n.Run():
            shown["value"] = cell["text"]
        case _:
            pass
    return shown
