"""``spark.read.format("casual" | "dsa" | "mb" | "ceda" | "wire").load(path)``: captures as DataFrames.

    calls = spark.read.format("casual").load("captures/*.pcap")
    calls.where("message = 'service_call_request'").groupBy("service.name").count()

    spark.read.format("casual").schema("ts timestamp, service struct<name string>").load(path)   # decodes only these
    spark.read.format("ceda").option("columns", "ts,topic,record").load(path)                    # so does this
    spark.read.format("wire").load(path)                            # all protocols: the common view
    spark.read.format("wire").option("protocol", "bulletin.py:PROTOCOL").load(path)

A row is a message: where it was captured, then its fields, as in ``silver/<protocol>``. Undecodable bytes become a row
with only the former (PERMISSIVE, the default), no row (DROPMALFORMED) or an error (FAILFAST). The column that
``columnNameOfCorruptRecord`` names, ``_corrupt_record`` by default, says why and keeps the bytes, if the schema or that
option asks for it.

``df.write.format("casual").mode("append").save(directory)`` writes rows as captures (``writing.py``).

Every file is a capture of its own; with ``rotated`` the files, in the order of their names, are one.

Spark imports this module wherever it looks for formats: heavy libraries are loaded only when rows are read.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from ..errors import OptionError
from ..protocols import BUILT_IN
from .options import ReadOptions, StreamOptions, read_options
from .session_settings import Settings, seen_in
from .user_errors import user_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ..ingest.declared import Declared

NAMES = (*BUILT_IN, "wire")
_PUSHDOWN = "pyspark.sql.worker.data_source_pushdown_filters"
_OF_A_TABLE = {"provider", "owner"}
"""What Spark adds to the options of CREATE TABLE, and of nothing else."""


class Captures(DataSource):
    """The source behind every format; its name decides what it reads."""

    settings: Settings = ()
    """Of the session, as ``register`` saw them."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        if {option.lower() for option in options} >= _OF_A_TABLE:
            name = self.name()
            with user_errors():
                raise OptionError(
                    f"{name} cannot be the format of a table: use CREATE TEMPORARY VIEW name USING {name} "
                    f'OPTIONS (path "...") in SQL, or spark.read.format("{name}")'
                )

    def schema(self) -> StructType:
        from ..capture.read.listing import check_paths
        from .reading import default_schema

        with user_errors():
            options = self._options()
            check_paths(options)
            return default_schema(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        with user_errors():
            options = self._options()
            if options.stream != StreamOptions():
                raise OptionError(
                    f"{options.what}: limits per trigger, failOnDataLoss and stateLocation need readStream"
                )
            return (FilteringReader if _filters_come(options) else Reader)(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from .stream_reader import stream_reader

        with user_errors():
            return stream_reader(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from .options import write_options
        from .writing import CaptureWriter

        with user_errors():
            return CaptureWriter(write_options(self.name(), self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        name = self.name()
        with user_errors():
            raise OptionError(
                f'writeStream.format("{name}") is not there: write each batch by '
                f'foreachBatch(lambda rows, _: rows.write.format("{name}").mode("append").save(path))'
            )

    def _options(self) -> ReadOptions:
        return read_options(self.name(), self.options, self.settings)


def _filters_come(options: ReadOptions) -> bool:
    """Return whether the session pushes filters down. One that does not fails on a reader that accepts filters.

    Spark does not say, but plans with filters in a worker module of its own, and this code runs in it.
    """
    if options.push_filters == "true":
        from .filters import HAS_FILTERS

        if not HAS_FILTERS:
            raise OptionError(f"{options.what}: pushFilters=true needs PySpark 4.1 or newer")
    if options.push_filters != "auto":
        return options.push_filters == "true"
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN in sys.modules or getattr(main, "name", "") == _PUSHDOWN


class Reader(DataSourceReader):
    """Runs in Spark's planner and in its workers; Spark pickles it from one to the other."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        from .reading import Table

        self.options = options
        self.spark_schema = schema
        self.table = Table.of(options, schema)

    def partitions(self) -> list[InputPartition]:
        from .reading import partitions

        with user_errors():
            planned = [InputPartition(value) for value in partitions(self.table)]
        _freeze(self.options.protocols)
        return planned

    def read(self, partition: InputPartition | None) -> Iterator[Any]:  # PySpark 4.0 has none for no partitions
        from ..ingest.warm_up import warm_up
        from .reading import rows

        if partition is None or partition.value is None:  # without partitions, Spark makes an empty one
            return
        with user_errors():
            warm_up()
            yield from rows(self.table, partition.value)
        _freeze(self.options.protocols)


@cache
def _freeze(_: tuple[Declared, ...]) -> None:
    """Freeze what the first task loads for these protocols: the search for garbage after each task passes over it.

    Declarations and programs are a hundred thousand objects: a search takes 30 ms in a worker, 90 ms in the planner.
    """
    gc.collect()
    gc.freeze()


class FilteringReader(Reader):
    def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
        with user_errors():
            yield from self.table.filters.push(filters)


def sources() -> list[type[Captures]]:
    """Return the sources as Spark discovers them, one for each name."""
    import importlib

    return [importlib.import_module(f"pyspark_wirelake_{name}").DefaultSource for name in NAMES]


def registered(source: type[Captures], spark: SparkSession) -> type[Captures]:
    """Return a source for one session: it knows settings that Spark does not tell planners."""

    class Registered(source):  # type: ignore[misc, valid-type]
        settings = seen_in(spark)

    return Registered
