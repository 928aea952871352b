"""One Spark for all tests of this room: started at the first use, in the way that the verbs start it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.needs import require
from wirelake.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    require("java")
    made = session(
        "local[2]",
        "wirelake-tests",
        **{"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"},
    )
    yield made
    made.stop()
