"""Spark: captures as DataFrames, columns of frames as structs, the pipeline to tables.

    spark.read.format("casual").load("capture.pcap")
    df.select(from_casual("value"))                      # wirelake.spark.functions
    wirelake.spark.register(spark)                       # the same in SQL: select from_casual(value) from t

Heavy libraries are loaded on first use: Spark imports this package in every planner, which must not wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession, *protocols: str) -> None:
    """Register formats and functions with a session, for SQL too; further ``protocols`` are ``file.py:NAME``.

    ``from_wire(value, 'casual')`` and ``to_wire(struct, 'casual')`` take the protocol's name, which may differ by row.
    In SQL the type of the former cannot depend on that name: it is the common view (``protocol``, ``message``,
    ``code``, ``kind``, ``address``, ``correlation``, ``status``, ``payload_bytes``). ``from_casual`` and the like
    return all fields; ``try_from_casual`` and the like return a struct with ``_corrupt_record`` instead of failing.
    Options are a last argument, such as ``map('mode', 'PERMISSIVE')``.
    """
    from .sql import register_all

    register_all(spark, protocols)
