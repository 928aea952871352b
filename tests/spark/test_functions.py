"""Functions on columns of frames, in a Classic session; test_connect.py has the same in a Connect session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.frames import PROTOCOLS, as_frame, frames_of, options_of
from tests.spark.versions import has, since
from wirelake.errors import OptionError
from wirelake.spark import functions as f
from wirelake.spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.every_spark

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
READ = {name: getattr(f, f"from_{name}") for name in PROTOCOLS}
WRITE = {name: getattr(f, f"to_{name}") for name in PROTOCOLS}


# --- options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"nonsense": 1},
            "from_casual has no option 'nonsense'; it has: columnNameOfCorruptRecord, columns, mod",
        ),
        ({"columns": "message,nonsense"}, "from_casual has no column 'nonsense'; it has: message, code, notes"),
        ({"mode": "DROPMALFORMED"}, "a function cannot drop rows"),
        ({"columnNameOfCorruptRecord": "code"}, "which is another column's name"),
    ],
)
def test_wrong_options_are_refused_at_once(spark: SparkSession, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        f.from_casual("value", options)


def test_the_schema_can_be_asked_for() -> None:
    assert f.schema_of_casual().names[:4] == ["message", "code", "notes", "raw_text"]
    assert f.schema_of_casual({"columns": "service,message"}).simpleString() == (
        "struct<service:struct<name:string,timeout:bigint>,message:string>"
    )
    assert "value" not in f.schema_of_dsa().names
    assert "value" in f.schema_of_dsa({"columns": "*"}).names


# --- in Spark


@pytest.mark.parametrize("name", PROTOCOLS)
def test_there_and_back_through_spark(spark: SparkSession, name: str) -> None:
    frames = [*frames_of(name), None]
    df = as_frame(spark, frames)
    structs = READ[name]("value", options_of(name))
    found = df.select(WRITE[name](structs).alias("again"), structs.message.alias("message"))
    rows = found.collect()
    assert [row.again for row in rows] == frames
    assert all(row.message for row in rows[:-1]) and rows[-1].message is None


# --- plans


@pytest.fixture(scope="module")
def dated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A table of 200 frames in 4 partitions by date."""
    folder = str(tmp_path_factory.mktemp("dated") / "frames")
    frames = [(frame, f"2024-06-0{number % 4 + 1}") for number, frame in enumerate(frames_of("casual"))]
    df = spark.createDataFrame(frames, "value binary, date string")
    df.write.partitionBy("date").parquet(folder)
    return spark.read.parquet(folder)


def plan(df: DataFrame) -> str:
    """The physical plan of a query."""
    return str(df._jdf.queryExecution().executedPlan().toString())


def decoded(df: DataFrame) -> int:
    """Run a query once more; return how many frames the functions in it decoded or encoded."""
    df = df.select("*")
    df.collect()
    nodes, rows = [df._jdf.queryExecution().executedPlan()], 0
    while nodes:
        node = nodes.pop()
        if "EvalPython" in node.nodeName():
            rows += node.metrics().apply("pythonNumRowsReceived").value()
        nodes += [node.children().apply(i) for i in range(node.children().size())]
    return rows


DATE = "date = '2024-06-02'"


def test_a_filter_on_another_column_prunes_partitions(dated: DataFrame) -> None:
    found = dated.withColumn("m", f.from_casual("value")).where(DATE).select("m.message")
    assert "PartitionFilters: [isnotnull(date" in plan(found)
    assert decoded(found) == 50


def test_a_filter_in_sql_prunes_partitions(spark: SparkSession, dated: DataFrame) -> None:
    register(spark)
    dated.createOrReplaceTempView("dated_frames")
    found = spark.sql(f"select m.message from (select from_casual(value) m, date from dated_frames) where {DATE}")
    assert decoded(found) == 50


@since("4.2", "a function that is expensive in the eyes of Spark")
def test_a_filter_and_a_select_on_one_result_decode_once(spark: SparkSession) -> None:
    """asks 13"""
    df = as_frame(spark, list(frames_of("casual")))
    once = df.select(f.from_casual("value").alias("m")).where("m.code = 3100").select("m.message", "m.service.name")
    assert plan(once).count("ArrowEvalPython [") == 1
    assert {row.message for row in once.collect()} == {"service_call_request"}


def test_two_columns_of_one_result_decode_once(dated: DataFrame) -> None:
    assert decoded(dated.select(f.from_casual("value").message, f.from_casual("value").code)) == 200


# --- errors


def test_a_bad_frame_fails_the_job_and_says_where(spark: SparkSession) -> None:
    """asks 10"""
    from pyspark.errors import PythonException

    df = as_frame(spark, [frames_of("casual")[0][:-1]])
    with pytest.raises(PythonException) as caught:
        df.select(f.from_casual("value")).collect()
    lines = str(caught.value).splitlines()
    assert len(lines) == (2 if has("4.2") else 3)
    assert "casual size at byte" in lines[-1] and "[frame_incomplete]" in lines[-1]
    assert "Traceback" not in str(caught.value)


def test_a_field_that_is_missing_is_named(spark: SparkSession) -> None:
    from pyspark.errors import PythonException

    df = spark.sql("select named_struct('message', 'publish', 'version', '1.0.0') as m")
    with pytest.raises(PythonException, match=r"mb publish topic: is missing \[field_missing\]"):
        df.select(f.to_mb("m")).collect()
    assert df.select(f.to_mb("m", {"mode": "PERMISSIVE"}).alias("m")).collect()[0].m is None


def test_a_column_of_another_type_is_refused(spark: SparkSession) -> None:
    from pyspark.errors import PythonException

    with pytest.raises(PythonException, match="from_casual reads binary values, not int64"):
        spark.range(1).select(f.from_casual("id")).collect()


def test_a_struct_made_by_hand_is_sent(spark: SparkSession) -> None:
    df = spark.sql("select named_struct('action', 'publish', 'topic', 'a.b', 'version', '1.0.0') as m")
    assert bytes(df.select(f.to_mb("m").alias("b")).collect()[0].b) == b"publish:a.b:1.0.0\n"


def test_a_protocol_of_ones_own(spark: SparkSession) -> None:
    name = f"{EXAMPLES / 'bulletin.py'}:PROTOCOL"
    df = spark.sql("select named_struct('message', 'post', 'board', 'a', 'text', cast('hi' as binary)) as m")
    rows = df.select(f.from_wire(f.to_wire("m", name), name).alias("m")).collect()
    assert (rows[0].m.message, rows[0].m.board, bytes(rows[0].m.text)) == ("post", "a", b"hi")
