"""``readStream`` in Spark."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.ingest.growth import SMALLEST
from tests.ingest.worlds import Sensor, TinyWorld
from tests.spark.captured import read, split_pcap, table_of
from tests.spark.versions import has, since
from wirelake.errors import OptionError
from wirelake.generate import generate, write_pcap
from wirelake.spark.options import read_options
from wirelake.spark.stream_files import StreamPlanner, advance
from wirelake.spark.stream_shares import stream_rows

KEY = ("connection", "direction", "offset")


def run(
    spark: SparkSession, folder: Path, checkpoint: Path, name: str = "casual", **options: Any
) -> tuple[list[list[dict[str, Any]]], Any]:
    """Read what is available now; return the rows of each batch, and the progress of the query."""
    batches: list[list[dict[str, Any]]] = []

    def take(frame: DataFrame, _: int) -> None:
        batches.append([row.asDict() for row in frame.select(*KEY, "message").collect()])

    stream = spark.readStream.format(name).options(**options).load(str(folder))
    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    started = query.trigger(availableNow=True).start()
    started.awaitTermination()
    return batches, started.recentProgress


@pytest.mark.every_spark
@since("4.2", "limits of a batch")
def test_limited_batches_and_restarts_give_the_rows_of_a_batch_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder, kept = tmp_path / "source", tmp_path / "in", tmp_path / "kept"
    source.mkdir()
    folder.mkdir()
    write_pcap(generate(("casual",), messages=300, connections=4, seed=2), source / "all.pcap")
    parts = split_pcap(source / "all.pcap", 2)
    first, second = (part.read_bytes() for part in parts)
    options = {"maxBytesPerTrigger": "40k", "stateLocation": str(kept)}

    (folder / parts[0].name).write_bytes(first[:-1000])
    some, progress = run(spark, folder, tmp_path / "checkpoint", **options)
    assert len(some) == -(-len(first[:-1000]) // (40 << 10))
    assert f'"position": {len(first) - 1000}' in str(progress[0]["sources"][0]["latestOffset"]).replace("'", '"')
    (folder / parts[0].name).write_bytes(first)
    (folder / parts[1].name).write_bytes(second)
    more, _ = run(spark, folder, tmp_path / "checkpoint", **options)

    found = [row for batch in (*some, *more) for row in batch]
    expected = [{name: row[name] for name in (*KEY, "message")} for row in read("casual", folder, rotated="true")]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


@since("4.2", "limits of a batch")
@pytest.mark.parametrize("seed", range(4))
def test_captures_that_are_cut_anywhere_and_grow_give_the_rows_of_one_batch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv("WIRELAKE_CACHE_DIR", str(tmp_path / "cache"))
    draw, folder = Random(seed), tmp_path / "in"
    world = TinyWorld(seed, tmp_path / "world", cut=seed)
    limit = {"maxBytesPerTrigger": draw.choice(("1k", "3k")), "recursiveFileLookup": "true"}
    found: list[dict[str, Any]] = []
    for is_whole in (False, True):
        for sensor in world.sensors.values():
            size = sum(path.stat().st_size for path in sensor.files)
            lay_down(sensor, folder / sensor.name, size if is_whole else draw.randrange(SMALLEST, size))
        batches, _ = run(spark, folder, tmp_path / "checkpoint", "wire", **limit)
        found += [row for batch in batches for row in batch]
    stream = StreamPlanner(table_of("wire", folder, recursiveFileLookup="true"))
    shares = stream.plan({}, advance({}, stream.files.list()))
    once = [row for share in shares for batch in stream_rows(stream.table, share) for row in batch.to_pylist()]
    expected = [{name: row[name] for name in (*KEY, "message")} for row in once]
    assert expected and sorted(map(repr, found)) == sorted(map(repr, expected))


def lay_down(sensor: Sensor, folder: Path, size: int) -> None:
    """Let so many bytes of the files of a sensor be there."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sensor.files:
        data = path.read_bytes()[:size]
        if data:
            (folder / path.name).write_bytes(data)
        size -= len(data)


@pytest.mark.every_spark
def test_a_stream_without_limits_gives_the_rows_of_a_batch_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_pcap(generate(("casual",), messages=100, connections=4, seed=2), folder / "all.pcap")
    parts = split_pcap(folder / "all.pcap", 2)
    (folder / "all.pcap").unlink()
    second = parts[1].read_bytes()
    parts[1].unlink()
    some, _ = run(spark, folder, tmp_path / "checkpoint", stateLocation=str(tmp_path / "kept"))
    parts[1].write_bytes(second)
    more, _ = run(spark, folder, tmp_path / "checkpoint", stateLocation=str(tmp_path / "kept"))
    found = [row for batch in (*some, *more) for row in batch]
    expected = [{name: row[name] for name in (*KEY, "message")} for row in read("casual", folder, rotated="true")]
    assert some and more and sorted(map(repr, found)) == sorted(map(repr, expected))


@pytest.mark.every_spark
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"nonsense": "1"}, "has no option 'nonsense'"),
        *([] if has("4.2") else [({"maxFilesPerTrigger": "1"}, "maxFilesPerTrigger need PySpark 4.2")]),
    ],
)
def test_an_option_that_is_wrong_is_said(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], said: str
) -> None:
    stream = spark.readStream.format("casual").schema("message string").options(**options).load(str(tmp_path))
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(Exception, match=said):
        query.awaitTermination()


def test_two_limits_are_refused() -> None:
    with pytest.raises(OptionError, match="choose maxBytesPerTrigger or maxFilesPerTrigger"):
        read_options("wire", {"path": "x", "maxBytesPerTrigger": "1m", "maxFilesPerTrigger": "1"})
