"""The tables of a lake as views, and what is said about their columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wirelake.gold.tables import TABLES
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN
from wirelake.spark.views import views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("message", pa.string()), ("text", pa.binary())])


def test_a_lake_without_rows_has_all_views(spark: SparkSession, tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake")
    names = views(spark, tmp_path / "lake")
    assert set(names) == {table.replace("/", "_") for table in (*TABLES, *(f"silver/{name}" for name in BUILT_IN))}
    for name in names:
        assert spark.table(name).count() == 0


def test_a_table_of_a_protocol_that_is_not_built_in_is_a_view_with_the_columns_of_its_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake.open(tmp_path / "a lake")
    with lake.writing() as run:
        with run.staging.attempt("t") as attempt:
            rows = [{"ts": 1_700_000_000_000_000, "message": "post", "text": b"cat"}]
            attempt.table("silver/bulletin", ROWS).write(pa.RecordBatch.from_pylist(rows, ROWS))
            files = attempt.close()
        run.commit(files)
    assert "silver_bulletin" in views(spark, str(tmp_path / "a lake"))
    (row,) = spark.sql("select message, text, cast(date as string) as date from silver_bulletin").collect()
    assert (row.message, bytes(row.text), row.date) == ("post", b"cat", "2023-11-14")


def test_every_column_of_a_table_is_documented() -> None:
    def parts(field: Any) -> list[Any]:
        inner = field.type.value_type if pa.types.is_list(field.type) else None
        return [field, *(inner if inner is not None and pa.types.is_struct(inner) else ())]

    fields = [(table, part) for table, schema in TABLES.items() for field in schema for part in parts(field)]
    assert [(table, part.name) for table, part in fields if not (part.metadata or {}).get(b"doc")] == []
