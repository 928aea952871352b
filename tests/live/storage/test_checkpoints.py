"""The log of a store is moved into its file beside the writer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.live.storage.notebook import NOTEBOOK, Notebook
from wirelake.live.core.effects import Done
from wirelake.live.storage import checkpoints, sqlite
from wirelake.live.storage.sqlite import PAGE_BYTES, SqliteStorage

NOTES = 600
TEXT = bytes(2_000)


def key_of(number: int) -> bytes:
    return b"%d" % number


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkpoints, "PAGES", 100)
    monkeypatch.setattr(sqlite, "PLENTY_BYTES", 0)  # wherever the tests run, so that the writer moves nothing itself
    return tmp_path / "notes.db"


def write(store: SqliteStorage, *, waits: bool) -> None:
    for number in range(NOTES):
        assert store.run([("put", key_of(number), TEXT)]) == [Done(None)]
        if waits and store._database.checkpoints is not None:
            store._database.checkpoints.close()


def test_the_log_begins_anew_when_it_was_moved(path: Path) -> None:
    store = SqliteStorage(path, NOTEBOOK, Notebook)
    write(store, waits=True)
    log = Path(f"{path}-wal").stat().st_size
    assert NOTES * len(TEXT) < path.stat().st_size + log
    assert log < 200 * PAGE_BYTES
    store.close()


def test_nothing_is_lost_while_the_log_is_moved_and_others_read(path: Path) -> None:
    store = SqliteStorage(path, NOTEBOOK, Notebook)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM notes").fetchone() == (0,)
        write(store, waits=False)
        assert reader.execute("SELECT count(*) FROM notes").fetchone() == (0,)
    write(store, waits=False)
    store.close()
    again = SqliteStorage(path, NOTEBOOK, Notebook)
    assert again.run([("get", key_of(number)) for number in range(NOTES)]) == [Done(TEXT)] * NOTES
    again.close()
