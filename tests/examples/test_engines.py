"""The questions get the same answers from Spark, DuckDB and Polars, on Parquet and on the published Delta tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from tests.examples.test_questions import DIRECTORY, NAMES, asking, open_connection, reset_connection
from wirelake.generate import generate, write_pcap
from wirelake.gold.across_sensors import ACROSS_SENSORS, view_sql
from wirelake.gold.tables import TABLES, protocol_table, view_name, with_date
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake
from wirelake.lake.compaction import compact
from wirelake.lake.delta import publish
from wirelake.protocols import BUILT_IN, load
from wirelake.report import open_tables
from wirelake.spark.views import views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["asking"]
Answer = Counter[tuple[Any, ...]]
IN_POLARS_SQL = ("errors_by_address", "every_byte", "sensors", "silent_sessions", "slowest_services", "time_outs")
"""Questions that Polars' own SQL understands; the others are asked by DuckDB of what Polars has read."""
SCHEMAS = TABLES | {f"silver/{name}": protocol_table(load(name)) for name in BUILT_IN}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Several commits, compacted in between, and published before and after."""
    home = tmp_path_factory.mktemp("engines")
    traffic = generate(BUILT_IN, seed=9, messages=2000, connections=4, violations=0.05)
    write_pcap(traffic, home / "all.pcap", files=3)
    reset_connection(home / "reset.tap")
    open_connection(home / "open.tap")
    place = str(home / "lake")
    for path in sorted(home.glob("*.pcap")):
        ingest(InlineRunner(1), [str(path)], place)
    lake = Lake.open(place)
    publish(lake)
    ingest(InlineRunner(1), [*map(str, home.glob("*.pcap")), str(home / "reset.tap")], place, final=True)
    with lake.writing() as run:
        compact(run)
    ingest(InlineRunner(1), [str(home / "open.tap")], place)
    publish(lake)
    return lake


@pytest.fixture(scope="module")
def expected(spark: SparkSession, lake: Lake, asking: ModuleType) -> dict[str, Answer]:
    """What Spark says."""
    views(spark, lake)
    return {name: as_answer(asking.answer(spark, name).collect()) for name in NAMES}


def as_answer(rows: Iterable[Iterable[Any]]) -> Answer:
    return Counter(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.astimezone()).astimezone(UTC).timestamp() * 1e6)
    if isinstance(value, (float, Decimal)):
        return float(f"{float(value):.6g}")
    return float(f"{value:.6g}") if isinstance(value, int) and not isinstance(value, bool) else value


def assert_close(found: Answer, expected: Answer) -> None:
    """Compare answers of which one rounds halves up and the other to even."""
    one, other = (sorted(rows.elements(), key=repr) for rows in (found, expected))
    key = [[cell for cell in row if not isinstance(cell, float)] for row in one]
    assert key == [[cell for cell in row if not isinstance(cell, float)] for row in other]
    for mine, theirs in zip(one, other, strict=True):
        for cell, wanted in zip(mine, theirs, strict=True):
            assert cell == (pytest.approx(wanted, abs=0.11) if isinstance(wanted, float) else wanted)


def paths(lake: Lake, table: str) -> list[str]:
    return [str(path) for path in sorted(Path(lake.store.root, table).rglob("*.parquet"))]


def in_parquet(lake: Lake, table: str) -> polars.LazyFrame:
    return polars.scan_parquet(paths(lake, table), hive_partitioning=table not in ("gold/open", "accounting"))


def in_delta(lake: Lake, table: str) -> polars.LazyFrame:
    return polars.scan_delta(f"{lake.store.root}/_tables/{table}")


def frames(lake: Lake, read: Callable[[Lake, str], polars.LazyFrame]) -> dict[str, polars.LazyFrame]:
    """Every table as Polars reads it; those without rows by their declaration."""
    empty = {table: with_date(table, schema).remove_metadata().empty_table() for table, schema in SCHEMAS.items()}
    return {
        view_name(table): read(lake, table) if lake.files(table) else polars.DataFrame(empty[table]).lazy()
        for table in SCHEMAS
    }


def over_frames(found: dict[str, polars.LazyFrame]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for name, frame in found.items():
        connection.register(name, frame.collect().to_arrow())
    for name in ACROSS_SENSORS:
        connection.execute(f"create view {name} as {view_sql(name)}")
    return connection


def test_duckdb_gives_the_same_answers(lake: Lake, expected: dict[str, Answer], asking: ModuleType) -> None:
    with open_tables(lake) as tables:
        found = {name: as_answer(tables.execute(asking.for_duckdb(name)).fetchall()) for name in NAMES}
    for name in NAMES:
        assert_close(found[name], expected[name])


@pytest.mark.parametrize("read", [in_parquet, in_delta])
def test_polars_gives_the_same_answers_on_parquet_and_on_delta(
    read: Callable[[Lake, str], polars.LazyFrame], lake: Lake, expected: dict[str, Answer], asking: ModuleType
) -> None:
    tables = frames(lake, read)
    own = polars.SQLContext(tables)
    for name in IN_POLARS_SQL:
        sql = (DIRECTORY / f"{name}.sql").read_text()
        assert_close(as_answer(own.execute(sql, eager=True).rows()), expected[name])
    with over_frames(tables) as connection:
        found = {name: as_answer(connection.execute(asking.for_duckdb(name)).fetchall()) for name in NAMES}
    for name in NAMES:
        assert_close(found[name], expected[name])


def test_duckdb_gives_the_same_answers_on_the_files_of_the_delta_log(
    lake: Lake, expected: dict[str, Answer], asking: ModuleType
) -> None:
    """DuckDB's own reader of Delta is an extension that is downloaded; the log says which files it would read."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for table, schema in SCHEMAS.items():
        if not lake.files(table):
            connection.register(view_name(table), with_date(table, schema).remove_metadata().empty_table())
            continue
        listed = ", ".join(f"'{uri}'" for uri in DeltaTable(f"{lake.store.root}/_tables/{table}").file_uris())
        hive = "" if table in ("gold/open", "accounting") else ", hive_partitioning = true, hive_types = {'date': DATE}"
        connection.execute(
            f"create view {view_name(table)} as from read_parquet([{listed}], union_by_name = true{hive})"
        )
    for name in ACROSS_SENSORS:
        connection.execute(f"create view {name} as {view_sql(name)}")
    with connection:
        found = {name: as_answer(connection.execute(asking.for_duckdb(name)).fetchall()) for name in NAMES}
    for name in NAMES:
        assert_close(found[name], expected[name])
