"""Rows -> Parquet files by date: nothing lost, nothing twice, each row under its date, few files, bounded memory."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.errors import LakeError
from wirelake.lake import Attempt, Staging
from wirelake.lake.store import Store
from wirelake.lake.table_writer import TableWriter

DAY = 86_400_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("n", pa.int64())])


def rows(times: list[int | None], start: int = 0) -> pa.RecordBatch:
    numbers = list(range(start, start + len(times)))
    return pa.RecordBatch.from_arrays([pa.array(times, SCHEMA.field("ts").type), pa.array(numbers)], schema=SCHEMA)


def staging(place: Path, number: int = 1) -> Staging:
    return Staging(Store.at(place), "run", number, durable=False)


def attempt(place: Path) -> Attempt:
    return staging(place).attempt(3)


def written(place: Path, batches: list[pa.RecordBatch], **options: Any) -> dict[str, list[dict[str, Any]]]:
    """Directory by date -> rows, in the order of files and in files."""
    files = staged(place, batches, **options)
    found: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        table = pq.ParquetFile(place / file.staged).read()
        assert table.num_rows == file.rows
        assert (place / file.staged).stat().st_size == file.bytes
        found.setdefault(file.partition, []).extend(table.to_pylist())
    return found


def staged(place: Path, batches: list[pa.RecordBatch], **options: Any) -> list[Any]:
    writer = TableWriter(attempt(place), "silver/x", SCHEMA, **options)
    for batch in batches:
        writer.write(batch)
    return writer.close()


def test_rows_go_to_the_utc_date_of_their_time(tmp_path: Path) -> None:
    midnight = 1_700_006_400_000_000
    found = written(tmp_path, [rows([midnight - 1, midnight, midnight - 2, None, -1, 0])])
    assert {name: [row["n"] for row in kept] for name, kept in found.items()} == {
        "date=2023-11-14": [0, 2],
        "date=2023-11-15": [1],
        "date=__HIVE_DEFAULT_PARTITION__": [3],
        "date=1969-12-31": [4],
        "date=1970-01-01": [5],
    }


def test_a_time_that_no_calendar_has_goes_to_the_null_date(tmp_path: Path) -> None:
    files = staged(tmp_path, [rows([1 << 62, -(1 << 62), 253_402_300_799_999_999])])
    assert sorted((file.partition, file.rows) for file in files) == [
        ("date=9999-12-31", 1),
        ("date=__HIVE_DEFAULT_PARTITION__", 2),
    ]


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.none() | st.integers(-3 * DAY, 3 * DAY) | st.integers(-(1 << 63), (1 << 63) - 1), max_size=12),
        max_size=6,
    ),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([1, 200, 1 << 20]),
    st.integers(1, 3),
)
def test_every_row_is_written_once_under_its_date(
    tmp_path_factory: pytest.TempPathFactory, lists: list[list[int | None]], group: int, buffer: int, most: int
) -> None:
    place = tmp_path_factory.mktemp("lake")
    batches = [rows(times, 100 * i) for i, times in enumerate(lists)]
    options = {"row_group_rows": group, "buffer_bytes": buffer, "max_open": most}
    writer = TableWriter(attempt(place), "silver/x", SCHEMA, **options)
    for batch in batches:
        writer.write(batch)
    found = Counter()
    for file in writer.close():
        numbers = pq.ParquetFile(place / file.staged).read()
        times = numbers.column("ts").cast(pa.int64()).to_pylist()
        found.update((file.partition, n) for n in numbers.column("n").to_pylist())
        known = [t for t in times if t is not None]
        assert (file.min_ts, file.max_ts) == (min(known, default=None), max(known, default=None))
    expected = Counter(
        (directory_of(time), 100 * i + k) for i, times in enumerate(lists) for k, time in enumerate(times)
    )
    assert found == expected


def directory_of(time: int | None) -> str:
    try:
        day = date(1970, 1, 1) + timedelta(days=time // DAY) if time is not None else None
    except OverflowError:
        day = None
    return f"date={day.isoformat()}" if day else "date=__HIVE_DEFAULT_PARTITION__"


def test_small_batches_make_few_row_groups_in_one_file(tmp_path: Path) -> None:
    files = staged(tmp_path, [rows([k], k) for k in range(500)], row_group_rows=200)
    assert [file.name for file in files] == ["part-00000001-00003-0.parquet"]
    about = pq.ParquetFile(tmp_path / files[0].staged)
    assert [about.metadata.row_group(i).num_rows for i in range(about.num_row_groups)] == [200, 200, 100]
    assert about.read().column("n").to_pylist() == list(range(500))


def test_only_so_many_files_are_open_at_once(tmp_path: Path) -> None:
    writer = TableWriter(attempt(tmp_path), "silver/x", SCHEMA, row_group_rows=1, max_open=3)
    for k in range(20):
        writer.write(rows([k % 10 * DAY], k))
        assert sum(part.sink is not None for part in writer._parts.values()) <= 3
    files = writer.close()
    assert sorted(file.name for file in files) == sorted(f"part-00000001-00003-{k}.parquet" for k in range(20))


def test_a_thousand_dates_in_one_batch_cost_a_file_each_and_bounded_memory(tmp_path: Path) -> None:
    shuffled = [int(k) * DAY for k in np.random.default_rng(1).permutation(1000)]
    files = staged(tmp_path, [rows(shuffled)])
    assert len({file.partition for file in files}) == len(files) == 1000


def test_what_waits_in_memory_is_bounded(tmp_path: Path) -> None:
    writer = TableWriter(attempt(tmp_path), "silver/x", SCHEMA, buffer_bytes=10_000)
    for k in range(50):
        writer.write(rows([k % 4 * DAY] * 100, k))
        assert writer._waiting_bytes <= 10_000
    assert sum(file.rows for file in writer.close()) == 5000


def test_the_same_rows_in_the_same_order_make_the_same_names(tmp_path: Path) -> None:
    batches = [rows([k % 7 * DAY], k) for k in range(50)]
    names = [
        [(file.partition, file.name, file.rows) for file in staged(tmp_path / str(k), batches, max_open=2)]
        for k in range(2)
    ]
    assert names[0] == names[1]


def test_columns_are_taken_by_name_and_others_left_out(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"order": [9], "n": pa.array([5], pa.int32()), "ts": [datetime(2024, 1, 2, tzinfo=UTC)]}
    )
    found = written(tmp_path, [batch])
    assert found == {"date=2024-01-02": [{"ts": datetime(2024, 1, 2, tzinfo=UTC), "n": 5}]}
    with pytest.raises(ValueError, match="silver/x: rows without the columns n"):
        staged(tmp_path, [batch.select(["ts"])])


def test_times_in_other_units_work(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.timestamp("ns"))])
    writer = TableWriter(attempt(tmp_path), "gold/exchanges", schema, dated_by="at")
    writer.write(pa.RecordBatch.from_arrays([pa.array([DAY * 1000 + 1], schema.field(0).type)], schema=schema))
    (file,) = writer.close()
    assert (file.partition, file.min_ts) == ("date=1970-01-02", DAY)


def test_a_table_without_dates_lies_in_its_own_directory(tmp_path: Path) -> None:
    (file,) = staged(tmp_path, [rows([0, DAY])], dated_by=None)
    assert (file.partition, file.path) == ("", "silver/x/part-00000001-00003-0.parquet")


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    assert staged(tmp_path, [rows([])]) == []
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_column_called_date_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="silver/x: has a column 'date'"):
        TableWriter(attempt(tmp_path), "silver/x", SCHEMA.append(pa.field("date", pa.string())))


def test_dates_need_a_column_of_times(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column 'at' to take dates from"):
        TableWriter(attempt(tmp_path), "silver/x", SCHEMA, dated_by="at")
    with pytest.raises(ValueError, match="taken from a timestamp, not from int64"):
        staged(tmp_path, [rows([1])], dated_by="n")
