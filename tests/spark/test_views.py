"""The tables of a lake as views, and what is said about their columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.report.made import write
from wirelake.gold.across_sensors import ACROSS_SENSORS
from wirelake.gold.tables import TABLES
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN
from wirelake.report import open_tables
from wirelake.spark.views import views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("message", pa.string()), ("text", pa.binary())])


def test_a_lake_without_rows_has_all_views(spark: SparkSession, tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake")
    names = views(spark, tmp_path / "lake")
    assert set(names) - set(ACROSS_SENSORS) == {
        table.replace("/", "_") for table in (*TABLES, *(f"silver/{name}" for name in BUILT_IN))
    }
    for name in names:
        assert spark.table(name).count() == 0


def test_a_table_of_a_protocol_that_is_not_built_in_is_a_view_with_the_columns_of_its_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake.open(tmp_path / "a lake")
    with lake.writing() as run:
        with run.staging.attempt("t") as attempt:
            rows = [{"ts": 1_700_000_000_000_000, "message": "post", "text": b"cat"}]
            attempt.table("silver/bulletin", ROWS).write(pa.RecordBatch.from_pylist(rows, ROWS))
            files = attempt.close()
        run.commit(files)
    assert "silver_bulletin" in views(spark, str(tmp_path / "a lake"))
    (row,) = spark.sql("select message, text, cast(date as string) as date from silver_bulletin").collect()
    assert (row.message, bytes(row.text), row.date) == ("post", b"cat", "2023-11-14")


def test_every_column_of_a_table_is_documented() -> None:
    def parts(field: Any) -> list[Any]:
        inner = field.type.value_type if pa.types.is_list(field.type) else None
        return [field, *(inner if inner is not None and pa.types.is_struct(inner) else ())]

    fields = [(table, part) for table, schema in TABLES.items() for field in schema for part in parts(field)]
    assert [(table, part.name) for table, part in fields if not (part.metadata or {}).get(b"doc")] == []


# --- across sensors

MINUTE = 1_700_000_040_000_000
BEGAN = MINUTE + 5_000_000


def branch(bqual: str, outcome: str, resource: int | None = 1, calls: int = 2) -> dict[str, Any]:
    return {"bqual": bqual, "connection": "c1", "resource": resource, "calls": calls, "outcome": outcome}


def transaction(
    sensor: str, gtrid: str, *branches: dict[str, Any], at: int = 0, ended: int | None = 9
) -> dict[str, Any]:
    return {
        "sensor": sensor,
        "protocol": "casual",
        "xid_format": 42,
        "gtrid": gtrid,
        "first_ts": BEGAN + at,
        "ended_ts": None if ended is None else BEGAN + ended,
        "last_ts": BEGAN + at + 10,
        "outcome": branches[0]["outcome"],
        "executions": [f"chain of {sensor}", "chain"],
        "branches": list(branches),
    }


def exchange(sensor: str, latency: int | None) -> dict[str, Any]:
    names = {"protocol": "casual", "address": "a", "outcome": "ok" if latency else "timeout"}
    return {"sensor": sensor, "request_ts": BEGAN, "latency_us": latency, **names}


def counts(sensor: str, requests: int, timeouts: int) -> dict[str, Any]:
    zeros = dict.fromkeys(("errors", "fan_out"), 0)
    counted = {"messages": requests, "bytes": 10 * requests, "requests": requests, "timeouts": timeouts, **zeros}
    return {"sensor": sensor, "protocol": "casual", "address": "a", "minute": MINUTE, **counted}


SEEN = {
    "gold/transactions": [
        transaction("west", "01", branch("aa", "in_doubt", calls=5), ended=None),
        transaction("east", "01", branch("aa", "committed", calls=3), at=-4),
        transaction("west", "02", branch("aa", "committed")),
        transaction("east", "02", branch("aa", "rolled_back")),
        transaction("west", "03", branch("aa", "committed")),
        transaction("east", "03", branch("bb", "in_doubt"), ended=None),
        transaction("west", "04", branch("aa", "in_doubt", resource=None), ended=None),
        transaction("east", "04", branch("aa", "read_only", resource=7)),
        transaction("west", "05", branch("aa", "committed"), branch("aa", "in_doubt", resource=2), ended=None),
    ],
    "gold/exchanges": [
        *(exchange("west", latency) for latency in (1, 2, 3)),
        *(exchange("east", latency) for latency in (100, 200, None)),
    ],
    "gold/addresses": [counts("west", 3, 0), counts("east", 3, 1)],
}


def in_duckdb(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with open_tables(lake) as tables:
        return tables.execute(query).fetchall()


def test_a_transaction_has_the_outcome_that_all_sensors_together_saw(tmp_path: Path) -> None:
    found = in_duckdb(write(tmp_path / "lake", SEEN), "select gtrid, outcome from transactions order by gtrid")
    assert dict(found) == {
        "01": "committed",  # one did not see the end, another did
        "02": "contradictory",
        "03": "in_doubt",  # of another branch
        "04": "read_only",  # a branch without a known resource is that of its qualifier
        "05": "in_doubt",  # one sensor saw two branches of one qualifier
    }


def test_times_and_sensors_of_a_transaction_are_those_of_all(tmp_path: Path) -> None:
    columns = "sensors, epoch_us(first_ts), epoch_us(ended_ts), epoch_us(last_ts), duration_us, calls, executions"
    ((sensors, *times, executions),) = in_duckdb(
        write(tmp_path / "lake", SEEN), f"select {columns} from transactions where gtrid = '01'"
    )
    assert sensors == ["east", "west"]
    assert times == [BEGAN - 4, BEGAN + 9, BEGAN + 10, 13, 5]
    assert executions == ["chain", "chain of east", "chain of west"]


def test_percentiles_across_sensors_are_those_of_all_latencies(tmp_path: Path) -> None:
    query = "select sensors, requests, timeouts, error_rate, p50_us, p95_us, max_us from addresses"
    (row,) = in_duckdb(write(tmp_path / "lake", SEEN), query)
    assert row == (["east", "west"], 6, 1, 1 / 6, 3, 200, 200)


def test_spark_and_duckdb_have_the_same_views_across_sensors(spark: SparkSession, tmp_path: Path) -> None:
    lake = write(tmp_path / "lake", SEEN)
    views(spark, lake)
    for query in (
        "select gtrid, sensors, outcome, calls, duration_us, executions, branches from transactions order by gtrid",
        "select protocol, address, sensors, messages, bytes, requests, timeouts, error_rate, fan_out, p50_us, p95_us,"
        " p99_us, max_us, cast(date as string) as date from addresses",
    ):
        ours = [_plain(row) for row in in_duckdb(lake, query)]
        assert [_plain(row) for row in spark.sql(query).collect()] == ours != []


def _plain(value: Any) -> Any:
    """Rows, structs and lists as lists."""
    if isinstance(value, dict):
        return [_plain(each) for each in value.values()]
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
