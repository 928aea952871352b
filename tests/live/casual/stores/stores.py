"""Stores of every kind for tests, and short ways to ask them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests.live.postgres import PostgresServer
from wirelake.live.casual.store import NIL, Dequeue, Enqueue, Enqueued, QueueMessage, QueueSettings, StoredMessage
from wirelake.live.casual.stores import MemoryStore, open_store
from wirelake.live.core.effects import Done
from wirelake.protocols.casual import Xid

KINDS = ("memory", "sqlite", "postgresql")
QUEUES = (
    QueueSettings("a", retries=1),
    QueueSettings("b", retries=2, retry_seconds=5),
    QueueSettings("small", limit=2),
)
SECOND = 1_000_000_000
T = 1_000_000 * SECOND


def xid(number: int, bqual: bytes = b"b") -> Xid:
    return Xid(42, b"gtrid%d" % number, bqual)


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Asking:
    """A store of which one thing at a time is asked. ``reopen`` is a restart of its process."""

    def __init__(self, open_it: Callable[[], Any]) -> None:
        self._open = open_it
        self.store = open_it()

    def __call__(self, request: Any) -> Any:
        (result,) = self.store.run([request])
        assert isinstance(result, Done), result
        return result.value

    def reopen(self) -> None:
        if not isinstance(self.store, MemoryStore):
            self.store.close()
            self.store = self._open()

    def put(self, number: int, now: int = T, queue: str = "a", branch: Xid | None = None, **fields: Any) -> bytes:
        enqueued: Enqueued = self(Enqueue(queue, QueueMessage(uuid(number), **fields), branch, now))
        return enqueued.id

    def take(
        self, now: int = T + 1, queue: str = "a", branch: Xid | None = None, id: bytes = NIL, properties: str = ""
    ) -> StoredMessage | None:
        message: StoredMessage | None = self(Dequeue(queue, id, properties, branch, now)).message
        return message

    def take_all(self, now: int = T + SECOND, queue: str = "a") -> list[int]:
        taken = []
        while (message := self.take(now, queue)) is not None:
            taken.append(int.from_bytes(message.id, "big"))
        return taken


def opener(kind: str, path: Path, url: str | None, queues: Sequence[QueueSettings] = QUEUES) -> Callable[[], Any]:
    where = {"memory": ":memory:", "sqlite": path / "store.db", "postgresql": url}[kind]
    assert where is not None
    return lambda: open_store(where, queues)


def wipe(url: str) -> None:
    """Empty a database that a store was in."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS wirelake_casual CASCADE")


def database_for(kind: str, server: Callable[[], PostgresServer]) -> str | None:
    return server().new_database() if kind == "postgresql" else None
