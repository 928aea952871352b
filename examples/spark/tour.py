"""Captures as DataFrames, frames in columns as structs: what docs/spark.md shows.

python examples/spark/tour.py CAPTURE
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

import wirelake.spark
from wirelake.spark.functions import from_casual, to_casual
from wirelake.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def formats(spark: SparkSession, capture: str) -> None:
    print("Calls by service; only two columns are decoded")
    calls = spark.read.format("casual").option("columns", "message,service").load(capture)
    calls = calls.where("message = 'service_call_request'").groupBy("service.name").count()
    calls.orderBy(f.desc("count"), "name").show(4)

    print("All protocols: the common view")
    messages = spark.read.format("wire").load(capture)
    messages.groupBy("protocol", "kind").count().orderBy("protocol", "kind").show()


def functions(spark: SparkSession, capture: str) -> None:
    print("Frames in a column, from Kafka or elsewhere: decoded and encoded")
    calls = spark.read.format("casual").load(capture).where("message = 'service_call_request'").limit(2)
    behind_the_origin = calls.columns[calls.columns.index("message") :]
    frames = calls.select(to_casual(f.struct(*behind_the_origin)).alias("value"))
    frames.select(from_casual("value").alias("m")).select("m.message", "m.service.*", "m.buffer.type").show()

    print("The same in SQL; an undecodable frame says why")
    wirelake.spark.register(spark)
    frames.union(spark.sql("select unhex('0000') as value")).createOrReplaceTempView("frames")
    spark.sql(
        """
        select m.message, m.service.name, m._corrupt_record.rule, m._corrupt_record.offset
        from (select try_from_casual(value) as m from frames)
        """
    ).show()


if __name__ == "__main__":
    started = session("local[*]", "wirelake-tour")
    formats(started, sys.argv[1])
    functions(started, sys.argv[1])
