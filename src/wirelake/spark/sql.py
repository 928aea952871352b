"""Register formats and functions by name: for SQL, and for sessions that did not discover the formats themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import OptionError
from ..gold.facts import MESSAGES, facts, needed_columns
from ..ingest.declared import Declared
from ..protocols import BUILT_IN
from .functions import function, struct_type
from .options import CORRUPT_RECORD, Decoding, Encoding
from .schema import ORIGIN, in_spark
from .structs import Ints, decode_column, encode_column, spread, struct_fields
from .worker_python import check_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMON = pa.schema(
    [MESSAGES.field(name).remove_metadata() for name in MESSAGES.names[MESSAGES.get_field_index("message") :]]
)
"""What ``from_wire`` returns in SQL: the common view, without where a message was captured."""
_TRY = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_RECORD}


def register_all(spark: SparkSession, protocols: Sequence[str] = ()) -> None:
    from pyspark.errors import AnalysisException

    from . import formats

    check_workers()
    for source in formats.sources():
        try:
            spark.dataSource.register(formats.registered(source, spark))
        except AnalysisException as error:  # PySpark 4.0 keeps a format that it has discovered
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
    own = {declared.load().name: declared for declared in map(Declared.named, protocols)}
    for declared in (*map(Declared, BUILT_IN), *own.values()):
        name = declared.load().name
        spark.udf.register(f"from_{name}", _reader(declared, f"from_{name}", {}))
        spark.udf.register(f"try_from_{name}", _reader(declared, f"try_from_{name}", _TRY))
        spark.udf.register(f"to_{name}", _writer(declared))
    spark.udf.register("from_wire", function(common_reader(own), "from_wire", in_spark(COMMON)))
    spark.udf.register("to_wire", function(_wire_writer(own), "to_wire", "binary"))


def _reader(declared: Declared, name: str, fixed: dict[str, str]) -> Any:
    """Return the function that decodes; ``fixed`` are the options that its name stands for."""

    def read(frames: pa.Array, options: pa.Array | None = None) -> pa.Array:
        given = _sql_options(options)
        if fixed and "mode" in map(str.lower, given):
            raise OptionError(f"{name} has no option mode: it always fills {CORRUPT_RECORD}")
        return decode_column(Decoding.of(declared, given | fixed, name), frames)

    return function(read, name, struct_type(Decoding.of(declared, fixed, name)))


def _writer(declared: Declared) -> Any:
    name = f"to_{declared.load().name}"

    def write(structs: pa.Array, options: pa.Array | None = None) -> pa.Array:
        return encode_column(Encoding.of(declared, _sql_options(options), name), structs)

    return function(write, name, "binary")


def _wire_writer(own: Mapping[str, Declared]) -> Callable[..., pa.Array]:
    """Return the function that encodes structs as frames of the protocols that are named beside them."""

    def encode(structs: pa.Array, protocol: pa.Array, options: pa.Array | None = None) -> pa.Array:
        given = _sql_options(options)

        def write(name: str, part: pa.Array) -> pa.Array:
            return encode_column(Encoding.of(_known(name, own), given, "to_wire"), part)

        return _by_protocol(structs, protocol, pa.binary(), write)

    return encode


def _sql_options(given: pa.Array | None) -> dict[str, str]:
    """Return the map that is the last argument: a literal, the same in every row."""
    if given is None or not len(given):
        return {}
    if not pa.types.is_map(given.type):
        raise OptionError(f"options must be a map of strings, such as map('mode', 'PERMISSIVE'), not {given.type}")
    options = dict(given[0].as_py() or ())
    for name in options:
        if name.lower() in ("columns", "columnnameofcorruptrecord"):
            raise OptionError(
                f"the option {name} changes the type of the result, which is fixed in SQL; "
                "use try_from_…, or the function of wirelake.spark.functions"
            )
    return options


def _known(name: str, own: Mapping[str, Declared]) -> Declared:
    """Return a protocol by a name that means the same in every worker: installed, or registered."""
    if name in own:
        return own[name]
    if name.rpartition(":")[0].endswith(".py"):
        raise OptionError(
            f"{name}: in SQL, name a protocol from a file as it calls itself, after register(spark, {name!r})"
        )
    return Declared.named(name)


def common_reader(own: Mapping[str, Declared]) -> Callable[..., pa.Array]:
    """Return the function that decodes frames of one protocol or of several into the common view."""

    def decode(frames: pa.Array, protocol: pa.Array, options: pa.Array | None = None) -> pa.Array:
        given = _sql_options(options)

        def read(name: str, part: pa.Array) -> pa.Array:
            return _common(_known(name, own), part, given)

        return _by_protocol(frames, protocol, pa.struct(list(COMMON)), read)

    return decode


def _common(declared: Declared, frames: pa.Array, options: dict[str, str]) -> pa.StructArray:
    protocol = declared.load()
    columns = ("message", "code", "notes", "raw_text", *needed_columns(protocol))
    decoding = replace(Decoding.of(declared, options, "from_wire"), columns=tuple(dict.fromkeys(columns)))
    structs = decode_column(decoding, frames)
    known = structs.drop_null()
    records = pa.RecordBatch.from_arrays(
        [*(pa.nulls(len(known), field.type) for field in ORIGIN), *known.flatten()],
        schema=pa.schema([*ORIGIN, *struct_fields(decoding)]),
    )
    made = facts(protocol, records, **dict(decoding.reading)).select(COMMON.names).cast(COMMON)
    rows = pa.StructArray.from_arrays(made.columns, fields=list(COMMON))
    return rows if not structs.null_count else rows.take(spread(_places(structs.is_valid()), len(structs)))


def _by_protocol(
    values: pa.Array, protocol: pa.Array, kind: Any, convert: Callable[[str, pa.Array], pa.Array]
) -> pa.Array:
    """Convert each value by the protocol that is named beside it. Most often that is one for all."""
    names = pc.unique(protocol).to_pylist()
    if names == [None] or not len(values):
        return pa.nulls(len(values), kind)
    if len(names) == 1:
        return convert(names[0], values)
    places = {name: _places(pc.equal(protocol, name).fill_null(False)) for name in names if name is not None}
    parts = [convert(name, values.take(pa.array(rows))) for name, rows in places.items()]
    return pa.concat_arrays(parts).take(spread(np.concatenate(list(places.values())), len(values)))


def _places(flags: pa.Array) -> Ints:
    """Return the places that are true."""
    return np.flatnonzero(flags.to_numpy(zero_copy_only=False))
