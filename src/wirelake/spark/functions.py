"""Functions for columns that hold frames: binary values from Kafka, from tables, from anywhere.

    from wirelake.spark.functions import from_casual, to_casual

    calls = df.select(from_casual("value").alias("m")).where("m.message = 'service_call_request'")
    calls.select("m.service.name", "m.buffer.payload")
    df.select(from_ceda("value", {"dialect": "ceda4", "columns": "topic,record"}))
    df.select(from_mb("value", {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record"}))

``from_*`` returns a struct: ``message``, ``code``, ``notes``, ``raw_text``, then the protocol's fields as in its table
(``schema_of_*`` returns its type). ``to_*`` takes such a struct, or one with just the fields of the message, and
returns its bytes. It builds a null body from its decoded parts, and takes any other body as it is.

Option names ignore case. ``mode`` is FAILFAST (default: the job fails and names rule, field and offset) or PERMISSIVE
(null); with ``columnNameOfCorruptRecord`` the struct has a member of that name with rule, path, offset, detail and
bytes of an undecodable frame. ``columns`` chooses members, and only these are decoded (``*`` is all of them, including
free-form values, which are otherwise left out). A protocol adds its own: ``profile``, ``dialect`` ...

The functions are declared non-deterministic, though they are not: otherwise Spark would decode once for a filter and
once more for a select on the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..ingest.declared import Declared
from ..ingest.warm_up import warm_up
from .options import Decoding, Encoding
from .schema import in_spark
from .structs import decode_column, encode_column, struct_fields
from .user_errors import user_errors

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    ColumnOrName = Column | str
    Options = Mapping[str, Any] | None


def from_wire(data: ColumnOrName, protocol: str, options: Options = None) -> Column:
    """Decode frames of a protocol, built in or ``path/to/file.py:NAME``, into structs."""
    column: Column = decoder(Declared.named(protocol), options)(data)
    return column


def to_wire(data: ColumnOrName, protocol: str, options: Options = None) -> Column:
    """Encode structs as frames of a protocol."""
    column: Column = encoder(Declared.named(protocol), options)(data)
    return column


def schema_of_wire(protocol: str, options: Options = None) -> StructType:
    """Return the type that ``from_wire`` returns."""
    declared = Declared.named(protocol)
    return _struct_type(Decoding.of(declared, options, f"schema_of_{declared.load().name}"))


def decoder(declared: Declared, options: Options = None) -> Any:
    """Return the function itself: call it with columns, or register it under a name."""
    name = f"from_{declared.load().name}"
    decoding = Decoding.of(declared, options, name)

    def read(frames: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return decode_column(decoding, frames)

    return _function(read, name, _struct_type(decoding))


def encoder(declared: Declared, options: Options = None) -> Any:
    name = f"to_{declared.load().name}"
    encoding = Encoding.of(declared, options, name)

    def write(structs: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return encode_column(encoding, structs)

    return _function(write, name, "binary")


def _struct_type(decoding: Decoding) -> StructType:
    return in_spark(pa.schema(struct_fields(decoding)))


def _function(function: Any, name: str, returns: Any) -> Any:
    from pyspark.sql.pandas.functions import arrow_udf

    function.__name__ = function.__qualname__ = name
    made: Any = arrow_udf(function, returns)
    return made.asNondeterministic()


# --- one of each per protocol


def from_casual(data: ColumnOrName, options: Options = None) -> Column:
    """Decode casual frames into structs. Options: ``profile`` = document | late, and the common ones."""
    return from_wire(data, "casual", options)


def to_casual(data: ColumnOrName, options: Options = None) -> Column:
    """Encode structs as casual frames."""
    return to_wire(data, "casual", options)


def schema_of_casual(options: Options = None) -> StructType:
    """Return the type that ``from_casual`` returns."""
    return schema_of_wire("casual", options)


def from_dsa(data: ColumnOrName, options: Options = None) -> Column:
    """Decode DSA messages into structs. Options: ``profile`` = strict | compat, ``frame_only``, and the common ones."""
    return from_wire(data, "dsa", options)


def to_dsa(data: ColumnOrName, options: Options = None) -> Column:
    """Encode structs as DSA messages."""
    return to_wire(data, "dsa", options)


def schema_of_dsa(options: Options = None) -> StructType:
    """Return the type that ``from_dsa`` returns."""
    return schema_of_wire("dsa", options)


def from_mb(data: ColumnOrName, options: Options = None) -> Column:
    """Decode MB messages into structs. Options: ``profile`` = strict | upstream, ``framing`` = message | tcp ..."""
    return from_wire(data, "mb", options)


def to_mb(data: ColumnOrName, options: Options = None) -> Column:
    """Encode structs as MB messages."""
    return to_wire(data, "mb", options)


def schema_of_mb(options: Options = None) -> StructType:
    """Return the type that ``from_mb`` returns."""
    return schema_of_wire("mb", options)


def from_ceda(data: ColumnOrName, options: Options = None) -> Column:
    """Decode CEDA frames into structs. Options: ``dialect`` = auto | ceda4 | ceda4-ws, ``charset``, ``errors``."""
    return from_wire(data, "ceda", options)


def to_ceda(data: ColumnOrName, options: Options = None) -> Column:
    """Encode structs as CEDA frames, in the dialect that the option ``dialect`` or else the struct names."""
    return to_wire(data, "ceda", options)


def schema_of_ceda(options: Options = None) -> StructType:
    """Return the type that ``from_ceda`` returns."""
    return schema_of_wire("ceda", options)
