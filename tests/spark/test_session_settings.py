"""Settings of the session count where no option says otherwise, as for Spark's own file formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.captured import call, table_of, write_one_connection
from tests.spark.versions import since
from wirelake.errors import OptionError
from wirelake.spark import register, session_settings
from wirelake.spark.options import PARTITION_BYTES, read_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ZONE, BYTES = session_settings.ZONE, session_settings.PARTITION_BYTES


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


# --- as a query runs


@pytest.mark.every_spark
def test_the_session_skips_files_that_are_no_captures(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(call(1, b"x"))
    (tmp_path / "b.pcap").write_bytes(b"no capture at all")
    df = spark.read.format("casual").load(str(tmp_path))
    refusing = spark.read.format("casual").option("ignoreCorruptFiles", "false").load(str(tmp_path))
    with pytest.raises(Exception, match=r"not a pcap.*the option ignoreCorruptFiles skips"):
        df.count()
    with setting(spark, session_settings.IGNORE_CORRUPT, "true"):
        assert df.count() == 1
        with pytest.raises(Exception, match="not a pcap"):
            refusing.count()
    with pytest.raises(Exception, match="not a pcap"):
        df.count()


@pytest.mark.parametrize("ignored", ["false", "true"])
def test_the_session_skips_files_that_vanish_after_they_were_planned(
    spark: SparkSession, tmp_path: Path, ignored: str
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.bin").write_bytes(call(1, b"x"))
    df = spark.read.format("casual").option("columns", "message").load(str(tmp_path))
    assert df.rdd.getNumPartitions()  # plans, and keeps the plan for this data frame
    (tmp_path / "b.bin").unlink()
    with setting(spark, session_settings.IGNORE_MISSING, ignored):
        if ignored == "true":
            assert len(df.collect()) == 1
        else:
            with pytest.raises(Exception, match=r"b\.bin: No such file"):
                df.collect()


def test_times_are_shown_and_compared_in_the_zone_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    write_one_connection(tmp_path / "a.pcap", [call(1, b"x")])
    df = spark.read.format("casual").option("columns", "ts,message").load(str(tmp_path))
    utc = datetime.fromisoformat(df.selectExpr("cast(ts as string) as t").collect()[0].t)
    with setting(spark, ZONE, "Asia/Tokyo"):
        tokyo = datetime.fromisoformat(df.selectExpr("cast(ts as string) as t").collect()[0].t)
        assert (tokyo - utc).total_seconds() == 9 * 3600
        assert df.where(f"ts = timestamp'{tokyo}'").count() == 1
        assert df.where(f"ts < timestamp'{tokyo}'").count() == 0


# --- as register saw them


@since("4.1", "formats that are registered again")
def test_registered_formats_follow_the_size_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    write_one_connection(tmp_path / "a.pcap", [call(n, bytes(1000)) for n in range(100)])

    def parts(**options: str) -> int:
        return spark.read.format("casual").options(**options).load(str(tmp_path)).rdd.getNumPartitions()

    with setting(spark, BYTES, "20k"):
        register(spark)
        assert parts() > 3
        assert parts(maxPartitionBytes="1m") == 1
    register(spark)
    assert parts() == 1


@since("4.1", "formats that are registered again")
def test_a_zone_that_changes_after_register_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(call(1, b"x"))
    noon = datetime(2024, 6, 1, 12, tzinfo=UTC).timestamp()
    os.utime(path, (noon, noon))

    def count(**options: str) -> int:
        return spark.read.format("casual").options(**options).load(str(tmp_path)).count()

    with setting(spark, ZONE, "Asia/Tokyo"):
        register(spark)
        assert count(modifiedAfter="2024-06-01T20:59:00") == 1
        assert count(modifiedAfter="2024-06-01T21:01:00") == 0
        assert count(modifiedAfter="2024-06-01T21:01:00", timeZone="UTC") == 0
    with pytest.raises(Exception, match=r"read in the zone Asia/Tokyo, but spark\.sql\.session\.timeZone is UTC"):
        count(modifiedAfter="2024-06-01T20:59:00")
    register(spark)
    assert count(modifiedAfter="2024-06-01T11:59:00") == 1


# --- without Spark


def test_a_time_without_a_zone_needs_one() -> None:
    with pytest.raises(OptionError, match="without a zone, and formats do not know that of the session"):
        read_options("casual", {"modifiedAfter": "2024-06-01T13:00:00"})
    for options in (
        {"modifiedAfter": "2024-06-01T13:00:00Z"},
        {"modifiedAfter": "2024-06-01T15:00:00", "timeZone": "Europe/Stockholm"},
        {"modifiedAfter": "2024-06-01T15:00:00", "timeZone": "+02:00"},
    ):
        expected = datetime(2024, 6, 1, 13, tzinfo=UTC).timestamp()
        assert read_options("casual", options).modified_after == expected
    with pytest.raises(OptionError, match="timeZone is 'Mars'; it must be a zone such as"):
        read_options("casual", {"timeZone": "Mars"})


def test_what_register_saw_counts_where_no_option_is() -> None:
    seen = ((BYTES, "1048576b"), (ZONE, "Asia/Tokyo"), (session_settings.INFERENCE, "false"))
    made = read_options("casual", {"modifiedAfter": "2024-06-01T13:00:00"}, seen)
    assert made.partition_bytes == 1 << 20
    assert made.modified_after == datetime(2024, 6, 1, 4, tzinfo=UTC).timestamp()
    assert made.assumed == ((ZONE, "Asia/Tokyo"), (BYTES, "1048576b"))
    chosen = read_options("casual", {"maxPartitionBytes": "2m"}, seen)
    assert (chosen.partition_bytes, chosen.assumed) == (2 << 20, ())
    assert read_options("casual", {}).partition_bytes == PARTITION_BYTES


def test_a_size_that_came_too_late_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(session_settings, "of_task", {BYTES: "12m"}.get)
    session_settings._warn.cache_clear()
    for _ in range(2):
        session_settings.check(read_options("casual", {}).assumed)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert f"{BYTES}=12m came too late" in said[0] and "register(spark)" in said[0]


def test_without_inference_directories_are_text(tmp_path: Path) -> None:
    (tmp_path / "n=1").mkdir()
    (tmp_path / "n=1" / "a.bin").write_bytes(call(1, b"x"))
    from wirelake.spark.reading import default_schema

    options = read_options("casual", {"path": str(tmp_path)}, ((session_settings.INFERENCE, "false"),))
    assert default_schema(options)["n"].dataType.simpleString() == "string"
    assert str(table_of("casual", tmp_path).target.field("n").type) == "int32"
