"""Captures into the tables of a lake, on Spark.

spark = wirelake.spark.session.session()
ingest(spark, ["captures/"], "lake")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..capture.settings import ReadSettings
from ..ingest import run
from ..ingest.stages import Progress
from ..ingest.step import Report
from ..lake import Lake
from .runner import SparkRunner
from .start import SparkStart

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["Report", "ingest"]


def ingest(
    spark: SparkSession | SparkContext | Callable[[], SparkSession | SparkContext],
    inputs: Iterable[str],
    lake: str | Lake,
    *,
    reading: ReadSettings | None = None,
    kind: str | None = None,
    final: bool = False,
    keep_bytes: bool = False,
    partition_bytes: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read captures (files, directories, patterns, URIs) that the lake does not have yet, and commit their tables.

    ``spark`` is a session that is not of Spark Connect, its context, or a function that makes one of them: it is called
    while the driver plans. ``final`` says that nothing
    more comes: whatever is open is decided. ``kind`` is that of captures whose bytes do not tell it (``raw``).
    """
    start = SparkStart.of(spark)
    try:
        return run.ingest(
            SparkRunner(start),
            inputs,
            lake,
            reading=reading,
            kind=kind,
            final=final,
            keep_bytes=keep_bytes,
            partition_bytes=partition_bytes,
            progress=progress,
        )
    finally:
        start.wait()
