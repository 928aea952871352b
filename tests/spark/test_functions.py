"""Functions on columns of frames, in a Classic session; test_connect.py has the same in a Connect session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.frames import PROTOCOLS, as_frame, frames_of, options_of
from wirelake.errors import OptionError
from wirelake.ingest.declared import Declared
from wirelake.spark import functions as f
from wirelake.spark.options import Decoding
from wirelake.spark.structs import decode_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def evaluations(df: DataFrame) -> int:
    return str(df._jdf.queryExecution().executedPlan().toString()).count("ArrowEvalPython [")


def test_a_filter_and_a_select_on_one_result_decode_once(spark: SparkSession) -> None:
    """asks 13"""
    df = as_frame(spark, list(frames_of("casual")))

    def query(read: Any) -> DataFrame:
        return df.select(read("value").alias("m")).where("m.code = 3100").select("m.message", "m.service.name")

    once = query(f.from_casual)
    assert evaluations(once) == 1
    assert {row.message for row in once.collect()} == {"service_call_request"}


def test_a_function_that_said_what_it_is_would_decode_twice(spark: SparkSession) -> None:
    """Why the functions say that they are not deterministic. If this fails, Spark has become wiser."""
    from pyspark.sql.pandas.functions import arrow_udf

    how = Decoding.of(Declared("casual"), None, "from_casual")

    def read(frames: pa.Array) -> pa.Array:
        return decode_column(how, frames)

    eager = arrow_udf(read, f.schema_of_casual())
    df = as_frame(spark, list(frames_of("casual"))).select(eager("value").alias("m"))
    assert evaluations(df.where("m.code = 3100").select("m.message", "m.service.name")) == 2


def test_a_bad_frame_fails_the_job_and_says_where(spark: SparkSession) -> None:
    """asks 10"""
    from pyspark.errors import PythonException

    df = as_frame(spark, [frames_of("casual")[0][:-1]])
    with pytest.raises(PythonException) as caught:
        df.select(f.from_casual("value")).collect()
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert "casual size at byte" in lines[1] and "[frame_incomplete]" in lines[1]
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
