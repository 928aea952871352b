"""Functions on columns of frames, in a Classic session; test_connect.py has the same in a Connect session."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.differential import valid_frames
from wirelake import decode
from wirelake.columnar import decode_frames
from wirelake.errors import DecodeError, OptionError
from wirelake.ingest.declared import Declared
from wirelake.spark import functions as f
from wirelake.spark import register
from wirelake.spark.options import Decoding, Encoding
from wirelake.spark.schema import in_arrow
from wirelake.spark.structs import decode_column, encode_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PROTOCOLS = ("casual", "dsa", "mb", "ceda")
READ = {name: getattr(f, f"from_{name}") for name in PROTOCOLS}
WRITE = {name: getattr(f, f"to_{name}") for name in PROTOCOLS}
SCHEMA_OF = {name: getattr(f, f"schema_of_{name}") for name in PROTOCOLS}


def options_of(name: str) -> dict[str, str]:
    return {"dialect": "ceda4"} if name == "ceda" else {}


def frames_of(name: str, count: int = 200) -> list[bytes]:
    return valid_frames(name, count, random.Random(7), **options_of(name))


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> SparkSession:
    register(spark, f"{EXAMPLES / 'bulletin.py'}:PROTOCOL")
    return spark


def as_frame(spark: SparkSession, frames: list[bytes | None]) -> DataFrame:
    return spark.createDataFrame([(frame,) for frame in frames], "value binary")


# --- without Spark: what a worker does


@pytest.mark.parametrize("name", PROTOCOLS)
def test_structs_are_the_rows_of_the_columnar_decoder(name: str) -> None:
    frames = frames_of(name)
    how = Decoding.of(Declared(name), options_of(name), name)
    structs = decode_column(how, pa.array([None, *frames, None], pa.binary()))
    rows = decode_frames(name, frames, **options_of(name)).records.drop_columns(["offset", "length"]).to_pylist()
    assert repr(structs.to_pylist()) == repr([None, *rows, None])


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_comes_out_has_the_type_that_was_announced(name: str) -> None:
    for options in ({}, {"columns": "*"}, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}):
        how = Decoding.of(Declared(name), {**options, **options_of(name)}, name)
        announced = pa.struct(list(in_arrow(SCHEMA_OF[name]({**options, **options_of(name)}))))
        for frames in ([], [None], [frames_of(name)[0]], [b"", *frames_of(name)]):
            if frames[:1] != [b""] or options.get("mode"):
                found = decode_column(how, pa.array(frames, pa.binary()))
                assert found.type.equals(announced)
                found.validate(full=True)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_structs_become_the_frames_that_they_were(name: str) -> None:
    frames = [None, *frames_of(name)]
    structs = decode_column(Decoding.of(Declared(name), options_of(name), name), pa.array(frames, pa.binary()))
    assert encode_column(Encoding.of(Declared(name), None, name), structs).to_pylist() == frames


def test_a_reason_has_rule_path_offset_detail_and_bytes() -> None:
    good, bad = frames_of("casual")[0], frames_of("casual")[0][:-1]
    how = Decoding.of(Declared("casual"), {"mode": "permissive", "columnNameOfCorruptRecord": "why"}, "from_casual")
    found = decode_column(how, pa.array([bad, None, good], pa.binary())).to_pylist()
    with pytest.raises(DecodeError) as caught:
        decode("casual", bad)
    error = caught.value
    assert found[0]["why"] == {
        "rule": error.rule, "path": error.path, "offset": error.offset, "detail": error.detail, "bytes": bad,
    }  # fmt: skip
    assert found[0]["message"] is None
    assert found[1] is None
    assert found[2]["why"] is None and found[2]["message"] is not None


def test_without_that_column_it_is_null() -> None:
    how = Decoding.of(Declared("casual"), {"mode": "PERMISSIVE"}, "from_casual")
    assert decode_column(how, pa.array([b"no", frames_of("casual")[0]])).is_valid().to_pylist() == [False, True]


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


# --- in SQL


def test_functions_by_name(registered: SparkSession) -> None:
    as_frame(registered, list(frames_of("casual"))).createOrReplaceTempView("frames")
    found = registered.sql(
        "select m.service.name from (select from_casual(value) m from frames) where m.code = 3100"
    ).collect()
    expected = [decode("casual", frame) for frame in frames_of("casual")]
    assert [row.name for row in found] == [one.service.name for one in expected if one.__message__["code"] == 3100]


def test_bad_frames_in_sql(registered: SparkSession) -> None:
    df = as_frame(registered, [b"no", frames_of("casual")[0], None])
    df.createOrReplaceTempView("some_bad")
    tried = registered.sql("select try_from_casual(value) m from some_bad").collect()
    assert [row.m and row.m._corrupt_record and row.m._corrupt_record.rule for row in tried] == [
        "frame_incomplete", None, None,
    ]  # fmt: skip
    lenient = registered.sql("select from_casual(value, map('mode', 'PERMISSIVE')) m from some_bad").collect()
    assert [row.m is None for row in lenient] == [True, False, True]


def test_from_wire_is_the_common_view_of_any_protocol(registered: SparkSession) -> None:
    pairs = [(frame, name) for name in ("casual", "mb") for frame in frames_of(name, 20)]
    registered.createDataFrame([*pairs, (None, "mb"), (b"", None)], "value binary, p string").createOrReplaceTempView(
        "t"
    )
    rows = registered.sql("select p, from_wire(value, p) m from t").collect()
    assert [(row.p, row.m is None) for row in rows[:-2]] == [(name, False) for _, name in pairs]
    assert all(row.m.protocol == row.p and row.m.kind for row in rows[:-2])
    assert [row.m for row in rows[-2:]] == [None, None]
    back = registered.sql("select count(*) n from (select * from t where p = 'mb' and value is not null) "
                          "where to_wire(from_mb(value), p) = value")  # fmt: skip
    assert back.collect()[0].n == 20


def test_what_changes_the_type_is_refused_in_sql(registered: SparkSession) -> None:
    from pyspark.errors import PythonException

    as_frame(registered, list(frames_of("casual"))).createOrReplaceTempView("frames")
    with pytest.raises(PythonException, match="the option columns changes the type of the result"):
        registered.sql("select from_casual(value, map('columns', 'code')) from frames").collect()


def test_a_protocol_of_ones_own_has_functions_in_sql(registered: SparkSession) -> None:
    query = "select from_bulletin(to_bulletin(named_struct('message', 'clear', 'board', 'a.b'))) m"
    assert registered.sql(query).collect()[0].m.board == "a.b"
