"""A dozen histories of generated worlds through Spark: the same lake as in this process, sensor by sensor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ingest.histories import History, reference
from tests.ingest.lakes import Content
from tests.ingest.worlds import World
from wirelake.spark.runner import SparkRunner
from wirelake.spark.start import SparkStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORLDS, HISTORIES = (3, 7, 11, 13), 3
FIRST_HISTORY = 100


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(request.param, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def expected(world: World) -> Content:
    return reference(world, world.folder / "reference")


@pytest.mark.parametrize("history", range(FIRST_HISTORY, FIRST_HISTORY + HISTORIES))
def test_every_history_of_a_world_ends_in_the_same_lake_on_spark(
    spark: SparkSession, world: World, expected: Content, history: int, tmp_path: Path
) -> None:
    def runner(*_: Any, **__: Any) -> SparkRunner:
        return SparkRunner(SparkStart.of(spark))

    tried = History(world, history, tmp_path / "lake", runner)
    try:
        assert tried.run().differences(expected) == []
    except Exception as error:
        error.add_note("\n".join(tried.told))
        raise
