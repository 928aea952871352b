"""``df.write.format("casual")`` and the like: rows become captures that read back equal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.captured import call
from wirelake.columnar.row_to_message import kind_columns
from wirelake.generate import generate, write_pcap
from wirelake.protocols import BUILT_IN, load
from wirelake.spec.resolve import layout

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BULLETIN = Path(__file__).resolve().parents[2] / "examples" / "bulletin.py"
NEW = {"capture", "connection"}
"""What a row has from the capture that it is read from."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("writing")


def captured(spark: SparkSession, folder: Path, name: str, **options: Any) -> DataFrame:
    path = folder / f"{name}.pcap"
    if not path.exists():
        write_pcap(generate(name, messages=250, connections=3, seed=7), path)
    return spark.read.format(name).options(**options).load(str(path))


def content(df: DataFrame, *without: str) -> list[str]:
    """Return the rows in an order of their own, without what depends on the capture."""
    rows = (row.asDict(recursive=True) for row in df.collect())
    return sorted(
        repr(sorted((name, value) for name, value in row.items() if name not in {*NEW, *without})) for row in rows
    )


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.every_spark
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_tap_reads_back_equal(spark: SparkSession, folder: Path, tmp_path: Path, name: str) -> None:
    rows = captured(spark, folder, name, mode="FAILFAST")
    rows.write.format(name).mode("append").save(str(tmp_path))
    assert [path.endswith(".tap") for path in files(tmp_path)] == [True]
    back = spark.read.format(name).option("mode", "FAILFAST").load(str(tmp_path))
    expected = content(rows)
    assert len(expected) >= 250 and content(back) == expected
    assert back.select("connection").distinct().count() == rows.select("connection").distinct().count()


@pytest.mark.every_spark
@pytest.mark.parametrize("name", BUILT_IN)
def test_raw_streams_read_back_equal_but_for_times(
    spark: SparkSession, folder: Path, tmp_path: Path, name: str
) -> None:
    rows = captured(spark, folder, name)
    rows.repartition(2, "connection").sortWithinPartitions("connection", "direction", "offset").write.format(
        name
    ).option("kind", "raw").option("compression", "gzip").mode("append").save(str(tmp_path))
    assert all(name.endswith(("-to_server.bin.gz", "-to_client.bin.gz")) for name in files(tmp_path))
    back = spark.read.format(name).options(kind="raw", mode="FAILFAST").load(str(tmp_path))
    assert content(back, "ts") == content(rows, "ts")


@pytest.mark.every_spark
def test_structs_of_a_query_become_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    from wirelake.spark.functions import from_casual

    frames = spark.createDataFrame([(bytearray(call(number, b"x")),) for number in range(20)], "value binary")
    rows = frames.coalesce(1).select(from_casual("value").alias("m")).select("m.*")
    rows.write.format("casual").mode("append").save(str(tmp_path))
    (path,) = tmp_path.iterdir()
    assert path.name.endswith("-to_server.bin")
    assert path.read_bytes() == b"".join(call(number, b"x") for number in range(20))


@pytest.mark.every_spark
def test_a_protocol_of_ones_own_is_written(spark: SparkSession, tmp_path: Path) -> None:
    name = f"{BULLETIN}:PROTOCOL"
    write_pcap(generate(load(name), messages=60, seed=2), tmp_path / "own.pcap")
    rows = spark.read.format("wire").option("protocol", name).load(str(tmp_path / "own.pcap"))
    rows.write.format("wire").option("protocol", name).mode("append").save(str(tmp_path / "out"))
    back = spark.read.format("wire").options(protocol=name, mode="FAILFAST").load(str(tmp_path / "out"))
    assert content(back) == content(rows) and rows.count() > 0


@pytest.mark.every_spark
def test_append_adds_and_overwrite_replaces_even_what_it_reads(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    rows, place = captured(spark, folder, "casual").repartition(3), tmp_path / "out"
    size = rows.count()
    for times in (1, 2):
        rows.write.format("casual").mode("append").save(str(place))
        assert spark.read.format("casual").load(str(place)).count() == size * times
    assert len(files(place)) == 6 and {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o600}
    kept = spark.read.format("casual").load(str(place)).where("message = 'service_call_request'")
    count = kept.count()
    kept.coalesce(1).write.format("casual").mode("overwrite").option("compression", "zstd").save(str(place))
    assert [name.endswith(".tap.zst") for name in files(place)] == [True]
    assert spark.read.format("casual").load(str(place)).count() == count > 0
    kept.limit(0).write.format("casual").mode("overwrite").save(str(place))
    assert files(place) == []


@pytest.mark.every_spark
def test_what_is_there_can_be_an_error_or_a_reason_to_write_nothing(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    rows, place = captured(spark, folder, "casual"), tmp_path / "out"
    for choice in ("error", "ignore"):
        rows.write.format("casual").mode("append").option("ifExists", choice).save(str(place / choice))
        assert len(files(place / choice)) == 1
    rows.write.format("casual").mode("append").option("ifExists", "ignore").save(str(place / "ignore"))
    assert len(files(place / "ignore")) == 1
    fails(rows, place / "error", r"out/error exists already, and ifExists is error", ifExists="error")
    with pytest.raises(Exception, match="ErrorIfExists"):  # Spark's own words: it knows only two modes here
        rows.write.format("casual").save(str(place / "other"))
    assert files(place) == ["error", "ignore"]


def fails(rows: DataFrame, place: Path, said: str, name: str = "casual", **options: Any) -> None:
    with pytest.raises(Exception, match=said):
        rows.write.format(name).mode("append").options(**options).save(str(place))


@pytest.mark.every_spark
def test_a_job_that_fails_leaves_everything_as_it_was(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    rows = captured(spark, folder, "casual")
    rows.write.format("casual").mode("append").save(str(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    broken = rows.selectExpr("ts", "if(offset % 7 = 0, 'nonsense', message) as message", "correlation")
    with pytest.raises(Exception, match="nonsense"):
        broken.write.format("casual").mode("overwrite").save(str(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_second_attempt_at_a_task_writes_nothing_twice(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = """
import sys
from pyspark import TaskContext
from wirelake.spark import register
from wirelake.spark.session import session

spark = session("local[2,3]")
register(spark)

def once(batches):
    yield from batches
    if TaskContext.get().attemptNumber() == 0:
        raise RuntimeError("lost")

rows = spark.read.format("casual").load(sys.argv[1]).repartition(2)
rows.mapInArrow(once, rows.schema).write.format("casual").mode("append").save(sys.argv[2])
assert spark.read.format("casual").load(sys.argv[2]).count() == rows.count() > 0
"""
    write_pcap(generate("casual", messages=120, seed=3), tmp_path / "calls.pcap")
    command = [sys.executable, "-c", program, str(tmp_path / "calls.pcap"), str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(files(tmp_path / "out")) == 2


def test_rows_that_cannot_be_written(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    rows, place = captured(spark, folder, "casual"), tmp_path / "out"
    fails(rows.withColumn("x", rows["length"]), place, r"'x' is no column of casual; drop it first")
    fails(rows.select("ts", "flags"), place, r"rows have to say which message they are: the column 'message'")
    fails(rows.drop("ts"), place, "a tap has times, and the column 'ts' is missing; kind=raw needs none", kind="tap")
    fails(rows, place, "the option compression is 'lzo'; it must be one of none, gzip, zstd", compression="lzo")
    fails(rows, place, "has no option 'columns'", columns="*")
    fails(rows, place, "frames are of one protocol: name it with the option", name="wire")
    fails(rows, folder / "casual.pcap", "casual.pcap is a file; name a directory")
    early = rows.selectExpr("cast(null as timestamp) as ts", "* except (ts)")
    fails(early, place, "a tap has times, and ts is null; kind=raw needs none")
    assert not [name for name in (files(place) if place.exists() else []) if not name.startswith("_")]
    undecodable = rows.selectExpr("if(offset = 0, null, message) as message", "* except (message, code)")
    count = undecodable.where("message is not null").count()
    undecodable.write.format("casual").mode("append").option("mode", "DROPMALFORMED").save(str(place))
    assert spark.read.format("casual").load(str(place)).count() == count < rows.count()


@pytest.mark.every_spark
@pytest.mark.parametrize("kind", ["tap", "raw"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_row_that_says_of_no_message_is_an_error_that_leaves_nothing(
    spark: SparkSession, folder: Path, tmp_path: Path, name: str, kind: str
) -> None:
    from pyspark.sql.functions import col, lit, when

    rows, place = captured(spark, folder, name), tmp_path / "out"
    kinds = [column for column in kind_columns(layout(load(name))) if column in rows.columns]
    silent = rows.select(
        *(when(col("offset") > 0, col(each)).alias(each) if each in kinds else col(each) for each in rows.columns)
    )
    fails(silent, place, "neither message nor code says which message it is", name, kind=kind)
    fails(
        rows.select("ts", lit(None).cast("string").alias("message")),
        place,
        "neither message nor code says which message it is",
        name,
        kind=kind,
    )
    assert not place.exists()
