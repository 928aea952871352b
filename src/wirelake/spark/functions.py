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

The functions are deterministic, so that filters on other columns, partition pruning, joins and aggregates see through
them. A filter and a select on one result decode once all the same.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import OptionError
from ..ingest.declared import Declared
from ..ingest.warm_up import warm_up
from .options import Decoding, Encoding
from .schema import in_spark
from .structs import decode_column, encode_column, struct_fields
from .user_errors import user_errors
from .worker_python import check_workers

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    ColumnOrName = Column | str
    Options = Mapping[str, Any] | None


def from_wire(data: ColumnOrName, protocol: str, options: Options = None) -> Column:
    """Decode frames of a protocol, built in or ``path/to/file.py:NAME``, into structs."""
    declared = Declared.named(protocol)
    name = f"from_{declared.load().name}"
    decoding = Decoding.of(declared, options, name)
    made = function(lambda frames, _: decode_column(decoding, frames), name, struct_type(decoding), of_columns=True)
    frames = _column(data)
    return _named(made(frames, _expensive(frames.substr(1, 0))), name, frames)


def to_wire(data: ColumnOrName, protocol: str, options: Options = None) -> Column:
    """Encode structs as frames of a protocol."""
    declared = Declared.named(protocol)
    name = f"to_{declared.load().name}"
    encoding = Encoding.of(declared, options, name)
    made = function(lambda structs, _: encode_column(encoding, structs), name, "binary")
    structs = _column(data)
    return _named(made(structs, _expensive(structs.isNull())), name, structs)


def _column(data: ColumnOrName) -> Column:
    from pyspark.sql import functions

    return functions.col(data) if isinstance(data, str) else data


def _expensive(cheap: Column) -> Column:
    """Return a further argument by which Spark knows that the function is expensive.

    Spark pushes a filter on a function's result below it, where the function runs once more, unless there is something
    expensive in it. It takes regular expressions for that, and Python for cheap. The argument depends on the column, so
    that it is not folded away, and matches an almost empty text.
    """
    return cheap.cast("string").rlike("")


def _named(made: Column, name: str, data: Column) -> Column:
    """Name a column as if it had the one argument."""
    return made.alias(f"{name}({_shown(data)})")


def _shown(data: Column) -> str:
    return str(data).removeprefix("Column<'").removesuffix("'>")


def schema_of_wire(protocol: str, options: Options = None) -> StructType:
    """Return the type that ``from_wire`` returns."""
    declared = Declared.named(protocol)
    return struct_type(Decoding.of(declared, options, f"schema_of_{declared.load().name}"))


def struct_type(decoding: Decoding) -> StructType:
    return in_spark(pa.schema(struct_fields(decoding)))


def function(convert: Callable[..., pa.Array], name: str, returns: Any, *, of_columns: bool = False) -> Any:
    """Return what converts Arrow columns as a function of Spark: one to be registered by name, or ``of_columns``."""
    from pyspark.sql.pandas import functions

    check_workers()

    def run(*columns: pa.Array) -> pa.Array:
        with user_errors():
            _check_count(convert, name, len(columns))
            warm_up()
            return convert(*columns)

    run.__name__ = run.__qualname__ = name
    if hasattr(functions, "arrow_udf"):
        return functions.arrow_udf(run, returns)  # type: ignore[call-overload]
    from . import row_functions  # PySpark 4.0

    if returns == "binary":
        return row_functions.encoding_function(run)
    return (row_functions.decoding_of_columns if of_columns else row_functions.decoding_function)(run, returns)


def _check_count(convert: Callable[..., pa.Array], name: str, given: int) -> None:
    """SQL calls a function with any number of arguments."""
    parameters = inspect.signature(convert).parameters.values()
    needed = sum(parameter.default is parameter.empty for parameter in parameters)
    if not needed <= given <= len(parameters):
        wanted = ", ".join(parameter.name for parameter in parameters)
        raise OptionError(f"{name} takes {needed} to {len(parameters)} arguments ({wanted}), not {given}")


def _functions(protocol: str) -> tuple[Callable[..., Column], Callable[..., Column], Callable[..., StructType]]:
    """Return the functions of a built-in protocol: as those above, without naming it in each call."""

    def decode(data: ColumnOrName, options: Options = None) -> Column:
        return from_wire(data, protocol, options)

    def encode(data: ColumnOrName, options: Options = None) -> Column:
        return to_wire(data, protocol, options)

    def schema(options: Options = None) -> StructType:
        return schema_of_wire(protocol, options)

    for made, like in ((decode, from_wire), (encode, to_wire), (schema, schema_of_wire)):
        made.__name__ = made.__qualname__ = like.__name__.replace("wire", protocol)
        made.__doc__ = f"As ``{like.__name__}``, for {protocol}."
    return decode, encode, schema


from_casual, to_casual, schema_of_casual = _functions("casual")
from_dsa, to_dsa, schema_of_dsa = _functions("dsa")
from_mb, to_mb, schema_of_mb = _functions("mb")
from_ceda, to_ceda, schema_of_ceda = _functions("ceda")
