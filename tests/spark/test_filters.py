"""Filters that are taken keep exactly the rows that Spark would keep; all others are given back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import datasource as ds

from tests.spark.versions import has
from wirelake.spark.filters import Filters

if not has("4.1"):
    pytest.skip("PySpark 4.0 has no filters in the reader", allow_module_level=True)

EARLY, LATE = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("message", pa.string()),
        ("code", pa.int32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("service", pa.struct([("name", pa.string())])),
        ("price", pa.float64()),
        ("notes", pa.list_(pa.string())),
    ]
)
ROWS: list[dict[str, Any]] = [
    {"message": "call", "code": 1, "ts": EARLY, "service": {"name": "a"}, "price": 1.0},
    {"message": "called", "code": 2, "ts": LATE, "service": {"name": None}, "price": 2.0},
    {"message": "reply", "code": 3, "ts": None, "service": None, "price": None},
    {"message": None, "code": None, "ts": EARLY, "service": {"name": "b"}, "price": None},
]
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
MESSAGE, CODE, TS, NAME = ("message",), ("code",), ("ts",), ("service", "name")


@pytest.mark.parametrize(
    ("filter_", "kept"),
    [
        (ds.EqualTo(MESSAGE, "call"), [0]),
        (ds.Not(ds.EqualTo(MESSAGE, "call")), [1, 2]),
        (ds.EqualNullSafe(MESSAGE, "call"), [0]),
        (ds.Not(ds.EqualNullSafe(MESSAGE, "call")), [1, 2, 3]),
        (ds.In(MESSAGE, ("call", "reply")), [0, 2]),
        (ds.Not(ds.In(MESSAGE, ("call", "reply"))), [1]),
        (ds.IsNull(MESSAGE), [3]),
        (ds.IsNotNull(MESSAGE), [0, 1, 2]),
        (ds.Not(ds.IsNull(MESSAGE)), [0, 1, 2]),
        (ds.StringStartsWith(MESSAGE, "call"), [0, 1]),
        (ds.StringEndsWith(MESSAGE, "ed"), [1]),
        (ds.StringContains(MESSAGE, "l"), [0, 1, 2]),
        (ds.StringContains(MESSAGE, "."), []),
        (ds.LessThan(CODE, 2), [0]),
        (ds.LessThanOrEqual(CODE, 2), [0, 1]),
        (ds.GreaterThan(CODE, 2), [2]),
        (ds.GreaterThanOrEqual(CODE, 2), [1, 2]),
        (ds.GreaterThan(TS, EARLY), [1]),
        (ds.LessThanOrEqual(TS, EARLY), [0, 3]),
        (ds.EqualTo(NAME, "a"), [0]),
        (ds.IsNull(NAME), [1, 2]),
        (ds.IsNotNull(NAME), [0, 3]),
    ],
    ids=str,
)
def test_what_is_taken_is_applied_exactly(filter_: Any, kept: list[int]) -> None:
    filters = Filters(SCHEMA)
    assert filters.push([filter_]) == []
    assert filters.apply(BATCH).to_pylist() == [BATCH.to_pylist()[i] for i in kept]


@pytest.mark.parametrize(
    "filter_",
    [
        ds.EqualTo(("price",), 1.0),
        ds.EqualTo(("notes",), ["x"]),
        ds.EqualTo(("absent",), 1),
        ds.EqualTo(("service", "absent"), 1),
        ds.In(MESSAGE, ("call", None)),
        ds.EqualNullSafe(MESSAGE, None),
        ds.GreaterThan(CODE, 1 << 40),
        ds.StringStartsWith(CODE, "1"),
    ],
    ids=str,
)
def test_what_is_not_sure_goes_back(filter_: Any) -> None:
    filters = Filters(SCHEMA)
    assert filters.push([filter_, ds.Not(filter_)]) == [filter_, ds.Not(filter_)]
    assert filters.apply(BATCH).num_rows == len(ROWS)


def test_whole_files_are_left_out_by_name() -> None:
    filters = Filters(pa.schema([("capture", pa.string()), ("message", pa.string())]))
    filters.push([ds.StringEndsWith(("capture",), "a.pcap"), ds.EqualTo(MESSAGE, "call")])
    assert filters.accept({"capture": pa.scalar("x/a.pcap")})
    assert not filters.accept({"capture": pa.scalar("x/b.pcap")})
    assert filters.accept({})
