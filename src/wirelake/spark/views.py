"""The tables of a lake as views, for SQL: ``silver/casual`` is ``silver_casual``, ``gold/open`` is ``gold_open``.

from wirelake.spark.views import views

views(spark, "lake")
spark.sql("select address, outcome, count(*) from gold_exchanges group by all").show()

Tables are per sensor. Two more views put the sensors together: ``transactions`` and ``addresses``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

from ..gold.across_sensors import ACROSS_SENSORS, spark_sql
from ..gold.tables import TABLES, protocol_table, view_name, with_date
from ..lake import Lake
from ..protocols import BUILT_IN, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def views(spark: SparkSession, lake: str | os.PathLike[str] | Lake) -> list[str]:
    """Make every table of a lake, and what is known across its sensors, a temporary view; return their names.

    A table without rows is a view without rows. Call it again to see what later commits add.
    """
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
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
    if not lake.files(table):
        return spark.createDataFrame([], wanted)
    return spark.read.schema(wanted).parquet(f"{_place(lake)}/{table}")


def _place(lake: Lake) -> str:
    """Return the lake's URI: a bare path would depend on Spark's default file system."""
    return lake.path if "://" in lake.path else f"file://{os.path.abspath(lake.path)}"
