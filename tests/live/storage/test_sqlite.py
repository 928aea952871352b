from __future__ import annotations

import os
import resource
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live.storage.notebook import NOTEBOOK, Notebook
from wirelake.live.core.effects import Done, Failed
from wirelake.live.storage.database import Schema, StorageError
from wirelake.live.storage.sqlite import SqliteMemory, SqliteStorage


def open_notebook(path: Path, schema: Schema = NOTEBOOK, **options: Any) -> SqliteStorage:
    return SqliteStorage(path, schema, Notebook, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStorage]:
    store = open_notebook(path)
    yield store
    store.close()


def test_a_batch_is_one_transaction_with_one_sync(store: SqliteStorage) -> None:
    results = store.run([("put", b"a", b"1"), ("get", b"a"), ("put", b"b", b"2")])
    assert results == [Done(None), Done(b"1"), Done(None)]
    assert store.counts == {"batches": 1, "requests": 3, "fsyncs": 1}


def test_a_batch_that_promises_nothing_is_not_synced(store: SqliteStorage) -> None:
    store.run([("jot", b"a", b"1"), ("get", b"a")])
    assert store.counts["fsyncs"] == 0
    assert store.run([("get", b"a")]) == [Done(b"1")]


def test_what_is_done_is_there_for_the_next_process(path: Path) -> None:
    store = open_notebook(path)
    store.run([("put", b"a", b"1")])
    store.close()
    again = open_notebook(path)
    assert again.run([("get", b"a")]) == [Done(b"1")]
    again.close()


def test_a_request_that_fails_has_changed_nothing_and_others_are_done(store: SqliteStorage) -> None:
    store.run([("put", b"a", b"1")])
    error = ValueError("no")
    results = store.run([("put", b"b", b"2"), ("spoil", b"a", error), ("put", b"c", b"3")])
    assert results == [Done(None), Failed(error), Done(None)]
    assert store.run([("get", b"a"), ("get", b"b"), ("get", b"c")]) == [Done(b"1"), Done(b"2"), Done(b"3")]


def test_a_failed_sync_is_an_exception(store: SqliteStorage) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    with pytest.raises(sqlite3.OperationalError):
        store.run([("put", b"b", b"2"), ("spoil", b"a", error)])


@contextmanager
def small_files() -> Iterator[None]:
    """Limit files while the test runs, not while its result is reported: that may go to a longer file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(store: SqliteStorage, count: int = 200) -> int:
    """Put notes of 10 kB in batches, and return how many are Done; the rest of a batch must be refused."""
    done = 0
    for batch in range(count // 10):
        requests = [("put", b"%d" % (batch * 10 + n), b"x" * 10_000) for n in range(10)]
        results = store.run(requests)
        good = sum(isinstance(result, Done) for result in results)
        assert all(isinstance(result, Done) for result in results[:good])
        done += good
        if good < 10:
            return done
    raise AssertionError("the disk is not full")


def test_a_full_disk_keeps_what_came_before_and_refuses_the_rest(store: SqliteStorage) -> None:
    with small_files():
        done = fill(store)
    assert done > 10
    assert store.run([("get", b"%d" % n) for n in range(done)]) == [Done(b"x" * 10_000)] * done
    assert store.run([("get", b"%d" % done)]) == [Done(None)]


def test_what_a_full_disk_kept_is_there_for_the_next_process(path: Path) -> None:
    store = open_notebook(path)
    with small_files():
        done = fill(store)
        store.close()
    again = open_notebook(path)
    assert again.run([("get", b"%d" % n) for n in range(done)]) == [Done(b"x" * 10_000)] * done
    again.close()


class Moody(Notebook):
    """The first ("mood",) finds a full disk, the second one is refused, others are done."""

    moods = 0

    def apply(self, request: tuple[Any, ...]) -> Any:
        if request[0] != "mood":
            return super().apply(request)
        self.moods += 1
        if self.moods == 3:  # together with the others, alone, and with the room that was made
            raise ValueError("no")
        if self.moods < 3:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorname = "SQLITE_FULL"
            raise error


def test_a_request_that_is_refused_once_there_is_room_refuses_no_other(path: Path) -> None:
    store = SqliteStorage(path, NOTEBOOK, Moody)
    first, *others = store.run([("mood",), ("mood",), ("put", b"a", b"1")])
    assert isinstance(first, Failed) and str(first.error) == "no"
    assert others == [Done(None), Done(None)]
    store.close()


def test_a_store_goes_on_when_the_disk_has_room_again(store: SqliteStorage) -> None:
    with small_files():
        fill(store)
    assert store.run([("put", b"more", b"x" * 100_000)]) == [Done(None)]
    assert store.run([("get", b"more")]) == [Done(b"x" * 100_000)]


def test_files_are_for_their_owner_alone(path: Path, store: SqliteStorage) -> None:
    store.run([("put", b"a", b"1")])
    modes = {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {0o600}


def test_two_processes_do_not_open_one_store(path: Path, store: SqliteStorage) -> None:
    script = f"""if True:
        from pathlib import Path
        from tests.live.storage.notebook import NOTEBOOK, Notebook
        from wirelake.live.storage.sqlite import SqliteStorage
        SqliteStorage(Path({str(path)!r}), NOTEBOOK, Notebook)"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"{path}: process {os.getpid()} uses this store; stop it, or choose another path" in done.stderr
    with pytest.raises(StorageError, match="uses this store"):
        open_notebook(path)


def test_a_guest_reads_and_writes_while_the_store_is_in_use(path: Path, store: SqliteStorage) -> None:
    store.run([("put", b"a", b"1")])
    guest = open_notebook(path, is_guest=True)
    assert guest.run([("get", b"a"), ("put", b"b", b"2")]) == [Done(b"1"), Done(None)]
    guest.close()
    assert store.run([("get", b"b")]) == [Done(b"2")]


def test_at_once_nothing_is_done_while_somebody_else_writes(path: Path, store: SqliteStorage) -> None:
    assert store.run_at_once([("put", b"a", b"1")]) == [Done(None)]
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.run_at_once([("put", b"a", b"2")]) is None
        other.execute("ROLLBACK")
    assert store.run_at_once([("get", b"a"), ("spoil", b"a", ValueError("no"))])[0] == Done(b"1")  # type: ignore[index]
    assert store.run([("get", b"a")]) == [Done(b"1")]
    assert store._connection.execute("PRAGMA busy_timeout").fetchone() == (10_000,)


def test_a_guest_makes_no_store(path: Path) -> None:
    with pytest.raises(StorageError, match="no such store"):
        open_notebook(path, is_guest=True)
    assert not path.exists()


def test_a_store_of_another_version_is_refused(path: Path) -> None:
    open_notebook(path).close()
    newer = Schema(NOTEBOOK.name, NOTEBOOK.space, NOTEBOOK.number, 2, NOTEBOOK.statements)
    with pytest.raises(StorageError, match="a store of version 1, and this wirelake reads version 2"):
        open_notebook(path, newer)
    open_notebook(path).close()


def test_a_store_of_another_protocol_is_refused(path: Path) -> None:
    open_notebook(path).close()
    with pytest.raises(StorageError, match="not a store of letters"):
        open_notebook(path, Schema("letters", "letters", 7, 1, ()))


def test_another_file_is_refused_and_stays_as_it_is(path: Path) -> None:
    path.write_text("this is not a database\n" * 100)
    with pytest.raises(StorageError, match="cannot be used as a store: file is not a database"):
        open_notebook(path)
    assert path.read_text() == "this is not a database\n" * 100


def test_a_store_that_was_being_made_when_the_process_died_is_made_again(path: Path) -> None:
    path.touch()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    open_notebook(path).close()


def test_a_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"missing.*No such file or directory"):
        open_notebook(tmp_path / "missing" / "notes.db")


def test_memory_has_the_same_rules() -> None:
    memory = SqliteMemory(NOTEBOOK, Notebook)
    assert memory.run([("put", b"a", b"1"), ("get", b"a")]) == [Done(None), Done(b"1")]
    assert memory.apply(("get", b"a")) == b"1"
    memory.close()
