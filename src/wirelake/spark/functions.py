"""Functions for columns that hold frames: binary values from Kafka, from tables, from anywhere.

    from wirelake.spark.functions import from_casual, to_casual

    calls = df.select(from_casual("value").alias("m")).where("m.message = 'service_call_request'")
    calls.select("m.service.name", "m.buffer.payload")
    df.select(from_ceda("value", {"dialect": "ceda4", "columns": "topic,record"}))
    df.select(from_mb("value", {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt_record"}))

``from_*`` gives a struct: ``message``, ``code``, ``notes``, ``raw_text``, then the protocol's fields as in its table
(``schema_of_*`` tells which). ``to_*`` takes such a struct, or one with just the fields of the message, and gives its
bytes; a body that is null is made from its decoded parts, one that is given counts as it is.

Options, whatever their case: ``mode`` is FAILFAST (default: the job fails and says rule, field and offset) or
PERMISSIVE (null); with ``columnNameOfCorruptRecord`` the struct has a member of that name that says rule, path, offset,
detail and bytes of what could not be read. ``columns`` chooses members, and only these are decoded (``*`` is all of
them, also free-form values, which are left out otherwise). Further the protocol's own: ``profile``, ``dialect`` ...

The functions say that they are not deterministic, though they are: otherwise Spark would decode once for a filter and
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
    """Frames of a protocol, built in or ``path/to/file.py:NAME``, as structs."""
    column: Column = decoder(Declared.named(protocol), options)(data)
    return column


def to_wire(data: ColumnOrName, protocol: str, options: Options = None) -> Column:
    """Structs as frames of a protocol."""
    column: Column = encoder(Declared.named(protocol), options)(data)
    return column


def schema_of_wire(protocol: str, options: Options = None) -> StructType:
    """The type of what ``from_wire`` gives."""
    declared = Declared.named(protocol)
    return _struct_type(Decoding.of(declared, options, f"schema_of_{declared.load().name}"))


def decoder(declared: Declared, options: Options = None) -> Any:
    """The function itself: to be called with columns, or registered under a name."""
    name = f"from_{declared.load().name}"
    how = Decoding.of(declared, options, name)

    def read(frames: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return decode_column(how, frames)

    return _function(read, name, _struct_type(how))


def encoder(declared: Declared, options: Options = None) -> Any:
    name = f"to_{declared.load().name}"
    how = Encoding.of(declared, options, name)

    def write(structs: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return encode_column(how, structs)

    return _function(write, name, "binary")


def _struct_type(how: Decoding) -> StructType:
    return in_spark(pa.schema(struct_fields(how)))


def _function(work: Any, name: str, gives: Any) -> Any:
    from pyspark.sql.pandas.functions import arrow_udf

    work.__name__ = work.__qualname__ = name
    made: Any = arrow_udf(work, gives)
    return made.asNondeterministic()


# --- one of each per protocol


def from_casual(data: ColumnOrName, options: Options = None) -> Column:
    """casual frames as structs. Options: ``profile`` = document | late, and those of every function."""
    return from_wire(data, "casual", options)


def to_casual(data: ColumnOrName, options: Options = None) -> Column:
    """Structs as casual frames."""
    return to_wire(data, "casual", options)


def schema_of_casual(options: Options = None) -> StructType:
    """The type of what ``from_casual`` gives."""
    return schema_of_wire("casual", options)


def from_dsa(data: ColumnOrName, options: Options = None) -> Column:
    """DSA messages as structs. Options: ``profile`` = strict | compat, ``frame_only``, and those of every function."""
    return from_wire(data, "dsa", options)


def to_dsa(data: ColumnOrName, options: Options = None) -> Column:
    """Structs as DSA messages."""
    return to_wire(data, "dsa", options)


def schema_of_dsa(options: Options = None) -> StructType:
    """The type of what ``from_dsa`` gives."""
    return schema_of_wire("dsa", options)


def from_mb(data: ColumnOrName, options: Options = None) -> Column:
    """MB messages as structs. Options: ``profile`` = strict | upstream, ``framing`` = message | tcp ..."""
    return from_wire(data, "mb", options)


def to_mb(data: ColumnOrName, options: Options = None) -> Column:
    """Structs as MB messages."""
    return to_wire(data, "mb", options)


def schema_of_mb(options: Options = None) -> StructType:
    """The type of what ``from_mb`` gives."""
    return schema_of_wire("mb", options)


def from_ceda(data: ColumnOrName, options: Options = None) -> Column:
    """CEDA frames as structs. Options: ``dialect`` = auto | ceda4 | ceda4-ws, ``charset``, ``errors``."""
    return from_wire(data, "ceda", options)


def to_ceda(data: ColumnOrName, options: Options = None) -> Column:
    """Structs as CEDA frames, each in the dialect that its struct names unless the option ``dialect`` does."""
    return to_wire(data, "ceda", options)


def schema_of_ceda(options: Options = None) -> StructType:
    """The type of what ``from_ceda`` gives."""
    return schema_of_wire("ceda", options)
