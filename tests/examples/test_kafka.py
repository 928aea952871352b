"""The example for Kafka, with files in place of the broker: a stream of records that have the columns of a topic.

Spark's connector is not among the packages of PySpark, so no broker is asked.
"""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from wirelake import encode
from wirelake.protocols import ceda

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
"""As Spark's connector gives them."""


@pytest.fixture
def example() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "examples" / "spark" / "kafka.py"
    spec = importlib.util.spec_from_file_location("example_kafka", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_records_become_rows_once_and_bad_ones_say_why(spark: Any, example: ModuleType, tmp_path: Path) -> None:
    frames = [encode(ceda.Publish(topic=f"px.{number}")) for number in range(5)] + [b"\x00\x01"]
    place = tmp_path / "topic"
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for first in (0, 3):
        at = datetime(2024, 1, 1, tzinfo=UTC)
        part = [(None, frames[i], "plant", 0, i, at, 0) for i in range(first, first + 3)]
        spark.createDataFrame(part, COLUMNS).coalesce(1).write.mode("append").parquet(str(place))
        records = spark.readStream.schema(COLUMNS).parquet(str(place))
        example.write(example.decoded(records, "ceda"), out, checkpoint).awaitTermination()
    rows = {row.place.offset: row for row in spark.read.parquet(out).collect()}
    assert sorted(rows) == list(range(6)) and spark.read.parquet(out).count() == 6
    assert [rows[i].topic for i in range(5)] == [f"px.{i}" for i in range(5)]
    assert [rows[i].message for i in range(5)] == ["publish"] * 5
    assert rows[5].message is None and rows[5]._corrupt_record.rule
