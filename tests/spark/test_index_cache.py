"""Plans are kept between actions, for files that have not changed, and for nobody else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.captured import rows_of, table_of
from wirelake.generate import generate, write_pcap
from wirelake.spark import index_cache, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LONG_AGO = 1_700_000_000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv(index_cache.PLACE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "plans"


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "some.pcap"
    write_pcap(generate(("casual", "mb"), messages=800, connections=4, seed=5, corrupt=0.02), path)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that a planner walks through captures."""
    seen: list[int] = []
    plan = reading.plan

    def counted(pieces: Any, *arguments: Any, **options: Any) -> Any:
        seen.append(len(pieces))
        return plan(pieces, *arguments, **options)

    monkeypatch.setattr(reading, "plan", counted)
    return seen


def cuts(shares: list[reading.Share]) -> list[str]:
    """Where the captures are cut."""
    return [repr((partition.ranges, partition.is_last, kind)) for share in shares for partition, kind in share]


def test_a_second_action_does_not_walk_the_file_again(cache: Path, capture: Path, walks: list[int]) -> None:
    first = table_of("casual", capture, maxPartitionBytes="20k")
    rows = rows_of(first)
    again = table_of("casual", capture, maxPartitionBytes="20k", columns="capture,connection,direction,offset")
    assert cuts(reading.partitions(again)) == cuts(reading.partitions(first))
    assert [row["offset"] for row in rows_of(again)] == [row["offset"] for row in rows]
    assert walks == [1]
    assert len(list(cache.iterdir())) == 1


def test_rows_of_a_kept_plan_are_those_of_one_pass(cache: Path, capture: Path) -> None:
    whole = rows_of(table_of("wire", capture))
    for _ in range(2):
        assert rows_of(table_of("wire", capture, maxPartitionBytes="9k")) == whole


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.utime(path, (LONG_AGO, LONG_AGO + 1)),
        lambda path: (path.write_bytes(path.read_bytes()[:-1]), os.utime(path, (LONG_AGO, LONG_AGO))),
    ],
)
def test_a_file_that_has_changed_is_walked_again(cache: Path, capture: Path, walks: list[int], change: Any) -> None:
    reading.partitions(table_of("casual", capture, maxPartitionBytes="20k"))
    change(capture)
    reading.partitions(table_of("casual", capture, maxPartitionBytes="20k"))
    assert walks == [1, 1]


def test_what_is_read_otherwise_is_walked_again(cache: Path, capture: Path, walks: list[int]) -> None:
    for options in ({}, {"ports": "9999"}, {"maxPartitionBytes": "30k"}):
        reading.partitions(table_of("casual", capture, **({"maxPartitionBytes": "20k"} | options)))
    reading.partitions(table_of("mb", capture, maxPartitionBytes="20k"))
    assert len(walks) == 4


def test_a_file_that_has_just_changed_is_not_kept(cache: Path, capture: Path) -> None:
    os.utime(capture)
    reading.partitions(table_of("casual", capture, maxPartitionBytes="20k"))
    assert not cache.exists() or list(cache.iterdir()) == []


def test_nothing_is_kept_if_the_user_wants_so(
    cache: Path, capture: Path, walks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading.partitions(table_of("casual", capture, maxPartitionBytes="20k", indexCache="false"))
    monkeypatch.setenv(index_cache.PLACE, "")
    reading.partitions(table_of("casual", capture, maxPartitionBytes="20k"))
    assert walks == [1, 1] and not cache.exists()


def test_a_damaged_plan_and_one_that_leads_elsewhere_are_not_used(
    cache: Path, capture: Path, walks: list[int], tmp_path: Path
) -> None:
    table = table_of("casual", capture, maxPartitionBytes="20k")
    planned = cuts(reading.partitions(table))
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    for damaged in (b"", whole[:-1], whole[:40] + b"\0" + whole[41:]):
        kept.write_bytes(damaged)
        assert cuts(reading.partitions(table)) == planned
    other = tmp_path / "other.pcap"
    other.write_bytes(capture.read_bytes())
    os.utime(other, (LONG_AGO, LONG_AGO))
    reading.partitions(table_of("casual", other, maxPartitionBytes="20k"))
    (foreign,) = set(cache.iterdir()) - {kept}
    kept.write_bytes(foreign.read_bytes())
    assert cuts(reading.partitions(table)) == planned
    assert len(walks) == 6


def test_a_directory_that_others_may_write_to_is_not_used(cache: Path, capture: Path, walks: list[int]) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    for _ in range(2):
        reading.partitions(table_of("casual", capture, maxPartitionBytes="20k"))
    assert walks == [1, 1] and list(cache.iterdir()) == []


def test_the_plan_that_was_used_longest_ago_goes_first(
    cache: Path, capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, size in enumerate(("20k", "30k", "40k")):
        reading.partitions(table_of("casual", capture, maxPartitionBytes=size))
        for path in cache.iterdir():
            if path.stat().st_mtime > LONG_AGO + 10:
                os.utime(path, (LONG_AGO, LONG_AGO + number))
    oldest, *others = sorted(cache.iterdir(), key=lambda path: path.stat().st_mtime)
    monkeypatch.setattr(index_cache, "MOST_BYTES", sum(path.stat().st_size for path in others))
    index_cache._make_room(cache)
    assert sorted(cache.iterdir()) == sorted(others) and not oldest.exists()


def test_spark_plans_by_what_an_action_before_has_kept(spark: SparkSession, capture: Path) -> None:
    def frame() -> DataFrame:
        return spark.read.format("casual").option("maxPartitionBytes", "20k").load(str(capture))

    kept = index_cache.place()
    assert kept is not None
    before = set(kept.iterdir())
    count = frame().count()
    (made,) = set(kept.iterdir()) - before
    os.utime(made, (LONG_AGO, LONG_AGO))
    assert len(frame().take(5)) == 5 and frame().count() == count
    assert made.stat().st_mtime > LONG_AGO  # it was used
    assert set(kept.iterdir()) - before == {made}
