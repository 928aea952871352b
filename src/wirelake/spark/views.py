"""The tables of a lake as views, for SQL: ``silver/casual`` is ``silver_casual``, ``gold/open`` is ``gold_open``.

from wirelake.spark.views import views

views(spark, "lake")
spark.sql("select address, outcome, count(*) from gold_exchanges group by all").show()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa

from ..columnar.schema import table_schema
from ..gold.tables import TABLES, view_name, with_date
from ..lake import Lake
from ..protocols import BUILT_IN, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def views(spark: SparkSession, lake: str | os.PathLike[str] | Lake) -> list[str]:
    """Makes every table of a lake a temporary view; gives their names.

    A table without rows is a view without rows. What a later commit adds is there after another call.
    """
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
    made = []
    for table, schema in _schemas(lake).items():
        name = view_name(table)
        _frame(spark, lake, table, schema).createOrReplaceTempView(name)
        made.append(name)
    return made


def _schemas(lake: Lake) -> dict[str, pa.Schema]:
    """Every table with its columns; of protocols that are not built in, as their files have them."""
    known = TABLES | {f"silver/{name}": table_schema(load(name)) for name in BUILT_IN}
    others = {table: lake.dataset(table).schema for table in lake.tables() if table not in known}
    return {table: with_date(table, schema) for table, schema in (known | others).items()}


def _frame(spark: SparkSession, lake: Lake, table: str, schema: pa.Schema) -> DataFrame:
    from .schema import in_spark

    wanted = in_spark(schema.remove_metadata())
    if not lake.files(table):
        return spark.createDataFrame([], wanted)
    return spark.read.schema(wanted).parquet(f"{_place(lake)}/{table}")


def _place(lake: Lake) -> str:
    """The lake by a name that does not depend on what Spark takes for its own file system."""
    return lake.path if "://" in lake.path else f"file://{os.path.abspath(lake.path)}"
