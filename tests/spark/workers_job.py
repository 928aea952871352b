"""What sessions say whose workers run these Pythons: ``workers_job.py MASTER CAPTURE LAKE PYTHON...``, as JSON lines.

The first of them is PYSPARK_PYTHON, too.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # workers do not see this


def say(python: str, what: str, run: Callable[[], Any]) -> None:
    try:
        run()
        said = "nothing"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps([python, what, said]), flush=True)


def main(master: str, capture: str, lake: str, *pythons: str) -> None:
    from pyspark.sql import SparkSession

    from wirelake.spark import register
    from wirelake.spark.functions import from_casual
    from wirelake.spark.pipeline import ingest

    os.environ["PYSPARK_PYTHON"] = pythons[0]
    spark = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
    frames = spark.sql("select cast('x' as binary) as value")
    say(pythons[0], "discovered", lambda: spark.read.format("casual").load(capture))
    for python in pythons:
        spark.sparkContext.pythonExec = python
        say(python, "register", lambda: register(spark))
        say(python, "format", lambda: spark.read.format("casual").load(capture).collect())
        say(python, "function", lambda: frames.select(from_casual("value")).collect())
        say(python, "ingest", lambda: ingest(spark, [capture], lake))
    spark.stop()


main(*sys.argv[1:])
