"""Formats in a Classic session: found by name, schemas, filters, and what a user sees when something is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.captured import call, hostile_frames, read, write_one_connection
from tests.spark.versions import has, since
from wirelake.generate import generate, write_pcap
from wirelake.spark.options import read_options
from wirelake.spark.reading import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("casual", "dsa", "mb", "ceda", "wire")
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("formats") / "mixed.pcap"
    write_pcap(generate(("casual", "dsa", "mb", "ceda"), messages=400, seed=9, corrupt=0.02), path)
    return path


def load(spark: SparkSession, name: str, path: Any, schema: str | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format(name).options(**options)
    return (reader.schema(schema) if schema else reader).load(str(path) if isinstance(path, Path) else path)


def sorted_rows(df: DataFrame) -> list[dict[str, Any]]:
    rows = [row.asDict(recursive=True) for row in df.collect()]
    return sorted(rows, key=lambda row: (row["capture"], row["connection"], row["direction"], row["offset"]))


def alike(value: Any) -> Any:
    """Arrow and Spark differ in how they show maps, times and binaries."""
    match value:
        case dict():
            return {key: alike(item) for key, item in value.items()}
        case list():
            return [alike(item) for item in value]
        case tuple():
            return alike(list(value))
        case bytearray():
            return bytes(value)
        case _ if hasattr(value, "tzinfo"):
            return value.replace(tzinfo=None)
        case _:
            return value


@pytest.mark.every_spark
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", ["128m", "30k"])
def test_spark_finds_the_format_and_reads_what_is_in_the_capture(
    spark: SparkSession, mixed: Path, name: str, size: str
) -> None:
    df = load(spark, name, mixed, maxPartitionBytes=size, columnNameOfCorruptRecord="bad")
    expected = read(name, mixed, columnNameOfCorruptRecord="bad")
    for row in expected:
        row["raw_text"] = row["raw_text"] and dict(row["raw_text"])
    assert repr([alike(row) for row in sorted_rows(df)]) == repr([alike(row) for row in expected])
    assert (df.rdd.getNumPartitions() > 1) is (size == "30k")


@pytest.mark.every_spark
def test_paths_may_be_several_a_pattern_or_a_directory(spark: SparkSession, tmp_path: Path) -> None:
    """asks 14"""
    write_one_connection(tmp_path / "a.pcap", hostile_frames(4))
    for name in ("b.pcap", "c.cap"):
        shutil.copy(tmp_path / "a.pcap", tmp_path / name)
    assert load(spark, "casual", [str(tmp_path / "a.pcap"), str(tmp_path / "c.cap")]).count() == 8
    assert load(spark, "casual", f"{tmp_path}/*.pcap").count() == 8
    assert load(spark, "casual", tmp_path).count() == 12
    assert load(spark, "casual", tmp_path, pathGlobFilter="*.cap").count() == 4


# --- what is decoded


@pytest.mark.every_spark
def test_a_schema_is_a_choice_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    """asks 18"""
    (tmp_path / "calls.bin").write_bytes(b"".join(call(i, b"x") for i in range(10)))
    df = load(spark, "casual", tmp_path, "flags bigint, code bigint, service struct<name: string>")
    assert df.schema.simpleString() == "struct<flags:bigint,code:bigint,service:struct<name:string>>"
    assert [(row.flags, row.code, row.service.name) for row in df.collect()] == [
        (i, 3100, f"shop/order{i % 7}") for i in range(10)
    ]


def test_the_option_columns_is_a_choice_too(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "calls.bin").write_bytes(call(5, b"x"))
    df = load(spark, "casual", tmp_path, columns="flags,message")
    assert df.columns == ["flags", "message"]
    assert [tuple(row) for row in df.collect()] == [(5, "service_call_request")]


def test_only_what_is_chosen_is_decoded() -> None:
    table = Table.of(read_options("casual", {"columns": "flags,_corrupt_record"}))
    assert table.reading("raw").columns == {"casual": ("flags",)}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("message int", "message is string, not int"),
        ("service struct<nonsense: string>", "service has no member 'nonsense'; it has: name, timeout"),
        ("dequeued array<struct<id: string>>", "dequeued[].id is binary, not string"),
        ("nonsense string", "has no column 'nonsense'; it has: capture, connection"),
    ],
)
def test_a_wrong_schema_is_refused(spark: SparkSession, mixed: Path, schema: str, said: str) -> None:
    assert said in failure(load(spark, "casual", mixed, schema))


# --- filters


FILTERS = (
    "message = 'service_call_request'",
    "message in ('service_call_request', 'service_call_reply') and direction = 'to_server'",
    "ts >= timestamp'2024-01-01 00:00:03' and ts < timestamp'2024-01-01 00:00:09'",
    "message like 'service%' and code > 3100",
    "connection <> 'x' and capture like '%mixed.pcap'",
    "capture = 'elsewhere.pcap'",
    "service.name is not null and not message = 'domain_discover_request'",
    "message is null",
    "code % 2 = 0 or offset < 100",
)


@since("4.1", "filters in the reader")
@pytest.mark.parametrize("condition", FILTERS)
def test_a_filter_keeps_the_same_rows_wherever_it_is_applied(spark: SparkSession, mixed: Path, condition: str) -> None:
    there = sorted_rows(load(spark, "casual", mixed, pushFilters=True).where(condition))
    spark.conf.set(PUSHDOWN, "false")
    try:
        here = sorted_rows(load(spark, "casual", mixed).where(condition))
    finally:
        spark.conf.set(PUSHDOWN, "true")
    assert repr(there) == repr(here)


def plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().executedPlan().toString())


@pytest.mark.every_spark
@since("4.1", "filters in the reader")
def test_filters_that_are_applied_in_the_reader_are_not_applied_again(spark: SparkSession, mixed: Path) -> None:
    df = load(spark, "casual", mixed)
    known = "message = 'service_call_request' and ts > timestamp'2024-01-01 00:00:00'"
    assert "Filter (" not in plan(df.where(known))
    assert "Filter (" in plan(df.where("flags % 2 = 0"))


@pytest.mark.every_spark
def test_a_session_that_pushes_no_filters_down_reads_all_the_same(spark: SparkSession, mixed: Path) -> None:
    """The default of Spark: a reader that would take filters fails there."""
    spark.conf.set(PUSHDOWN, "false")
    try:
        df = load(spark, "casual", mixed).where("message = 'service_call_request'")
        assert "Filter (" in plan(df)
        assert df.count() > 0
    finally:
        spark.conf.set(PUSHDOWN, "true")


@pytest.mark.every_spark
@pytest.mark.skipif(has("4.1"), reason="PySpark 4.1 has filters in the reader")
def test_filters_that_must_be_pushed_need_a_newer_spark(spark: SparkSession, mixed: Path) -> None:
    assert 'format("casual"): pushFilters=true needs PySpark 4.1' in failure(
        load(spark, "casual", mixed, pushFilters=True)
    )


# --- a protocol of the user's


@pytest.mark.every_spark
def test_a_protocol_from_a_file(spark: SparkSession, tmp_path: Path) -> None:
    declared = f"{EXAMPLES / 'bulletin.py'}:PROTOCOL"
    write_pcap(generate(declared, messages=40, seed=2), tmp_path / "notices.pcap")
    own = load(spark, "wire", tmp_path, protocol=declared)
    assert own.where("message = 'post' and board is not null and text is not null").count() > 0
    df = load(spark, "wire", tmp_path, protocol=declared, view="common")
    assert {(row.protocol, row.message) for row in df.collect()} == {("bulletin", "post"), ("bulletin", "clear")}


# --- what users see


def failure(df: DataFrame) -> str:
    """The first line of what goes wrong; a Spark stack trace or a Python traceback is nowhere in it."""
    with pytest.raises(Exception) as caught:
        df.collect()
    text = str(caught.value)
    assert "Traceback" not in text
    assert "\tat " not in text
    return text


def test_a_path_that_leads_nowhere_is_said_when_it_is_loaded(spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        load(spark, "casual", "/nowhere/x.pcap")
    assert "path does not exist: /nowhere/x.pcap" in str(caught.value).splitlines()[0]
    with pytest.raises(AnalysisException, match="needs a path"):
        spark.read.format("casual").load()


@pytest.mark.every_spark
def test_an_unknown_option_is_said_when_it_is_loaded(spark: SparkSession, mixed: Path) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        load(spark, "casual", mixed, dialect="ceda4")
    assert "has no option 'dialect'; it has: basePath, columnName" in str(caught.value).splitlines()[0]


@pytest.mark.every_spark
def test_a_text_file_is_no_capture(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello world")
    assert "notes.txt: not a pcap, pcapng or tap file: it begins with 68 65" in failure(load(spark, "casual", tmp_path))


def test_an_unreadable_file_is_named(spark: SparkSession, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pcap")
    assert "pipe.pcap: it is not a file" in failure(load(spark, "casual", tmp_path))
    assert load(spark, "casual", tmp_path, ignoreCorruptFiles=True).collect() == []


@pytest.mark.every_spark
def test_an_empty_file_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").touch()
    assert load(spark, "casual", tmp_path).collect() == []


@pytest.mark.every_spark
def test_failfast_names_file_offset_and_rule(spark: SparkSession, tmp_path: Path) -> None:
    frame = call(1, b"x")
    (tmp_path / "bad.bin").write_bytes(frame + b"\xff" * 20 + frame)
    message = failure(load(spark, "casual", tmp_path, mode="FAILFAST"))
    assert f"at byte {len(frame)}: {tmp_path / 'bad.bin'}" in message
    assert "[frame_limit]" in message or "[frame_type]" in message


def test_a_column_that_must_not_be_null_but_is(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    (tmp_path / "calls.bin").write_bytes(call(1, b"x"))
    for name, is_wrong in (("message", False), ("name", True)):
        schema = StructType([StructField(name, StringType(), nullable=False)])
        df = spark.read.format("casual").schema(schema).load(str(tmp_path))
        if is_wrong:
            assert "name is NOT NULL there, but null in rows" in failure(df)
        else:
            assert [row.message for row in df.collect()] == ["service_call_request"]


# --- what the formats do not do


@pytest.mark.parametrize(
    "statement",
    [
        "create table calls using {name} options (path '{path}')",
        "create table calls using {name} location '{path}'",
        "create table calls using {name}",
    ],
)
@pytest.mark.parametrize("name", ["casual", "wire"])
def test_a_format_of_a_table_says_what_to_use_instead(
    spark: SparkSession, mixed: Path, name: str, statement: str
) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException) as caught:
        spark.sql(statement.format(name=name, path=mixed))
    said = str(caught.value).splitlines()[0]
    assert f"{name} cannot be the format of a table: use CREATE TEMPORARY VIEW name USING {name} OPTIONS" in said
    assert not spark.catalog.tableExists("calls")
    spark.sql(f'create or replace temporary view captured using {name} options (path "{mixed}")')
    assert spark.table("captured").count() > 0


def test_writing_a_stream_says_what_to_use_instead(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    rates = spark.readStream.format("rate").load().writeStream.format("casual")
    query = rates.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(tmp_path / "out"))
    with pytest.raises(StreamingQueryException, match=r"write each batch by foreachBatch\(lambda rows"):
        query.awaitTermination()
