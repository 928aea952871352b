"""A store in a PostgreSQL database, which several processes share.

Each process has a number of its own and holds an advisory lock on it: the server lets go of that when the connection
ends, so everybody can see who died, and needs no clock for it. Tables are in a namespace of the protocol.

A batch is one transaction; the commit is the sync. A batch that promises nothing is committed without waiting for the
disk of the server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import errors

from ..core.effects import Done, Failed
from .batch import Batches, Verdict
from .database import MakeRules, Row, Rules, Schema, StorageError

WORDS = {
    "blob": "BYTEA",
    "empty": "''",
    "serial": "BIGSERIAL PRIMARY KEY",
    "for_update": "FOR UPDATE",
    "skip_locked": "FOR UPDATE SKIP LOCKED",
}
CONNECT_SECONDS = 10
LOCK_SECONDS = 10
"""How long a batch waits for a row that another process is about to change; then it runs again."""
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 20_000}
"""A server that is gone is noticed within half a minute."""
AGAIN = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)
FULL = (errors.DiskFull, errors.OutOfMemory, errors.ConfigurationLimitExceeded)
REFUSED = (psycopg.DataError, psycopg.IntegrityError, errors.ProgramLimitExceeded)


class PostgresDatabase:
    """A connection, as rules and batches see it."""

    is_shared = True
    waits = True

    def __init__(self, connection: psycopg.Connection[Row], schema: Schema, owner: int) -> None:
        self.owner = owner
        self._connection = connection
        self._schema = schema
        self._cursor = connection.cursor(binary=True)
        self._queries: dict[str, str] = {}

    def execute(self, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
        self._cursor.execute(self._translate(sql), arguments)
        return self._cursor.fetchall() if self._cursor.description is not None else []

    def find(self, sql: str, arguments: Sequence[Any] = ()) -> Row | None:
        self._cursor.execute(self._translate(sql), arguments)
        return self._cursor.fetchone()

    def dead_owners(self) -> list[int]:
        """Return those whose lock we get: it is ours until this transaction ends, and then they are nobody any more."""
        dead = [
            owner
            for (owner,) in self.execute("SELECT number FROM owners WHERE number <> ? ORDER BY number", (self.owner,))
            if self.execute("SELECT pg_try_advisory_xact_lock(?::int, ?::int)", (self._schema.number, owner))
            == [(True,)]
        ]
        for owner in dead:
            self.execute("DELETE FROM owners WHERE number = ?", (owner,))
        return dead

    def _translate(self, sql: str) -> str:
        known = self._queries.get(sql)
        if known is None:
            known = self._queries[sql] = sql.format_map(WORDS).replace("?", "%s")
        return known

    def begin(self, *, is_durable: bool, is_new: bool = True) -> None:
        self._connection.execute("BEGIN" if is_durable else "BEGIN; SET LOCAL synchronous_commit = off")

    def commit(self) -> None:
        self._cursor.execute("COMMIT")

    def rollback(self) -> None:
        if not self._connection.closed:
            self._cursor.execute("ROLLBACK")

    def judge(self, error: Exception) -> Verdict:
        if self._connection.closed:
            return Verdict.FATAL
        if isinstance(error, AGAIN):
            return Verdict.AGAIN
        if isinstance(error, FULL):
            return Verdict.FULL
        if isinstance(error, REFUSED) or not isinstance(error, psycopg.Error):
            return Verdict.REFUSED
        return Verdict.FATAL

    def make_room(self) -> None:
        """The server sees to its disk itself."""


class PostgresStorage:
    """A store in a database. ``is_guest``: for an administrator, who owns no work and makes no tables."""

    is_shared = True

    def __init__(self, url: str, schema: Schema, make_rules: MakeRules, *, is_guest: bool = False) -> None:
        self.shown = show_url(url)
        try:
            self._connection = _connect(url)
        except psycopg.Error as error:
            raise StorageError(f"{self.shown}: cannot connect: {_reason(error)}") from None
        try:
            with self._connection.transaction():
                _check(self._connection, self.shown, schema, may_make=not is_guest)
                owner = 0 if is_guest else _join(self._connection, schema)
                database = PostgresDatabase(self._connection, schema, owner)
                self.rules: Rules = make_rules(database)
        except psycopg.Error as error:
            self._connection.close()
            raise StorageError(f"{self.shown}: cannot be used as a store: {_reason(error)}") from None
        except BaseException:
            self._connection.close()
            raise
        self._batches = Batches(database, self.rules)

    @property
    def counts(self) -> Counter[str]:
        return self._batches.counts

    def run(self, requests: Sequence[Any]) -> list[Done | Failed]:
        return self._batches.run(requests)

    def run_at_once(self, requests: Sequence[Any]) -> None:
        """The server takes its time."""

    def close(self) -> None:
        self._connection.close()


def show_url(url: str) -> str:
    """Return the URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":…@", 1)).geturl()


def _connect(url: str) -> psycopg.Connection[Row]:
    connection = psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_SECONDS, **KEEPALIVE)  # type: ignore[arg-type]
    connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'")
    connection.execute("SET default_transaction_isolation = 'read committed'")
    connection.execute("SET synchronous_commit = on")
    return connection


def _check(connection: psycopg.Connection[Row], shown: str, schema: Schema, *, may_make: bool) -> None:
    """See to it that the tables are there, and of our version. One process at a time does so."""
    connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", (schema.number,))
    is_there = connection.execute("SELECT to_regnamespace(%s) IS NOT NULL", (schema.space,)).fetchone() == (True,)
    if not is_there and not may_make:
        raise StorageError(f"{shown}: no store of {schema.name} is there")
    if not is_there:
        connection.execute(f"CREATE SCHEMA {schema.space}")
    connection.execute(f"SET search_path TO {schema.space}")
    if not is_there:
        connection.execute("CREATE TABLE version (number INT NOT NULL)")
        connection.execute("INSERT INTO version VALUES (%s)", (schema.version,))
        connection.execute("CREATE TABLE owners (number SERIAL PRIMARY KEY)")
        for statement in schema.statements:
            connection.execute(statement.format_map(WORDS))
    row = connection.execute("SELECT number FROM version").fetchone()
    if row != (schema.version,):
        raise StorageError(
            f"{shown}: a store of version {row[0] if row else '?'}, and this wirelake reads version {schema.version};"
            f" use the wirelake that wrote it, or choose another database"
        )


def _join(connection: psycopg.Connection[Row], schema: Schema) -> int:
    """Return a number for this process, with its lock, which nobody else can have had."""
    row = connection.execute("INSERT INTO owners DEFAULT VALUES RETURNING number").fetchone()
    assert row is not None
    owner = int(row[0])
    connection.execute("SELECT pg_advisory_lock(%s::int, %s::int)", (schema.number, owner))
    return owner


def _reason(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
