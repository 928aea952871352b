"""Attempts at tasks: they do not meet, and leave nothing behind unless they end well."""

from __future__ import annotations

import pickle
from contextlib import suppress
from pathlib import Path

import pytest

from tests.lake.lakes import SCHEMA, numbers, rows, stage, tree
from wirelake.errors import LakeError
from wirelake.lake import Lake, Staging
from wirelake.lake.store import Store


def staging(place: Path) -> Staging:
    return Staging(Store.at(place), "run", 1, durable=False)


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="gone wrong"), staging(tmp_path).attempt(1) as attempt:
        attempt.table("silver/x", SCHEMA, row_group_rows=1).write(rows(1, 2))
        attempt.stream("facts", SCHEMA).write(rows(1))
        attempt.stage_bytes("carry", b"abc")
        assert tree(Store.at(tmp_path), "_staging")
        raise RuntimeError("gone wrong")
    assert not tree(Store.at(tmp_path), "_staging")


def test_an_attempt_that_is_left_without_a_word_leaves_nothing(tmp_path: Path) -> None:
    with staging(tmp_path).attempt(1) as attempt:
        attempt.table("silver/x", SCHEMA).write(rows(1, 2))
    assert not tree(Store.at(tmp_path), "_staging")


def test_two_attempts_at_one_task_do_not_meet(tmp_path: Path) -> None:
    with staging(tmp_path).attempt(1) as first, staging(tmp_path).attempt(1) as second:
        for attempt in (first, second):
            attempt.table("silver/x", SCHEMA).write(rows(1, 2))
        (one,), (two,) = first.close(), second.close()
    assert one.path == two.path
    assert one.staged != two.staged


def test_staging_goes_to_workers_as_a_small_pickle(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake")
    with lake.writing() as run:
        data = pickle.dumps(run.staging)
        assert len(data) < 1000
        with pickle.loads(data).attempt(0) as attempt:
            attempt.table("silver/x", SCHEMA).write(rows(1))
            run.commit(attempt.close())
    assert lake.dataset("silver/x").count_rows() == 1


def test_a_task_has_a_name_that_is_fit_for_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a task has a name of up to 100 letters"):
        staging(tmp_path).attempt("a/b")


def test_an_attempt_that_goes_on_after_the_commit_adds_nothing(tmp_path: Path) -> None:
    """As speculative tasks do, and those of a driver that was killed."""
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        slow = run.staging.attempt(0)
        slow.table("silver/x", SCHEMA, row_group_rows=1).write(rows(1))
        run.commit(stage(run, "silver/x", 1))
        slow.table("silver/x", SCHEMA).write(rows(2))
        slow.table("silver/y", SCHEMA).write(rows(3))
    with suppress(LakeError):
        slow.close()
    assert (lake.tables(), numbers(lake, "silver/x")) == (["silver/x"], [1])
    with lake.writing():
        assert not tree(lake.store, "_staging")
    assert [path.name for path in tmp_path.glob("silver/**/*.parquet")] == ["part-00000001-00000-0.parquet"]


def test_files_of_tables_come_in_a_fixed_order_and_others_when_they_are_staged(tmp_path: Path) -> None:
    with staging(tmp_path).attempt("x") as attempt:
        for table in ("silver/y", "accounting", "silver/x"):
            attempt.table(table, SCHEMA).write(rows(1))
        carry = attempt.stage_bytes("carry", b"abc")
        files = attempt.close()
    assert [file.table for file in files] == ["accounting", "silver/x", "silver/y"]
    assert (carry.table, carry.bytes, (tmp_path / carry.staged).read_bytes()) == ("", 3, b"abc")
    assert files[0].path == "accounting/date=1970-01-01/part-00000001-x-0.parquet"
