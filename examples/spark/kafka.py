"""Frames of a Kafka topic as rows of Parquet files, through Spark's own connector: one record is one frame.

spark-submit --packages CONNECTOR examples/spark/kafka.py BROKER TOPIC PROTOCOL OUT CHECKPOINT

CONNECTOR is org.apache.spark:spark-sql-kafka-0-10_2.13 of the version of your Spark. Offsets are Spark's, in
CHECKPOINT. A record that is no frame stays a row that says why.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from wirelake.spark.functions import from_wire
from wirelake.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

CORRUPT = "_corrupt_record"
OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def records(spark: SparkSession, broker: str, topic: str) -> DataFrame:
    """Return the topic as a stream, from its beginning when there is no checkpoint."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load()


def decoded(frames: DataFrame, protocol: str) -> DataFrame:
    """Return the fields of each frame, and where its record lies."""
    place = f.struct("topic", "partition", "offset", "timestamp").alias("place")
    return frames.select(place, from_wire("value", protocol, OPTIONS).alias("m")).select("place", "m.*")


def write(rows: DataFrame, out: str, checkpoint: str) -> StreamingQuery:
    """Write what is there, and end; take the trigger away to follow."""
    files = rows.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    return files.trigger(availableNow=True).start()


if __name__ == "__main__":
    broker, topic, protocol, out, checkpoint = sys.argv[1:]
    started = session(app="wirelake-kafka")
    write(decoded(records(started, broker, topic), protocol), out, checkpoint).awaitTermination()
