"""Steps that are disturbed: tasks in any order, attempts that fail, ingests that are given up. The lake is the same."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.lakes import tables
from tests.lake.lakes import tree
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.ingest.runner import IngestError
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN

PARTS = 3
CUT = 1 << 16
BUCKETS = 3
SEEDS = range(int(os.environ.get("WIRELAKE_SEEDS", "2")))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A rotated capture of connections that go on from file to file, with damage and breaches."""
    folder = tmp_path_factory.mktemp("captures")
    traffic = generate(BUILT_IN, seed=22, messages=600, connections=2, violations=0.05, corrupt=0.01)
    write_pcap(traffic, folder / "part.pcap", files=PARTS)
    return sorted(folder.glob("part-*.pcap"))


def feed(runner: InlineRunner, parts: list[Path], number: int, place: Path) -> Any:
    """Ingest a part. A loss of power is not tested here, so the lake need not wait for the disk."""
    lake = Lake.open(place, settings={"buckets": BUCKETS}, durable=False)
    return ingest(runner, [str(parts[number])], lake, final=number == PARTS - 1, partition_bytes=CUT)


def contents(place: Path) -> dict[str, Any]:
    """All rows of a lake; and its directories hold what they should, and nothing else."""
    lake = Lake.open(place, create=False)
    for table in lake.tables():
        listed = [path for path in tree(lake.store, table) if path.endswith(".parquet")]
        assert listed == sorted(file.path for file in lake.files(table)), table
    kept = {path for listed in lake.kept().values() for one in listed for path in one.carry.values()}
    assert sorted(tree(lake.store, "_carry")) == sorted({*lake.carry().values(), *kept})
    assert tree(lake.store, "_staging") == []
    return {"tables": tables(lake), "commits": lake.number(), "carry": sorted(lake.carry())}


@pytest.fixture(scope="module")
def clean(parts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("clean") / "lake"
    for number in range(PARTS):
        feed(InlineRunner(), parts, number, place)
    return contents(place)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_of_tasks_and_failed_attempts_change_nothing(
    seed: int, parts: list[Path], clean: dict[str, Any], tmp_path: Path
) -> None:
    for number in range(PARTS):
        feed(InlineRunner(seed * PARTS + number, failing=0.3, attempts=50), parts, number, tmp_path / "lake")
    assert contents(tmp_path / "lake") == clean


@pytest.mark.parametrize("seed", SEEDS)
def test_ingests_that_are_given_up_at_any_task_change_nothing(
    seed: int, parts: list[Path], clean: dict[str, Any], tmp_path: Path
) -> None:
    place = tmp_path / "lake"
    given_up = 0
    for number in range(PARTS):
        tries = 0
        while not tries or Lake.open(place, create=False).number() == number:
            tries += 1
            with suppress(IngestError):
                feed(InlineRunner(1000 * seed + 100 * number + tries, failing=0.1, attempts=1), parts, number, place)
        given_up += tries - 1
    assert given_up
    assert contents(place) == clean
