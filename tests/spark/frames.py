"""Columns of generated frames."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.differential import valid_frames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROTOCOLS = ("casual", "dsa", "mb", "ceda")


def options_of(name: str) -> dict[str, str]:
    return {"dialect": "ceda4"} if name == "ceda" else {}


def frames_of(name: str, count: int = 200) -> list[bytes]:
    return valid_frames(name, count, random.Random(7), **options_of(name))


def as_frame(spark: SparkSession, frames: list[bytes | None]) -> DataFrame:
    return spark.createDataFrame([(frame,) for frame in frames], "value binary")
