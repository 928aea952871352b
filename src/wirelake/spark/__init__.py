"""Spark: captures as DataFrames, columns of frames as structs, the pipeline to tables.

    spark.read.format("casual").load("capture.pcap")
    df.select(from_casual("value"))                      # wirelake.spark.functions
    wirelake.spark.register(spark)                       # the same in SQL: select from_casual(value) from t
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .register import register
    from .session import SparkStartError, session, warm

__all__ = ["SparkStartError", "register", "session", "warm"]

_HOME = {"register": ".register", "session": ".session", "SparkStartError": ".session", "warm": ".session"}


def __getattr__(name: str) -> Any:
    """Loaded when first used: Spark imports the modules of formats in every planner, which must not wait."""
    import importlib

    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
