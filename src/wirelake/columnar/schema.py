"""Columns as Arrow types. Signed integers, plain strings and binaries: what Spark and every other engine reads."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from ..spec.columns import ENVELOPE, Column, columns
from ..spec.nodes import Protocol

TIMESTAMP = pa.timestamp("us", "UTC")
"""The type of times in every table."""

CODED = pa.dictionary(pa.int32(), pa.string())
"""Texts of which few are different, moved as numbers. Tables on disk have plain texts."""

CELL = pa.struct(
    [
        ("fid", pa.int32()),
        ("type", pa.string()),
        ("long", pa.int64()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
    ]
)
_TYPES = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "decimal": pa.decimal128(20, 0),
    "bool": pa.bool_(),
    "double": pa.float64(),
    "timestamp": TIMESTAMP,
    "string": pa.string(),
    "binary": pa.binary(),
}
FRONT = (
    pa.field("offset", pa.int64()),
    pa.field("length", pa.int32()),
    pa.field("message", pa.string()),
    pa.field("code", pa.int32()),
    pa.field("notes", pa.list_(pa.string())),
    pa.field("raw_text", pa.map_(pa.string(), pa.binary())),
)
FRONT_NAMES = tuple(f.name for f in FRONT)
QUARANTINE = pa.schema(
    [
        ("offset", pa.int64()),
        ("length", pa.int32()),
        ("verdict", pa.string()),
        ("rule", pa.string()),
        ("path", pa.string()),
        ("error_offset", pa.int64()),
        ("detail", pa.string()),
        ("bytes", pa.binary()),
    ]
)


def documented(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Return the schema of columns, each with the sentence that documents it."""
    return pa.schema([pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in columns])


def arrow_type(column: Column) -> pa.DataType:
    match column.kind:
        case "struct":
            return pa.struct([pa.field(c.name, arrow_type(c)) for c in column.children.values()])
        case "list":
            return pa.list_(arrow_type(column.children["element"]))
        case "cells":
            return pa.list_(CELL)
        case "order":
            return pa.list_(pa.string())
        case _:
            return _TYPES[column.type]


def default_columns(protocol: Protocol) -> tuple[str, ...]:
    """Everything but MessagePack and JSON, which cost a rendering each and are given when asked for by name."""
    return FRONT_NAMES + tuple(name for name, column in columns(protocol).items() if not column.is_costly)


@lru_cache(maxsize=256)
def schema(protocol: Protocol, wanted: tuple[str, ...] | None = None) -> pa.Schema:
    """The Arrow schema of these columns (all but free-form values by default)."""
    table = columns(protocol)
    front = {f.name: f for f in FRONT}
    fields = []
    for name in wanted if wanted is not None else default_columns(protocol):
        if name in front:
            fields.append(front[name])
        elif name in table:
            fields.append(pa.field(name, arrow_type(table[name])))
        else:
            known = ", ".join((*front, *table))
            raise ValueError(f"{protocol.name} has no column {name!r}; it has: {known}")
    return pa.schema(fields)


def table_schema(protocol: Protocol) -> pa.Schema:
    """The table of a protocol in a lake: the envelope, then its fields."""
    given = schema(protocol)
    front = {
        "capture": pa.field("capture", pa.string()),
        "connection": pa.field("connection", pa.string()),
        "direction": pa.field("direction", pa.string()),
        "ts": pa.field("ts", TIMESTAMP),
        "order": pa.field("order", pa.int64()),
    }
    names = [name for name, _, _ in ENVELOPE]
    envelope = [front.get(name) or given.field(name) for name in names]
    return pa.schema([*envelope, *(field for field in given if field.name not in names)])
