"""Show what each executor of a cluster sees of wirelake, and whether its kernels came compiled.

    spark-submit --master spark://host:7077 $(wirelake package) examples/cluster/check.py [EXECUTORS]

One JSON line per executor. ``compiled`` counts what had to be compiled there: 0 is as it should be.
"""

import json
import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

SCHEMA = "directory string, python string, wirelake string, messages long, cached long, compiled long, seconds double"


def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode a little of everything on an executor; count what Numba loaded and what it compiled."""
    from time import perf_counter

    start = perf_counter()
    import wirelake
    from wirelake.ingest.compile_kernels import compile_kernels
    from wirelake.kernels.cache import cache_counts

    messages = compile_kernels(seed=2)
    cached, compiled = cache_counts()
    for _ in batches:
        pass
    row = {
        "directory": os.getcwd(),
        "python": sys.version.split()[0],
        "wirelake": os.path.abspath(os.path.dirname(wirelake.__file__)),
        "messages": messages,
        "cached": cached,
        "compiled": compiled,
        "seconds": round(perf_counter() - start, 3),
    }
    yield pa.RecordBatch.from_pylist([row])


def main() -> None:
    executors = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    spark = SparkSession.builder.appName("wirelake check").getOrCreate()
    # A barrier: all tasks run at the same time, so with one core each every executor gets one.
    rows = spark.range(0, executors, 1, executors).mapInArrow(look, SCHEMA, barrier=True).collect()
    for row in rows:
        print(json.dumps(row.asDict()))
    spark.stop()


main()
