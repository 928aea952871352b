"""A Spark that starts beside something else. Its own end is tested with the demonstration, in processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wirelake.spark.start import SparkStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_that_was_there_before_is_used_and_not_ended(spark: SparkSession) -> None:
    background = SparkStart(lambda: spark)
    background.start()
    background.wait_until_up()
    assert background.context() is spark.sparkContext
    background.end()
    background.kill()
    assert spark.range(3).count() == 3


def test_what_goes_wrong_is_told_to_whoever_waits(spark: SparkSession) -> None:
    def fail() -> SparkSession:
        raise RuntimeError("no Spark today")

    background = SparkStart(fail)
    background.start()
    with pytest.raises(RuntimeError, match="no Spark today"):
        background.context()
    with pytest.raises(RuntimeError, match="no Spark today"):
        background.wait_until_up()
    background.end()
