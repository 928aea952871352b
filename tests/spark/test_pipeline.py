"""ingest on Spark: the lake is that of the inline runner, row for row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.ingest.growth import differing_tiny_ways
from tests.ingest.lakes import rows, tables
from wirelake.capture.settings import ReadSettings
from wirelake.generate import generate, write_pcap
from wirelake.ingest import run
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN
from wirelake.spark.pipeline import ingest
from wirelake.spark.runner import SparkRunner
from wirelake.spark.start import SparkStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = 2


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A rotated capture of connections that go on from file to file, with damage and breaches."""
    folder = tmp_path_factory.mktemp("captures")
    traffic = generate(BUILT_IN, seed=11, messages=3000, connections=4, violations=0.05, corrupt=0.01)
    write_pcap(traffic, folder / "part.pcap", files=PARTS)
    return sorted(folder.iterdir())


@pytest.mark.parametrize("partition_bytes", [None, 100_000], ids=["whole", "cut"])
def test_both_runners_give_the_same_lake(
    spark: SparkSession, parts: list[Path], tmp_path: Path, partition_bytes: int | None
) -> None:
    on_spark, here = tmp_path / "on_spark", tmp_path / "here"
    for number, part in enumerate(parts):
        final = number == PARTS - 1
        ingest(lambda: spark, [str(part)], str(on_spark), final=final, partition_bytes=partition_bytes)
        run.ingest(InlineRunner(number), [str(part)], str(here), final=final, partition_bytes=partition_bytes)
    assert tables(on_spark) == tables(here)
    assert Lake.open(on_spark, create=False).carry().keys() == Lake.open(here, create=False).carry().keys()


@pytest.mark.parametrize("seed", range(4))
def test_captures_that_are_cut_anywhere_and_grow_anyhow_give_the_lake_of_one_ingest(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    assert differing_tiny_ways(seed, range(6), tmp_path, lambda: SparkRunner(SparkStart.of(spark))) == []


@pytest.mark.every_spark
def test_one_runner_continues_the_lake_of_the_other(spark: SparkSession, parts: list[Path], tmp_path: Path) -> None:
    mixed, here = tmp_path / "mixed", tmp_path / "here"
    ingest(spark, [str(parts[0])], str(mixed))
    run.ingest(InlineRunner(), [str(parts[1])], str(mixed), final=True)
    for number, part in enumerate(parts):
        run.ingest(InlineRunner(), [str(part)], str(here), final=number == PARTS - 1)
    assert tables(mixed) == tables(here)


def test_workers_load_a_protocol_of_a_user_from_its_text(spark: SparkSession, tmp_path: Path) -> None:
    declared = Path(__file__).parents[2] / "examples" / "bulletin.py"
    name = f"{declared}:PROTOCOL"
    traffic = generate(name, seed=5, messages=200)
    write_pcap(traffic, tmp_path / "own.pcap")
    lake = tmp_path / "lake"
    report = ingest(spark, [str(tmp_path / "own.pcap")], str(lake), reading=ReadSettings(protocols=(name,)), final=True)
    (protocol,) = traffic.protocols
    assert report.messages == {protocol.name: sum(1 for _ in traffic)}
    assert rows(lake, f"silver/{protocol.name}")


def test_nothing_new_needs_no_spark(parts: list[Path], tmp_path: Path) -> None:
    def start() -> SparkSession:
        raise AssertionError("Spark is not needed")

    run.ingest(InlineRunner(), [str(parts[0])], str(tmp_path / "lake"))
    report = ingest(start, [str(parts[0])], str(tmp_path / "lake"))
    assert (report.commit, report.skipped) == (None, 1)
