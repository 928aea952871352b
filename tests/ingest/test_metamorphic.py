"""Any order, any cut, any restart: the same lake, whose rows are those of each sensor alone. Worlds and histories are
drawn from seeds.

``python -m benchmarks.metamorphic`` tries thousands more, and replays one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ingest.histories import History, reference
from tests.ingest.lakes import Content
from tests.ingest.worlds import LEAST_FILES, LEAST_SENSORS, World

WORLDS, HISTORIES = 26, 8
"""Cases: their product."""


@pytest.fixture(scope="module", params=range(WORLDS))
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(request.param, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def expected(world: World) -> Content:
    return reference(world, world.folder / "reference")


@pytest.mark.parametrize("history", range(HISTORIES))
def test_every_history_of_a_world_ends_in_the_same_lake(
    world: World, expected: Content, history: int, tmp_path: Path
) -> None:
    tried = History(world, history, tmp_path / "lake")
    try:
        assert tried.run().differences(expected) == []
    except Exception as error:
        error.add_note("\n".join(tried.told))
        raise


def test_every_world_has_sensors_files_and_faults_enough(world: World, expected: Content) -> None:
    assert len(world.sensors) >= LEAST_SENSORS
    for sensor in world.sensors.values():
        assert len(sensor.files) >= LEAST_FILES and sensor.faults
        assert all(path.stat().st_size for path in sensor.files)
    assert {"silver/messages", "gold/sessions", "bronze/chunks", "accounting"} <= expected.tables.keys()


def test_there_are_enough_cases_and_all_kinds_of_worlds(tmp_path: Path) -> None:
    assert WORLDS * HISTORIES >= 200
    sensors = [sensor for world in _worlds(tmp_path) for sensor in world.sensors.values()]
    assert {sensor.kind for sensor in sensors} == {"pcap", "pcapng", "websocket", "tap", "mixed", "raw"}
    faults = {fault for sensor in sensors for fault in sensor.faults}
    assert faults == {"corrupt", "gaps", "disorder", "violations", "torn", "junk", "time", "lost_file"}
    assert any(sensor.closed_behind is not None for sensor in sensors)


def _worlds(folder: Path) -> Iterator[World]:
    return (World(seed, folder / str(seed)) for seed in range(WORLDS))
