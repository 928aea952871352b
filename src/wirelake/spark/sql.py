"""Register formats and functions by name: for SQL, and for sessions that did not discover the formats themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import OptionError
from ..gold.facts import MESSAGES, facts, needed_columns
from ..ingest.declared import Declared
from ..ingest.warm_up import warm_up
from ..protocols import BUILT_IN
from .functions import _function, _struct_type
from .options import CORRUPT_RECORD, Decoding, Encoding
from .schema import ORIGIN, in_spark
from .structs import decode_column, encode_column, struct_fields
from .user_errors import user_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMON = pa.schema(
    [MESSAGES.field(name).remove_metadata() for name in MESSAGES.names[MESSAGES.get_field_index("message") :]]
)
"""What ``from_wire`` returns in SQL: the common view, without where a message was captured."""


def register_all(spark: SparkSession, protocols: Sequence[str] = ()) -> None:
    from . import formats

    for source in formats.sources():
        spark.dataSource.register(source)
    for declared in (*map(Declared, BUILT_IN), *map(Declared.named, protocols)):
        name = declared.load().name
        spark.udf.register(f"from_{name}", _reader(declared))
        spark.udf.register(f"try_from_{name}", _try_reader(declared))
        spark.udf.register(f"to_{name}", _writer(declared))
    spark.udf.register("from_wire", _common_reader())
    spark.udf.register("to_wire", _wire_writer())


def _reader(declared: Declared) -> Any:
    name = f"from_{declared.load().name}"

    def read(frames: pa.Array, *options: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return decode_column(Decoding.of(declared, _sql_options(options), name), frames)

    return _function(read, name, _struct_type(Decoding(declared)))


def _try_reader(declared: Declared) -> Any:
    decoding = Decoding(declared, mode="PERMISSIVE", corrupt=CORRUPT_RECORD)

    def read(frames: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return decode_column(decoding, frames)

    return _function(read, f"try_from_{declared.load().name}", _struct_type(decoding))


def _writer(declared: Declared) -> Any:
    name = f"to_{declared.load().name}"

    def write(structs: pa.Array, *options: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return encode_column(Encoding.of(declared, _sql_options(options), name), structs)

    return _function(write, name, "binary")


def _common_reader() -> Any:
    def read(frames: pa.Array, protocol: pa.Array, *options: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            return common_column(frames, protocol, options)

    return _function(read, "from_wire", in_spark(COMMON))


def _wire_writer() -> Any:
    def write(structs: pa.Array, protocol: pa.Array, *options: pa.Array) -> pa.Array:
        with user_errors():
            warm_up()
            given = _sql_options(options)
            return _by_protocol(
                structs,
                protocol,
                pa.binary(),
                lambda name, part: encode_column(Encoding.of(_installed(name), given, "to_wire"), part),
            )

    return _function(write, "to_wire", "binary")


def _sql_options(given: Sequence[pa.Array]) -> dict[str, str]:
    """Return the map that is the last argument: a literal, the same in every row."""
    if not given or not len(given[0]):
        return {}
    if not pa.types.is_map(given[0].type):
        raise OptionError(f"options must be a map of strings, such as map('mode', 'PERMISSIVE'), not {given[0].type}")
    options = dict(given[0][0].as_py() or ())
    for name in options:
        if name.lower() in ("columns", "columnnameofcorruptrecord"):
            raise OptionError(
                f"the option {name} changes the type of the result, which is fixed in SQL; "
                "use try_from_…, or the function of wirelake.spark.functions"
            )
    return options


def _installed(name: str) -> Declared:
    """Return a protocol by a name that means the same in every worker."""
    if name.rpartition(":")[0].endswith(".py"):
        raise OptionError(f"{name}: in SQL, a protocol from a file has its own functions: register(spark, {name!r})")
    return Declared.named(name)


def common_column(frames: pa.Array, protocol: pa.Array, options: Sequence[pa.Array] = ()) -> pa.Array:
    """Decode frames of one protocol or of several into the common view."""
    given = _sql_options(options)
    return _by_protocol(
        frames, protocol, pa.struct(list(COMMON)), lambda name, part: _common(_installed(name), part, given)
    )


def _common(declared: Declared, frames: pa.Array, options: dict[str, str]) -> pa.StructArray:
    protocol = declared.load()
    read = Decoding.of(declared, options, "from_wire")
    columns = ("message", "code", "notes", "raw_text", *needed_columns(protocol))
    decoding = Decoding(declared, read.reading, tuple(dict.fromkeys(columns)), read.mode)
    structs = decode_column(decoding, frames)
    known = structs.drop_null()
    records = pa.RecordBatch.from_arrays(
        [*(pa.nulls(len(known), field.type) for field in ORIGIN), *known.flatten()],
        schema=pa.schema([*ORIGIN, *struct_fields(decoding)]),
    )
    made = facts(protocol, records, **dict(read.reading)).select(COMMON.names)
    rows = pa.StructArray.from_arrays(made.columns, fields=list(COMMON))
    return rows if not structs.null_count else rows.take(_places(structs))


def _places(structs: pa.Array) -> pa.Array:
    """Return for each valid struct its number among the valid ones; null for the others."""
    valid = structs.is_valid()
    counted = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
    return pc.if_else(valid, counted, None)


def _by_protocol(values: pa.Array, protocol: pa.Array, kind: Any, convert: Any) -> pa.Array:
    """Convert each value by the protocol that is named beside it. Most often that is one for all."""
    names = pc.unique(protocol).to_pylist()
    if names == [None] or not len(values):
        return pa.nulls(len(values), kind)
    if len(names) == 1:
        return convert(names[0], values)
    parts, rows = [], []
    for name in names:
        which = pc.indices_nonzero(pc.fill_null(pc.equal(protocol, name), False)) if name is not None else None
        if which is not None:
            parts.append(convert(name, values.take(which)))
            rows.append(which)
    order = pa.array([None] * len(values), pa.int64()).to_numpy(zero_copy_only=False)
    joined = pa.concat_arrays(parts)
    order[pa.concat_arrays(rows).to_numpy()] = range(len(joined))
    return joined.take(pa.array(order, pa.int64(), from_pandas=True))
