"""Run by test_connect.py in a process of its own: formats and functions in a Spark Connect session."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.differential import valid_frames
from tests.spark.captured import hostile_frames, write_one_connection
from wirelake.spark import register
from wirelake.spark.functions import from_casual, from_wire, to_casual
from wirelake.spark.pipeline import ingest

BULLETIN = f"{Path(__file__).resolve().parents[2] / 'examples' / 'bulletin.py'}:PROTOCOL"


def main(folder: Path) -> dict[str, Any]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        return found(spark, folder)
    finally:
        spark.stop()


def found(spark: SparkSession, folder: Path) -> dict[str, Any]:
    frames = valid_frames("casual", 60, random.Random(7))
    df = spark.createDataFrame([(frame,) for frame in frames], "value binary")
    structs = df.select(from_casual("value").alias("m"), "value")
    write_one_connection(folder / "calls.pcap", hostile_frames(30))
    register(spark, BULLETIN)
    df.createOrReplaceTempView("frames")
    return {
        "kind": type(spark).__module__,
        "again": structs.select(to_casual("m").alias("b"), "value").where("b = value").count(),
        "calls": structs.where("m.code = 3100").select("m.service.name").count(),
        "sql": spark.sql("select try_from_casual(value).message m from frames").where("m is not null").count(),
        "common": spark.sql("select from_wire(value, 'casual').kind k from frames").where("k = 'request'").count(),
        "own": spark.sql("select to_bulletin(named_struct('message', 'post', 'board', 'a')) v")
        .select(from_wire("v", BULLETIN).alias("m"))
        .collect()[0]
        .m.board,
        "format": spark.read.format("casual").load(str(folder)).where("flags < 10").count(),
        "schema": spark.read.format("casual").schema("flags bigint").load(str(folder)).columns,
        "error": error(df.selectExpr("substring(value, 1, 40) v").select(from_casual("v"))),
        "ingest": error_of(lambda: ingest(spark, [str(folder)], str(folder / "lake"))),
        "no path": error_of(lambda: spark.read.format("casual").load("/nowhere").count()),
    }


def error(df: Any) -> str:
    return error_of(df.collect)


def error_of(work: Any) -> str:
    try:
        work()
    except Exception as caught:
        return str(caught)
    return ""


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
