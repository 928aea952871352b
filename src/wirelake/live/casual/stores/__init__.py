"""The store of a domain: in a file, in a PostgreSQL database that several hubs share, or in memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...storage.database import StorageError
from ...storage.sqlite import SqliteMemory, SqliteStorage
from ..store import QueueSettings
from .rules import DomainRules
from .schema import SCHEMA

if TYPE_CHECKING:
    from .postgresql import PostgresStore

__all__ = ["MEMORY", "MemoryStore", "SqliteStore", "StorageError", "open_store"]

MEMORY = ":memory:"


class MemoryStore(SqliteMemory):
    """A store that lives as long as its process; also the state of a simulated disk."""

    def __init__(self, queues: Iterable[QueueSettings] = ()) -> None:
        super().__init__(SCHEMA, partial(DomainRules, settings=tuple(queues)))


class SqliteStore(SqliteStorage):
    """A store in a file. ``is_guest``: for an administrator, who may come while a hub uses the store."""

    def __init__(self, path: Path | str, queues: Iterable[QueueSettings] = (), *, is_guest: bool = False) -> None:
        super().__init__(path, SCHEMA, partial(DomainRules, settings=tuple(queues)), is_guest=is_guest)


def open_store(
    where: str | Path, queues: Iterable[QueueSettings] = (), *, is_guest: bool = False
) -> MemoryStore | SqliteStore | PostgresStore:
    """Return the store at a path, at a URL of PostgreSQL, or in memory. StorageError says why not."""
    text = str(where)
    if text == MEMORY:
        return MemoryStore(queues)
    if text.startswith(("postgresql://", "postgres://")):
        try:
            from .postgresql import PostgresStore
        except ImportError as error:
            raise StorageError(
                f"a store in PostgreSQL needs psycopg: pip install 'wirelake[postgres]' ({error})"
            ) from None
        return PostgresStore(text, queues, is_guest=is_guest)
    if "://" in text:
        raise StorageError(
            f"{text}: a store is a path or postgresql://…; what a domain offers, wirelake discover tells"
        )
    return SqliteStore(Path(where), queues, is_guest=is_guest)
