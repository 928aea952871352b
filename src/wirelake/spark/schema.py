"""The columns in Arrow and in Spark, and whether a user's schema can be made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from ..columnar import schema as message_schema
from ..columnar.schema import TIMESTAMP, default_columns
from ..columnar.to_json import all_columns
from ..errors import OptionError
from ..spec.nodes import Protocol

CORRUPT = pa.struct(
    [
        pa.field("rule", pa.string()),
        pa.field("path", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("detail", pa.string()),
        pa.field("bytes", pa.binary()),
    ]
)
"""Why something could not be decoded: the broken rule, the field, where, in words, and the bytes themselves."""

ORIGIN = pa.schema(
    [
        pa.field("capture", pa.string()),
        pa.field("connection", pa.string()),
        pa.field("direction", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int32()),
        pa.field("ts", TIMESTAMP),
    ]
)
"""Where a message comes from: the columns of every captured message."""

_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""The zone of times in Arrow; before PySpark 4.2 it need not be said."""

_NOT_IN_A_COLUMN = ("offset", "length")
"""Meaningless for a frame that is a value of its own."""


def function_columns(protocol: Protocol, wanted: Sequence[str] | None, what: str) -> tuple[str, ...]:
    """Return the members of the struct that a function returns: those wanted, or all but free-form values."""
    everything = [name for name in all_columns(protocol) if name not in _NOT_IN_A_COLUMN]
    if wanted is None:
        return tuple(name for name in default_columns(protocol) if name not in _NOT_IN_A_COLUMN)
    return _chosen(wanted, everything, what)


def format_schema(protocol: Protocol) -> pa.Schema:
    """Return the table of a protocol: the envelope, its fields, then free-form values, on request."""
    everything = message_schema(protocol, tuple(all_columns(protocol)))
    return pa.schema([*ORIGIN, *(field for field in everything if field.name not in _NOT_IN_A_COLUMN)])


def default_format_columns(protocol: Protocol) -> tuple[str, ...]:
    return (*ORIGIN.names, *(name for name in default_columns(protocol) if name not in _NOT_IN_A_COLUMN))


def _chosen(wanted: Iterable[str], known: Sequence[str], what: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name for item in wanted for name in (known if item == "*" else (item,))))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise OptionError(f"{what} has no column {', '.join(map(repr, unknown))}; it has: {', '.join(known)}")
    return names


def choose(available: pa.Schema, wanted: Sequence[str], what: str) -> pa.Schema:
    """Return the fields of these names."""
    return pa.schema([available.field(name) for name in _chosen(wanted, available.names, what)])


def in_spark(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def in_arrow(schema: StructType) -> pa.Schema:
    """Return exactly the form in which Spark expects rows of this schema."""
    return to_arrow_schema(schema, **_UTC)


def check(wanted: StructType, available: pa.Schema, what: str) -> None:
    """Refuse a user's schema with unknown columns or other types."""
    _chosen(wanted.names, available.names, what)
    for field in in_arrow(wanted):
        have = available.field(field.name).type
        wrong = _mismatch(have, field.type, field.name)
        if wrong:
            raise OptionError(f"wrong schema for {what}: {wrong}")


def _mismatch(have: Any, want: Any, path: str) -> str:
    """Return why a column cannot be given as another type; empty if it can. Structs may be partial, integers wider."""
    if have == want or (_is_integer(have) and _is_integer(want) and have.bit_width <= want.bit_width):
        return ""
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        for field in want:
            if have.get_field_index(field.name) < 0:
                known = ", ".join(have.field(i).name for i in range(have.num_fields))
                return f"{path} has no member {field.name!r}; it has: {known}"
            inner = _mismatch(have.field(field.name).type, field.type, f"{path}.{field.name}")
            if inner:
                return inner
        return ""
    if pa.types.is_list(have) and pa.types.is_list(want):
        return _mismatch(have.value_type, want.value_type, f"{path}[]")
    return f"{path} is {spelled(have)}, not {spelled(want)}"


def _is_integer(kind: Any) -> bool:
    return bool(pa.types.is_signed_integer(kind))


def spelled(kind: Any) -> str:
    """Return a type as Spark spells it."""
    return str(in_spark(pa.schema([pa.field("c", kind)]))["c"].dataType.simpleString())


def fit(array: pa.Array, kind: Any) -> pa.Array:
    """Return the values as the requested type."""
    return array if array.type.equals(kind) else array.cast(kind)
