"""A table that gains columns, on top and within a struct, has them for every reader."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.lake.lakes import SCHEMA, rows
from tests.lake.test_compaction import commit
from wirelake.lake import Lake
from wirelake.report import open_tables

INNER, WIDER = pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
OLD = SCHEMA.append(pa.field("s", INNER))
NEW = SCHEMA.append(pa.field("s", WIDER)).append(pa.field("extra", pa.string()))
WANTED = [
    {"n": 1, "s": {"a": 1, "b": None}, "extra": None},
    {"n": 2, "s": {"a": 2, "b": "x"}, "extra": "e"},
    {"n": 3, "s": {"a": 3, "b": None}, "extra": None},
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """The wider files are neither the first nor the last."""
    lake = Lake.open(tmp_path / "lake")
    commit(lake, "silver/toy", rows(1).append_column("s", pa.array([{"a": 1}], INNER)), schema=OLD)
    second = rows(2).append_column("s", pa.array([{"a": 2, "b": "x"}], WIDER)).append_column("extra", pa.array(["e"]))
    commit(lake, "silver/toy", second, schema=NEW)
    commit(lake, "silver/toy", rows(3).append_column("s", pa.array([{"a": 3}], INNER)), schema=OLD)
    return lake


def test_the_lake_has_the_columns_of_all_files(lake: Lake) -> None:
    found = lake.dataset("silver/toy").to_table(columns=["n", "s", "extra"]).sort_by("n")
    assert found.to_pylist() == WANTED
    assert lake.schema("silver/toy").names == ["sensor", "ts", "n", "s", "extra"]


def test_the_report_has_them(lake: Lake) -> None:
    with open_tables(lake) as tables:
        found = tables.sql("select n, s, extra from silver_toy order by n").to_arrow_table()
    assert found.to_pylist() == WANTED


def test_plain_readers_of_parquet_have_them(lake: Lake) -> None:
    place = f"{lake.store.root}/silver/toy"
    found = duckdb.sql(f"select n, s, extra from read_parquet('{place}/*/*.parquet', union_by_name = true) order by n")
    assert found.to_arrow_table().to_pylist() == WANTED
    listed = ds.dataset(place, lake.schema("silver/toy"), partitioning="hive").to_table(columns=["n", "s", "extra"])
    assert listed.sort_by("n").to_pylist() == WANTED
    casts = polars.ScanCastOptions(missing_struct_fields="insert")
    schema = polars.from_arrow(lake.schema("silver/toy").empty_table()).schema  # type: ignore[union-attr]
    frame = polars.scan_parquet(
        f"{place}/*/*.parquet", schema=schema, cast_options=casts, missing_columns="insert", hive_partitioning=False
    )
    assert frame.select("n", "s", "extra").sort("n").collect().to_dicts() == WANTED
