"""Compaction: fewer files, the same rows, in the order of their times; and what it leaves alone."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.lake.lakes import SCHEMA, numbers, rows
from wirelake.errors import LakeError
from wirelake.lake import Kept, Lake, StagedFile, compaction
from wirelake.lake.compaction import Compacted, compact, compacting

DAY = 86_400_000_000


def commit(
    lake: Lake, table: str, *batches: pa.RecordBatch, sensor: str = "s", schema: Any = SCHEMA, **more: Any
) -> int:
    with lake.writing() as run, run.staging.attempt("t", sensor) as attempt:
        for batch in batches:
            dated = {"dated_by": None} if table in ("accounting", "gold/open") else {}
            attempt.table(table, schema, **dated).write(batch)
        return run.commit(attempt.close(), **more)


def compacted(lake: Lake, **options: Any) -> Any:
    with lake.writing() as run:
        return compact(run, **options)


def test_files_of_one_date_and_sensor_become_one_sorted_by_time(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    for n in range(6):
        commit(lake, "silver/x", rows(n, ts=(5 - n) * 1000), rows(100 + n, ts=DAY + n), sensor="ab"[n % 2])
    before = lake.snapshot()
    done = compacted(lake)
    assert (done.files_before, done.files_after, done.rows, done.commits) == (12, 4, 12, [7])
    assert numbers(lake, "silver/x") == numbers(before, "silver/x") == [0, 1, 2, 3, 4, 5, *range(100, 106)]
    first = next(file for file in lake.files("silver/x") if file.sensor == "a" and file.partition == "date=1970-01-01")
    merged = lake.read_file(first.path)
    assert merged.column("n").to_pylist() == [4, 2, 0]
    assert merged.column("sensor").to_pylist() == ["a", "a", "a"]
    assert (first.rows, first.min_ts, first.max_ts, first.commit) == (3, 1000, 5000, 5)
    assert ds.dataset(tmp_path / "silver" / "x", partitioning="hive").count_rows() == 12
    assert compacted(lake).commits == []


def test_rows_that_outgrow_memory_are_merged_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SLICE_BYTES", 500)
    lake = Lake.open(tmp_path)
    schema = SCHEMA.append(pa.field("order", pa.int64()))
    for n in range(5):
        made = rows(*range(40), ts=n * 10)
        times = pa.array([None if k == 7 else (k * 37 + n) % 1000 for k in range(40)], SCHEMA.field("ts").type)
        batch = pa.RecordBatch.from_arrays([times, made.column("n"), pa.array(range(40))], schema=schema)
        commit(lake, "silver/x", batch, schema=schema)
    expected = lake.dataset("silver/x").to_table().sort_by([("ts", "ascending"), ("n", "ascending")])
    compacted(lake)
    assert lake.dataset("silver/x").to_table().sort_by([("ts", "ascending"), ("n", "ascending")]).equals(expected)
    dated, undated = sorted(lake.files("silver/x"), key=lambda file: file.partition)
    assert (dated.rows, undated.rows) == (195, 5) and undated.partition == "date=__HIVE_DEFAULT_PARTITION__"
    times = lake.read_file(dated.path).column("ts").to_pylist()
    assert times == sorted(times)


def test_what_is_committed_between_slices_stays_and_what_it_replaces_is_not_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SLICE_BYTES", 500)
    lake = Lake.open(tmp_path)
    for n in range(4):
        commit(lake, "silver/x", *(rows(10 * n + k, ts=10 * n + k) for k in range(10)))
        commit(lake, "silver/y", rows(n, ts=n))
    with lake.writing() as run:
        done = Compacted()
        parts = compacting(run, done)
        next(parts)
        for n in range(4, 6):
            with run.staging.attempt("t", "s") as attempt:
                attempt.table("silver/y", SCHEMA).write(rows(n, ts=n))
                replaced = [file for file in lake.files("silver/y") if file.max_ts == 0]
                run.commit(attempt.close(), removed=replaced)
        assert list(parts)
        assert not list(tmp_path.glob("_staging/*/*"))
    assert (done.files_before, done.files_after, done.commits) == (4, 1, [11])
    assert numbers(lake, "silver/x") == list(range(40)) and len(lake.files("silver/x")) == 1
    assert numbers(lake, "silver/y") == [1, 2, 3, 4, 5] and len(lake.files("silver/y")) == 5
    assert compacted(lake).files_before == 5


def test_a_merging_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    for n in range(3):
        commit(lake, "silver/x", rows(n, ts=n))
    with lake.writing() as run, closing(compacting(run, Compacted())) as parts:
        next(parts)
    assert not list(tmp_path.glob("_staging/*")) and lake.number() == 3
    assert compacted(lake).files_before == 3


def test_large_files_open_things_and_the_newest_minutes_are_left_alone(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    minutes = pa.schema([("minute", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    for n in range(3):
        commit(lake, "gold/open", rows(n))
        commit(lake, "silver/x", rows(n))
        for day in range(3):
            with lake.writing() as run, run.staging.attempt("t", "s") as attempt:
                batch = rows(n, ts=day * DAY + n).rename_columns(["minute", "n"])
                attempt.table("gold/addresses", minutes, dated_by="minute").write(batch)
                run.commit(attempt.close())
    done = compacted(lake, target_bytes=1)
    assert done.commits == []
    done = compacted(lake, tables=["gold/open", "gold/addresses"])
    assert done.files_before == 6 and len(lake.files("gold/addresses")) == 5, "but an hour that is over is merged"
    assert compacted(lake, tables=["silver/x"], min_files=4).commits == []


def test_files_on_both_sides_of_a_kept_carry_stay_apart(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    for n in range(1, 5):
        commit(lake, "silver/x", rows(n), kept={"k": [Kept(2, 0, "", {})]} if n == 4 else None)
    compacted(lake)
    assert sorted((file.commit, file.rows) for file in lake.files("silver/x")) == [(2, 2), (4, 2)]
    assert numbers(lake, "silver/x") == [1, 2, 3, 4]


def test_accounts_of_what_is_open_are_not_touched(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    for n in range(3):
        commit(lake, "accounting", rows(n))
    with lake.writing() as run, run.staging.attempt("s-open", "s") as attempt:
        attempt.table("accounting", SCHEMA, dated_by=None).write(rows(9))
        run.commit(attempt.close())
    compacted(lake)
    assert sorted(file.rows for file in lake.files("accounting")) == [1, 3]
    assert any("-open-" in file.name for file in lake.files("accounting"))


def test_columns_that_came_later_are_there_after_a_merge(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    inner = pa.struct([("a", pa.int64())])
    wider = pa.struct([("a", pa.int64()), ("b", pa.string())])
    old = SCHEMA.append(pa.field("s", inner))
    new = SCHEMA.append(pa.field("s", wider)).append(pa.field("extra", pa.string()))
    commit(lake, "silver/x", rows(1).append_column("s", pa.array([{"a": 1}], inner)), schema=old)
    second = rows(2).append_column("s", pa.array([{"a": 2, "b": "x"}], wider)).append_column("extra", pa.array(["e"]))
    commit(lake, "silver/x", second, schema=new)
    compacted(lake)
    (file,) = lake.files("silver/x")
    assert lake.read_file(file.path, ["n", "s", "extra"]).sort_by("n").to_pylist() == [
        {"n": 1, "s": {"a": 1, "b": None}, "extra": None},
        {"n": 2, "s": {"a": 2, "b": "x"}, "extra": "e"},
    ]


def test_a_merge_that_would_lose_rows_is_not_committed(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    for n in range(2):
        commit(lake, "silver/x", rows(n))
    damaged: StagedFile = lake.files("silver/x")[0]
    pq.write_table(lake.read_file(damaged.path).slice(1), tmp_path / "_tables" / damaged.path)
    with pytest.raises(LakeError, match="cannot be merged: their rows are not what they should be"):
        compacted(lake)
    assert lake.number() == 2 and len(lake.files("silver/x")) == 2


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing(), pytest.raises(LakeError, match="another run"):
        compacted(Lake.open(tmp_path))
