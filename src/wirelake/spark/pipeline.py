"""Captures into the tables of a lake, on Spark.

spark = wirelake.spark.session.session()
ingest(spark, ["captures/"], "lake")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..ingest import follow as following
from ..ingest import run
from ..ingest.report import Report
from ..lake import Lake
from .runner import SparkRunner
from .start import SparkStart

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["Report", "follow", "ingest"]


def ingest(
    spark: SparkSession | SparkContext | Callable[[], SparkSession | SparkContext],
    inputs: Iterable[str],
    lake: str | Lake,
    **options: Any,
) -> Report:
    """Read captures that the lake does not have yet, and commit their tables: ``wirelake.ingest.run.ingest`` on Spark,
    with the same options.

    ``spark`` is a session that is not of Spark Connect, its context, or a function that makes one of them: it is called
    while the driver plans.
    """
    start = SparkStart.of(spark)
    try:
        return run.ingest(SparkRunner(start), inputs, lake, **options)
    finally:
        start.wait()


def follow(
    spark: SparkSession | SparkContext | Callable[[], SparkSession | SparkContext],
    inputs: Iterable[str],
    lake: str | Lake,
    settings: following.FollowSettings | None = None,
    **options: Any,
) -> following.Followed:
    """Keep a lake current while captures grow: ``wirelake.ingest.follow.follow`` on one Spark that stays warm."""
    start = SparkStart.of(spark)
    try:
        return following.follow(SparkRunner(start), inputs, lake, settings, **options)
    finally:
        start.wait()
