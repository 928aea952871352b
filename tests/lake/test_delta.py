"""Delta tables of a lake: the same rows, whatever a commit added or removed, and no commits of others."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.invoked import objects, run
from tests.lake.lakes import SCHEMA, numbers, rows
from tests.lake.test_compaction import DAY, commit, compacted
from wirelake.errors import LakeError
from wirelake.lake import Lake
from wirelake.lake.delta import drop, publish
from wirelake.lake.expiry import expire
from wirelake.lake.sweep import sweep


def place_of(lake: Lake, table: str) -> str:
    return f"{lake.store.root}/_tables/{table}"


def published(lake: Lake, table: str, **options: Any) -> list[int]:
    return sorted(DeltaTable(place_of(lake, table), **options).to_pyarrow_table().column("n").to_pylist())


def made(place: Path) -> Lake:
    lake = Lake.open(place)
    for n in range(4):
        commit(lake, "silver/x", rows(n, ts=n * 1000), rows(10 + n, ts=DAY + n))
        commit(lake, "gold/open", rows(n), removed=lake.files("gold/open"))
    return lake


def test_a_published_table_has_the_rows_of_the_lake(tmp_path: Path) -> None:
    lake = made(tmp_path)
    done = publish(lake)
    assert done.commit == 8 and done.tables["silver/x"]["added"] == 8
    for table in ("silver/x", "gold/open"):
        assert published(lake, table) == numbers(lake, table)
    seen = polars.read_delta(place_of(lake, "silver/x")).filter(polars.col("date") == date(1970, 1, 2))
    assert sorted(seen["n"].to_list()) == [10, 11, 12, 13]
    table = DeltaTable(place_of(lake, "silver/x"))
    assert table.metadata().partition_columns == ["date"] and table.transaction_version("wirelake") == 8
    known = pa.table(table.get_add_actions(flatten=True))
    assert sorted(known.column("partition.date").to_pylist()) == [date(1970, 1, 1)] * 4 + [date(1970, 1, 2)] * 4
    assert known.column("num_records").to_pylist() == [1] * 8


def test_publishing_again_writes_only_what_changed(tmp_path: Path) -> None:
    lake = made(tmp_path)
    publish(lake)
    assert all(table["added"] == table["removed"] == 0 for table in publish(lake).tables.values())
    assert DeltaTable(place_of(lake, "silver/x")).version() == 0
    commit(lake, "gold/open", rows(99), removed=lake.files("gold/open"))
    again = publish(lake)
    assert again.tables["gold/open"] | {"place": ""} == {"place": "", "version": 1, "added": 1, "removed": 1}
    assert again.tables["silver/x"]["version"] == 0
    assert DeltaTable(place_of(lake, "gold/open")).history(1)[0]["wirelake_commit"] == 9
    assert published(lake, "gold/open") == [99] and published(lake, "gold/open", version=0) == [3]


def test_compaction_and_expiry_are_transactions_of_one_version_each(tmp_path: Path) -> None:
    lake = made(tmp_path)
    publish(lake)
    compacted(lake)
    done = publish(lake).tables["silver/x"]
    assert (done["version"], done["added"], done["removed"]) == (1, 2, 8)
    assert published(lake, "silver/x") == numbers(lake, "silver/x") == published(lake, "silver/x", version=0)
    with lake.writing() as writer:
        expire(writer, date(1970, 1, 2))
    publish(lake)
    assert published(lake, "silver/x") == [10, 11, 12, 13]
    with lake.writing() as writer:
        expire(writer, date(1970, 1, 3))
    assert publish(lake).tables["silver/x"]["removed"] == 1
    assert published(lake, "silver/x") == []


def test_a_column_that_comes_is_there_for_all_readers(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    inner, wider = pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("b", pa.string())])
    old = SCHEMA.append(pa.field("s", inner))
    new = SCHEMA.append(pa.field("s", wider)).append(pa.field("extra", pa.string()))
    commit(lake, "silver/x", rows(1).append_column("s", pa.array([{"a": 1}], inner)), schema=old)
    publish(lake)
    second = rows(2).append_column("s", pa.array([{"a": 2, "b": "x"}], wider)).append_column("extra", pa.array(["e"]))
    commit(lake, "silver/x", second, schema=new)
    publish(lake)
    wanted = [{"n": 1, "s": {"a": 1, "b": None}, "extra": None}, {"n": 2, "s": {"a": 2, "b": "x"}, "extra": "e"}]
    place = place_of(lake, "silver/x")
    assert polars.read_delta(place).sort("n").select("n", "s", "extra").to_dicts() == wanted
    assert lake.dataset("silver/x").to_table(columns=["n", "s", "extra"]).sort_by("n").to_pylist() == wanted
    read = DeltaTable(place).to_pyarrow_table()
    assert read.sort_by("n").select(["n", "s", "extra"]).to_pylist() == wanted


def test_a_commit_of_somebody_else_is_refused_by_name(tmp_path: Path) -> None:
    lake = made(tmp_path)
    publish(lake)
    place = place_of(lake, "silver/x")
    foreign = DeltaTable(place).to_pyarrow_table().slice(0, 1)
    write_deltalake(place, foreign, mode="append")
    with pytest.raises(
        LakeError, match=r"_tables/silver/x: has a transaction that wirelake did not write \(version 1, 'W"
    ):
        publish(lake)
    assert drop(lake) == ["gold/open", "silver/x"]
    publish(lake)
    assert published(lake, "silver/x") == numbers(lake, "silver/x")


def test_files_of_a_published_version_outlive_the_grace_period_until_the_next_one(tmp_path: Path) -> None:
    lake = made(tmp_path)
    publish(lake)
    for n in range(3):
        commit(lake, "gold/open", rows(20 + n), removed=lake.files("gold/open"))
    later = datetime.now(UTC) + timedelta(minutes=11)
    state = lake.refresh()
    sweep(lake.store, state, lake.grace, later)
    assert published(lake, "gold/open") == [3]
    publish(lake)
    sweep(lake.store, state, lake.grace, later + timedelta(minutes=11))
    assert published(lake, "gold/open") == [22]
    with pytest.raises(Exception, match=r"No such file|not found"):
        published(lake, "gold/open", version=0)


def test_a_lake_without_hard_links_cannot_be_published(tmp_path: Path) -> None:
    from tests.lake.flat import flat

    with pytest.raises(LakeError, match="cannot be published: its store has no hard links"):
        publish(Lake.open("bucket/lake", filesystem=flat(tmp_path)))


def test_the_verb_publishes_and_drops(tmp_path: Path) -> None:
    lake = made(tmp_path)
    result = run("lake", "delta", str(tmp_path))
    assert objects(result)[0]["tables"]["silver/x"]["added"] == 8
    assert "published commit 8: 9 files added, 0 removed in 2 tables" in result.stderr
    assert objects(run("lake", "status", str(tmp_path)))[0]["published"] == 8
    assert objects(run("lake", "delta", str(tmp_path), "--drop"))[0] == {"dropped": ["gold/open", "silver/x"]}
    assert objects(run("lake", "status", str(tmp_path)))[0]["published"] is None
    assert numbers(lake, "silver/x") == [0, 1, 2, 3, 10, 11, 12, 13]
