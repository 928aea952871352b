"""What a broker keeps comes back, in memory and after its process is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.live.core.effects import Done
from wirelake.live.dsa.store import SCHEMA, Append, BrokerRules, DropQueue, Forget, Kept, Load, OpenQueue, Put, Remove
from wirelake.live.storage.database import StorageError
from wirelake.live.storage.sqlite import SqliteMemory, SqliteStorage

REQUESTS = [
    Put("role", "x", {"level": 64}),
    Put("role", "y", {"level": 16}),
    Put("role", "x", {"level": 32, "rules": {"a/b": 16}}),
    Remove("role", "y"),
    OpenQueue("q1", {"path": "a"}),
    OpenQueue("q2", {"path": "b"}),
    *(Append("q1", number, 5.0, [(b"", b"\x00\x00"), (b"\x02", bytes((number,)))]) for number in (1, 2, 3)),
    Append("q2", 1, 6.0, [(b"", b"x")]),
    Forget("q1", 2),
    DropQueue("q2"),
]


def check(kept: Kept) -> None:
    assert kept.facts == [("role", "x", {"level": 32, "rules": {"a/b": 16}})]
    (queue,) = kept.queues
    assert queue.record == {"path": "a"}
    assert queue.updates == [(number, 5.0, [(b"", b"\x00\x00"), (b"\x02", bytes((number,)))]) for number in (2, 3)]


def test_what_is_kept_in_memory_comes_back() -> None:
    memory = SqliteMemory(SCHEMA, BrokerRules)
    for request in REQUESTS:
        assert memory.apply(request) is None
    check(memory.apply(Load()))


def test_what_is_kept_in_a_file_comes_back_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "dsa.db"
    storage = SqliteStorage(path, SCHEMA, BrokerRules)
    assert storage.run(REQUESTS) == [Done()] * len(REQUESTS)
    with pytest.raises(StorageError, match="uses this store"):
        SqliteStorage(path, SCHEMA, BrokerRules)
    storage.close()
    assert path.stat().st_mode & 0o777 == 0o600
    storage = SqliteStorage(path, SCHEMA, BrokerRules)
    (done,) = storage.run([Load()])
    assert isinstance(done, Done)
    check(done.value)
    storage.close()


def test_the_text_of_a_request_shows_no_fact() -> None:
    assert "secret" not in repr(Put("token", "name", {"token": "secret"}))
