"""The tables of a lake as views, for SQL: ``silver/casual`` is ``silver_casual``, ``gold/open`` is ``gold_open``.

from wirelake.spark.views import views

views(spark, "lake")
spark.sql("select address, outcome, count(*) from gold_exchanges group by all").show()

Tables are per sensor. Two more views put the sensors together: ``transactions`` and ``addresses``.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from ..gold.across_sensors import ACROSS_SENSORS, spark_sql
from ..gold.tables import TABLES, protocol_table, view_name, with_date
from ..lake import Lake
from ..protocols import BUILT_IN, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def views(
    spark: SparkSession, lake: str | os.PathLike[str] | Lake, as_of: int | datetime | str | None = None
) -> list[str]:
    """Make every table of a lake, and what is known across its sensors, a temporary view; return their names.

    The views are those of one commit: the last one, or that of ``as_of``, a commit or a time. A table without rows is
    a view without rows. Call it again to see what later commits add, and before the files of this one are swept: the
    lake keeps those that are replaced for 10 minutes, unless it was told otherwise.
    """
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
    lake = lake.snapshot() if as_of is None else lake.at(as_of)
    made = []
    for table, schema in _schemas(lake).items():
        name = view_name(table)
        _frame(spark, lake, table, schema).createOrReplaceTempView(name)
        made.append(name)
    for name in ACROSS_SENSORS:
        spark.sql(spark_sql(name)).createOrReplaceTempView(name)
    return [*made, *ACROSS_SENSORS]


def _schemas(lake: Lake) -> dict[str, pa.Schema]:
    """Return every table with its columns; for users' protocols, as their files have them."""
    known = TABLES | {f"silver/{name}": protocol_table(load(name)) for name in BUILT_IN}
    others = {table: lake.dataset(table).schema for table in lake.tables() if table not in known}
    return {table: with_date(table, schema) for table, schema in (known | others).items()}


def _frame(spark: SparkSession, lake: Lake, table: str, schema: pa.Schema) -> DataFrame:
    from .schema import in_spark

    wanted = in_spark(schema.remove_metadata())
    paths = lake.paths(table)
    if not paths:
        return spark.createDataFrame([], wanted)
    place = _place(lake)
    base = f"{place}/{paths[0].partition(table)[0]}{table}"  # what is below it and looks like a date is a column
    return spark.read.schema(wanted).option("basePath", base).parquet(*(f"{place}/{path}" for path in paths))


def _place(lake: Lake) -> str:
    """Return the lake's URI: a bare path would depend on Spark's default file system."""
    return lake.path if "://" in lake.path else f"file://{os.path.abspath(lake.path)}"
