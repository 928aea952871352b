"""What a store in a file promises when the disk is full."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.live.casual.stores.stores import QUEUES, SECOND, Asking, T, uuid, xid
from wirelake.live.casual.store import Commit, Enqueue, Load, Prepare, QueueMessage
from wirelake.live.casual.stores import SqliteStore
from wirelake.live.core.effects import Done, Failed


@contextmanager
def full_disk(at_bytes: int = 400_000) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(store: SqliteStore) -> list[int]:
    """Enqueue until the disk takes no more; return what was acknowledged."""
    acknowledged = []
    for start in range(0, 1_000, 10):
        numbers = range(start, start + 10)
        results = store.run([Enqueue("a", QueueMessage(uuid(n), payload=bytes(9_000)), None, T + n) for n in numbers])
        acknowledged += [n for n, result in zip(numbers, results, strict=True) if isinstance(result, Done)]
        if isinstance(results[-1], Failed):
            return acknowledged
    raise AssertionError("the disk is not full")


def test_a_full_disk_refuses_enqueues_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", QUEUES)
    with full_disk():
        acknowledged = fill(store)
    store.close()
    again = Asking(lambda: SqliteStore(tmp_path / "store.db", QUEUES))
    assert len(acknowledged) > 10
    assert again.take_all(T + SECOND) == acknowledged
    again.store.close()


def test_what_was_prepared_before_the_disk_was_full_can_be_committed_when_there_is_room(tmp_path: Path) -> None:
    ask = Asking(lambda: SqliteStore(tmp_path / "store.db", QUEUES))
    ask.put(5_000, branch=xid(1))
    ask(Prepare(xid(1), (), T))
    with full_disk():
        acknowledged = fill(ask.store)
    ask.reopen()
    (record,) = ask(Load(T)).branches
    assert record.state == "prepared"
    ask(Commit(xid(1), (), 0, T))
    assert sorted(ask.take_all(T + SECOND)) == [*acknowledged, 5_000]
    ask.store.close()
