"""What all tests share: hypothesis draws the same examples every time, and takes the time it needs; one Spark."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.needs import require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CACHE = tempfile.TemporaryDirectory(prefix="wirelake-tests-")
os.environ["WIRELAKE_CACHE_DIR"] = CACHE.name  # plans that formats keep are not the user's

settings.register_profile("wirelake", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("wirelake")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark for all tests, started at the first use, in the way that the verbs start it."""
    require("java")
    from wirelake.spark.session import session

    made = session(
        "local[2]",
        "wirelake-tests",
        **{"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"},
    )
    yield made
    made.stop()


@pytest.fixture(scope="session")
def executor_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``wirelake package`` makes, once for all tests: compiling the kernels takes a while."""
    from wirelake.spark.package import build

    return build(tmp_path_factory.mktemp("package") / "wirelake.tar.gz").path
