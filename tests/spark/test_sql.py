"""Formats and functions by name, in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.frames import as_frame, frames_of
from tests.spark.versions import has
from wirelake import decode
from wirelake.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def registered(spark: SparkSession) -> SparkSession:
    register(spark, f"{EXAMPLES / 'bulletin.py'}:PROTOCOL")
    return spark


@pytest.mark.every_spark
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


@pytest.mark.every_spark
@pytest.mark.skipif(has("4.1"), reason="PySpark 4.1 has functions whose structs may be null")
def test_a_null_frame_is_a_struct_of_nulls_in_sql(registered: SparkSession) -> None:
    assert registered.sql("select from_mb(null).message, from_mb(null) is null").collect()[0] == (None, False)


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


def test_a_registered_protocol_is_known_to_from_wire_by_its_name(registered: SparkSession) -> None:
    query = "select from_wire(to_wire(named_struct('message', 'clear', 'board', 'a.b'), 'bulletin'), 'bulletin') m"
    row = registered.sql(query).collect()[0].m
    assert (row.protocol, row.message, row.address) == ("bulletin", "clear", "a.b")


def test_try_from_takes_options_too(registered: SparkSession) -> None:
    query = "select try_from_mb(cast('publish:a.b:1.0.0\n' as binary), map('profile', 'upstream')) m"
    row = registered.sql(query).collect()[0]
    assert (row.m.topic, row.m._corrupt_record) == ("a.b", None)
    assert registered.sql("select try_from_mb(null) m").collect()[0].m is None


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("try_from_casual(x'00', map('mode', 'FAILFAST'))", "try_from_casual has no option mode"),
        ("try_from_casual(x'00', map('profile', 'x'))", "profile"),
        ("try_from_casual(1)", "from_casual reads binary values, not int32"),
        ("try_from_casual()", r"try_from_casual takes 1 to 2 arguments \(frames, options\), not 0"),
        ("from_wire(x'00')", r"from_wire takes 2 to 3 arguments \(frames, protocol, options\), not 1"),
        ("to_casual(named_struct('a', 1), map('a', 'b'), 2)", "to_casual takes 1 to 2 arguments"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(registered: SparkSession, call: str, said: str) -> None:
    from pyspark.errors import PythonException

    with pytest.raises(PythonException, match=said) as caught:
        registered.sql(f"select {call}").collect()
    assert "Traceback" not in str(caught.value)
