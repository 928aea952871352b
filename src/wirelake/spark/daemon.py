"""The process from which Spark forks its Python workers, with all that they need in it already.

    spark.python.daemon.module = wirelake.spark.daemon

Spark's own daemon imports next to nothing: every worker then spends a second or more on its imports. This one imports
them once, and its workers begin warm.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import PurePath

WORKERS = ("pyspark.worker",)
PLANNERS = ("pyspark.sql.worker.plan_data_source_read", "pyspark.sql.worker.data_source_pushdown_filters")


def main() -> None:
    _use_one_allocator()
    _prefer_installed_pyspark()
    from pyspark.daemon import manager

    _load(sys.argv[1])
    manager()


def _use_one_allocator() -> None:
    """Let Arrow's own libraries use jemalloc, too, as ``warm_up`` lets all else do.

    Each of two allocators would keep free memory for itself. Arrow reads the variable when it is loaded.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")


def _prefer_installed_pyspark() -> None:
    """Import PySpark from where it is installed, not from the copy that Spark puts before it: an archive without byte
    code, which is compiled each time.
    """
    for archive in [path for path in sys.path if path.endswith("pyspark.zip")]:
        if str(PurePath(archive).parents[3]) in sys.path:
            sys.path.remove(archive)
            sys.path.append(archive)


def _load(module: str) -> None:
    """Load what workers of this module use: Spark has a daemon for each, and those that look for formats use little.

    Libraries must not start threads for their computations here: threads do not survive a fork.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    importlib.import_module(module)
    if module in PLANNERS:
        from . import reading  # noqa: F401
    if module in WORKERS:
        from ..ingest.tasks import addresses, decode, gold, transactions  # noqa: F401
    if module in (*PLANNERS, *WORKERS):
        from ..ingest.warm_up import warm_up

        warm_up()


if __name__ == "__main__":
    main()
