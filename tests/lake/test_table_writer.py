"""Rows -> Parquet files by date: nothing lost, nothing twice, each row under its date, few files, bounded memory."""

from __future__ import annotations

import pickle
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

from tests.lake.listing import tree
from wirelake.errors import LakeError
from wirelake.lake import Lake, Staging, TableWriter
from wirelake.lake.encodings import encodings
from wirelake.lake.store import Store

DAY = 86_400_000_000
SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("n", pa.int64())])


def rows(times: list[int | None], start: int = 0) -> pa.RecordBatch:
    numbers = list(range(start, start + len(times)))
    return pa.RecordBatch.from_arrays([pa.array(times, SCHEMA.field("ts").type), pa.array(numbers)], schema=SCHEMA)


def staging(place: Path, number: int = 1) -> Staging:
    return Staging(Store.at(place), "run", number, durable=False)


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
    writer = TableWriter(staging(place), "silver/x", SCHEMA, task=3, **options)
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
    writer = TableWriter(Staging(Store.at(place), "run", 1, durable=False), "silver/x", SCHEMA, **options)
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
    writer = TableWriter(staging(tmp_path), "silver/x", SCHEMA, row_group_rows=1, max_open=3)
    for k in range(20):
        writer.write(rows([k % 10 * DAY], k))
        assert sum(part.sink is not None for part in writer._parts.values()) <= 3
    files = writer.close()
    assert sorted(file.name for file in files) == sorted(f"part-00000001-00000-{k}.parquet" for k in range(20))


def test_a_thousand_dates_in_one_batch_cost_a_file_each_and_bounded_memory(tmp_path: Path) -> None:
    shuffled = [int(k) * DAY for k in np.random.default_rng(1).permutation(1000)]
    files = staged(tmp_path, [rows(shuffled)])
    assert len({file.partition for file in files}) == len(files) == 1000


def test_what_waits_in_memory_is_bounded(tmp_path: Path) -> None:
    writer = TableWriter(staging(tmp_path), "silver/x", SCHEMA, buffer_bytes=10_000)
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
    writer = TableWriter(staging(tmp_path), "gold/exchanges", schema, dated_by="at")
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
        TableWriter(staging(tmp_path), "silver/x", SCHEMA.append(pa.field("date", pa.string())))


def test_dates_need_a_column_of_times(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column 'at' to take dates from"):
        TableWriter(staging(tmp_path), "silver/x", SCHEMA, dated_by="at")
    with pytest.raises(ValueError, match="taken from a timestamp, not from int64"):
        staged(tmp_path, [rows([1])], dated_by="n")


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="gone wrong"), staging(tmp_path).attempt(1) as attempt:
        attempt.table("silver/x", SCHEMA, row_group_rows=1).write(rows([1, 2]))
        attempt.stream("facts", SCHEMA).write(rows([1]))
        attempt.stage_bytes("carry", b"abc")
        assert tree(Store.at(tmp_path), "_staging")
        raise RuntimeError("gone wrong")
    assert not tree(Store.at(tmp_path), "_staging")


def test_an_attempt_that_is_left_without_a_word_leaves_nothing(tmp_path: Path) -> None:
    with staging(tmp_path).attempt(1) as attempt:
        attempt.table("silver/x", SCHEMA).write(rows([1, 2]))
    assert not tree(Store.at(tmp_path), "_staging")


def test_two_attempts_at_one_task_do_not_meet(tmp_path: Path) -> None:
    with staging(tmp_path).attempt(1) as first, staging(tmp_path).attempt(1) as second:
        for attempt in (first, second):
            attempt.table("silver/x", SCHEMA).write(rows([1, 2]))
        (one,), (two,) = first.close(), second.close()
    assert one.path == two.path
    assert one.staged != two.staged


def test_staging_goes_to_workers_as_a_small_pickle(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake")
    with lake.writing() as run:
        data = pickle.dumps(run.staging)
        assert len(data) < 1000
        with pickle.loads(data).attempt(0) as attempt:
            attempt.table("silver/x", SCHEMA).write(rows([1]))
            run.commit(attempt.close())
    assert lake.dataset("silver/x").count_rows() == 1


def test_a_task_has_a_name_that_is_fit_for_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a task has a name of up to 100 letters"):
        staging(tmp_path).attempt("a/b")


# --- how columns are laid out


def sample(count: int = 5000) -> pa.Table:
    source = np.random.default_rng(1)
    noise = [source.bytes(16) for _ in range(count)]
    nested = [{"id": value, "kind": "abc"[k % 3]} for k, value in enumerate(noise)]
    listed = [[{"text": f"word {k % 5}"}] for k in range(count)]
    mapped = [[("key", value)] for value in noise]
    return pa.table(
        {
            "nested": nested,
            "listed": listed,
            "mapped": pa.array(mapped, pa.map_(pa.string(), pa.binary())),
            "counted": np.arange(count),
            "nothing": pa.nulls(count, pa.string()),
            "flag": [k % 2 == 0 for k in range(count)],
        }
    )


def test_what_repeats_gets_a_dictionary_and_what_does_not_shrink_is_left_alone(tmp_path: Path) -> None:
    chosen = encodings(sample())
    assert {"nested.kind", "listed.list.element.text", "mapped.key_value.key", "nothing"} == set(
        chosen["use_dictionary"]
    )
    assert {path for path, codec in chosen["compression"].items() if codec == "none"} == {
        "nested.id",
        "mapped.key_value.value",
    }
    assert "nested.id" not in chosen["write_statistics"]
    assert "counted" in chosen["write_statistics"]


def test_paths_are_those_of_parquet(tmp_path: Path) -> None:
    table = sample()
    pq.write_table(table, tmp_path / "x.parquet")
    group = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0)
    paths = {group.column(i).path_in_schema for i in range(group.num_columns)}
    assert set(encodings(table)["compression"]) == paths


def test_the_file_is_laid_out_as_chosen(tmp_path: Path) -> None:
    table = sample()
    writer = TableWriter(staging(tmp_path), "silver/x", table.schema, dated_by=None)
    writer.write(table)
    (file,) = writer.close()
    read = pq.ParquetFile(tmp_path / file.staged)
    group = read.metadata.row_group(0)
    about = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert about["nested.id"].compression == "UNCOMPRESSED"
    assert not about["nested.id"].has_dictionary_page
    assert about["nested.kind"].compression == "ZSTD"
    assert about["nested.kind"].has_dictionary_page
    assert read.read().equals(table)
