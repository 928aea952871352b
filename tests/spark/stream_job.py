"""A query of a user: ``python stream_job.py CAPTURES STATE CHECKPOINT OUT`` reads what is there into Parquet files."""

from __future__ import annotations

import sys

from wirelake.spark.session import session

LIMIT = "12k"

if __name__ == "__main__":
    captures, state, checkpoint, out = sys.argv[1:]
    settings = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    spark = session("local[2,4]", **settings)
    stream = spark.readStream.format("wire").option("maxBytesPerTrigger", LIMIT).option("stateLocation", state)
    rows = stream.load(captures).select("connection", "direction", "offset", "message")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(out).awaitTermination()
