"""The store of a domain in PostgreSQL; loaded only where one is asked for, because it needs psycopg."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ...storage.postgresql import PostgresStorage
from ..store import QueueSettings
from .rules import DomainRules
from .schema import SCHEMA


class PostgresStore(PostgresStorage):
    """A store in a database that several hubs share. ``is_guest``: for an administrator."""

    def __init__(self, url: str, queues: Iterable[QueueSettings] = (), *, is_guest: bool = False) -> None:
        super().__init__(url, SCHEMA, partial(DomainRules, settings=tuple(queues)), is_guest=is_guest)
