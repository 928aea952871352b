from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest

from tests.live.postgres import PostgresServer
from tests.live.storage.notebook import NOTEBOOK, Notebook
from wirelake.live.core.effects import Done, Failed
from wirelake.live.storage.database import Schema, StorageError
from wirelake.live.storage.postgresql import PostgresStorage, show_url


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_database()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStorage]:
    store = PostgresStorage(url, NOTEBOOK, Notebook)
    yield store
    store.close()


def test_a_batch_is_one_transaction(store: PostgresStorage) -> None:
    results = store.run([("put", b"a", b"1\0\xff"), ("get", b"a"), ("put", b"b", b"2")])
    assert results == [Done(None), Done(b"1\0\xff"), Done(None)]
    assert store.counts == {"batches": 1, "requests": 3, "fsyncs": 1}


def test_a_batch_that_promises_nothing_does_not_wait_for_the_disk(store: PostgresStorage) -> None:
    assert store.run([("jot", b"a", b"1"), ("get", b"a")]) == [Done(None), Done(b"1")]
    assert store.counts["fsyncs"] == 0


def test_a_request_that_fails_has_changed_nothing_and_others_are_done(store: PostgresStorage) -> None:
    store.run([("put", b"a", b"1")])
    error = ValueError("no")
    results = store.run([("put", b"b", b"2"), ("spoil", b"a", error), ("put", b"c", b"3")])
    assert results == [Done(None), Failed(error), Done(None)]
    assert store.run([("get", b"a"), ("get", b"b"), ("get", b"c")]) == [Done(b"1"), Done(b"2"), Done(b"3")]


def test_a_full_disk_refuses_the_rest_of_the_batch(store: PostgresStorage) -> None:
    error = psycopg.errors.DiskFull("could not extend file")
    results = store.run([("put", b"a", b"1"), ("spoil", b"a", error), ("put", b"c", b"3")])
    assert results == [Done(None), Failed(error), Failed(error)]
    assert store.run([("get", b"a"), ("get", b"c")]) == [Done(b"1"), Done(None)]


def test_others_see_what_is_done(url: str, store: PostgresStorage) -> None:
    store.run([("put", b"a", b"1")])
    other = PostgresStorage(url, NOTEBOOK, Notebook)
    assert other.run([("get", b"a")]) == [Done(b"1")]
    other.close()


def test_processes_that_get_in_each_others_way_both_go_on(url: str) -> None:
    """Two batches change the same notes in the opposite order: a deadlock, which one of them repeats."""
    stores = [PostgresStorage(url, NOTEBOOK, Notebook) for _ in range(2)]
    keys = [b"%d" % n for n in range(50)]
    faults: list[object] = []

    def work(store: PostgresStorage, order: list[bytes]) -> None:
        for _ in range(5):
            faults.extend(result for result in store.run([("put", key, b"x") for key in order]) if result != Done(None))

    threads = [
        threading.Thread(target=work, args=(store, order))
        for store, order in zip(stores, (keys, keys[::-1]), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    for store in stores:
        store.close()


def test_a_lost_connection_is_an_exception(url: str, store: PostgresStorage) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with pytest.raises(psycopg.OperationalError):
        store.run([("put", b"a", b"1")])


def test_a_store_of_another_version_is_refused(url: str, store: PostgresStorage) -> None:
    newer = Schema(NOTEBOOK.name, NOTEBOOK.space, NOTEBOOK.number, 2, NOTEBOOK.statements)
    with pytest.raises(StorageError, match="a store of version 1, and this wirelake reads version 2"):
        PostgresStorage(url, newer, Notebook)


def test_a_guest_makes_no_tables(url: str) -> None:
    with pytest.raises(StorageError, match="no store of notebooks is there"):
        PostgresStorage(url, NOTEBOOK, Notebook, is_guest=True)


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    url = "postgresql://me:secret@localhost/x?host=/nowhere"
    with pytest.raises(StorageError, match="cannot connect") as caught:
        PostgresStorage(url, NOTEBOOK, Notebook)
    assert "secret" not in str(caught.value)
    assert show_url(url) == "postgresql://me:…@localhost/x?host=/nowhere"
