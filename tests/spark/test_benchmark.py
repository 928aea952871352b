"""The measurement of the formats measures what it says: both sides read the same messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.spark import DEMANDS, measure, write_inputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_both_sides_read_the_same_messages(spark: SparkSession, tmp_path: Path) -> None:
    inputs = write_inputs(tmp_path, 300)
    calls = spark.read.format("casual").load(str(inputs.raw))
    lines = spark.read.schema(spark.read.json(str(inputs.samples)).schema).json(str(inputs.lines))
    assert calls.count() == lines.count() == 300
    ours = [tuple(row) for row in calls.selectExpr("service.name", "flags", "lower(hex(buffer.payload))").collect()]
    columns = ("`service.name`", "flags", "`buffer.payload`")
    theirs = [tuple(row) for row in lines.selectExpr(*(f"fields.{name}" for name in columns)).collect()]
    assert sorted(ours) == sorted(theirs)


def test_everything_that_is_demanded_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    best = measure(spark, 200, 1, tmp_path)
    assert {name for faster, slower, _ in DEMANDS for name in (faster, slower)} <= set(best)
    assert all(seconds < float("inf") for seconds in best.values())
