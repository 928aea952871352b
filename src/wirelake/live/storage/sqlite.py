"""A store in a file: SQLite in WAL mode with ``synchronous=FULL``, one process, one writer.

A batch is one transaction and one sync. A batch that promises nothing is written without a sync: the next sync takes it
along, because the log of SQLite is written in order.

The file stops growing while the disk still has room for the log. So a full disk refuses what has to be added, and what
is there can be taken out: that needs the log alone.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.effects import Done, Failed
from .batch import Batches, Occupied, Verdict
from .checkpoints import PAGES, Checkpoints
from .database import MakeRules, Row, Rules, Schema, StorageError
from .lock import Lock

WORDS = {"blob": "BLOB", "empty": "x''", "serial": "INTEGER PRIMARY KEY", "for_update": "", "skip_locked": ""}
LEAST_VERSION = (3, 35, 0)
"""The first that has RETURNING."""
CACHE_KIB = 65_536
PAGE_BYTES = 4_096
MOST_LOG_PAGES = 8 * PAGES
"""Of the log of a store that has plenty of room: then at the latest the writer itself moves it into the file."""
RESERVED_BYTES = 2 * PAGES * PAGE_BYTES
"""Of the disk, for the log: half of it until the log moves into the file, half for the batch that is written then."""
RESERVED_SHARE = 8
"""A small disk keeps this part of itself."""
PLENTY_BYTES = 1 << 30
"""With so much room more the file may grow as it likes."""
LOOK_SECONDS = 0.05
"""A disk with twice as much is not looked at again before: nobody fills it in that time."""
MOST_PAGES = 4_294_967_294
BUSY_SECONDS = 10.0
"""How long a batch waits for an administrator who writes at the same time."""
FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE")
"""What a write is told that finds no room: the others at a quota or a limit of the size of files."""

# What is neither a number nor a text has to be adapted. Without this, each of the bytes that are bound raises and drops
# an AttributeError, for two per cent of the time that a message takes.
sqlite3.register_adapter(bytes, bytes)


class SqliteDatabase:
    """A connection, as rules and batches see it."""

    is_shared = False
    owner = 1

    def __init__(self, connection: sqlite3.Connection, *, path: Path | None = None, is_guest: bool = False) -> None:
        self.connection = connection
        self._room = self.checkpoints = None
        if path is not None and not is_guest:
            self._room, self.checkpoints = Room(path), Checkpoints(path)
        # A guest must not keep the hub waiting while it only reads; if it writes and somebody else did, it runs again.
        self._begin = "BEGIN" if is_guest else "BEGIN IMMEDIATE"
        self._queries: dict[str, str] = {}
        self._is_synced = True
        self.waits = True

    def execute(self, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
        return self.connection.execute(self._translate(sql), arguments).fetchall()

    def find(self, sql: str, arguments: Sequence[Any] = ()) -> Row | None:
        row: Row | None = self.connection.execute(self._translate(sql), arguments).fetchone()
        return row

    def dead_owners(self) -> None:
        return None

    def _translate(self, sql: str) -> str:
        known = self._queries.get(sql)
        if known is None:
            known = self._queries[sql] = sql.format_map(WORDS)
        return known

    def begin(self, *, is_durable: bool, is_new: bool = True) -> None:
        if is_durable != self._is_synced:
            self.connection.execute(f"PRAGMA synchronous={'FULL' if is_durable else 'NORMAL'}")
            self._is_synced = is_durable
        if self._room is not None:
            self._room.keep(self.connection, is_new=is_new)
        if self.checkpoints is not None:
            self.checkpoints.begin(self.connection)
        if self.waits:
            self.connection.execute(self._begin)
        else:
            self._begin_at_once()

    def _begin_at_once(self) -> None:
        """Begin unless somebody else writes. Whatever else has to be begun in this batch waits."""
        self.connection.execute("PRAGMA busy_timeout=0").fetchall()
        try:
            self.connection.execute(self._begin)
            self.waits = True
        except sqlite3.Error as error:
            if self.judge(error) is Verdict.AGAIN:
                raise Occupied from None
            raise
        finally:
            self.connection.execute(f"PRAGMA busy_timeout={round(BUSY_SECONDS * 1_000)}").fetchall()

    def commit(self) -> None:
        self.connection.execute("COMMIT")
        if self.checkpoints is not None:
            self.checkpoints.end(self.connection)

    def rollback(self) -> None:
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def judge(self, error: Exception) -> Verdict:
        if not isinstance(error, sqlite3.Error):
            return Verdict.REFUSED
        name = getattr(error, "sqlite_errorname", "")
        if name in FULL:
            return Verdict.FULL
        if name.startswith("SQLITE_BUSY"):
            return Verdict.AGAIN
        if name.startswith("SQLITE_CONSTRAINT"):
            return Verdict.REFUSED
        return Verdict.FATAL

    def make_room(self) -> None:
        """Move the log into the file, so that it begins anew, where it has its room already."""
        try:
            self.connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        except sqlite3.Error as error:
            if self.judge(error) is Verdict.FATAL:
                raise

    def make(self, make_rules: MakeRules) -> Rules:
        """Return the rules, which may have something to write at their beginning."""
        self.begin(is_durable=True)
        rules = make_rules(self)
        self.commit()
        return rules

    def create(self, schema: Schema) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        for statement in schema.statements:
            self.connection.execute(statement.format_map(WORDS))
        self.connection.execute(f"PRAGMA application_id={schema.number}")
        self.connection.execute(f"PRAGMA user_version={schema.version}")
        self.connection.execute("COMMIT")


class Room:
    """What the disk of a file has left, as limits of its connection."""

    def __init__(self, path: Path) -> None:
        self._path = os.path.abspath(path)
        self._log = f"{self._path}-wal"
        self._set: dict[str, int] = {}
        self._roomy_until = 0.0

    def keep(self, connection: sqlite3.Connection, *, is_new: bool) -> None:
        """See to it that the file leaves room for the log, and that the log begins anew in time. What is not new may
        have some of that room.
        """
        most, now = _most_file_bytes(), time.monotonic()
        if most == sys.maxsize and now < self._roomy_until:
            return
        try:
            disk, size, log_size = os.statvfs(self._path), os.stat(self._path).st_size, _size_of(self._log)
        except (OSError, AttributeError):  # not on Windows
            return
        reserved = min(RESERVED_BYTES, disk.f_blocks * disk.f_frsize // RESERVED_SHARE)
        log = min(reserved, most) // 2 // PAGE_BYTES
        kept = log * PAGE_BYTES // RESERVED_SHARE if is_new else 0
        room = disk.f_bavail * disk.f_frsize + log_size - reserved - kept
        is_roomy = room > 2 * PLENTY_BYTES and most == sys.maxsize
        self._roomy_until = now + LOOK_SECONDS if is_roomy else 0.0
        pages = MOST_PAGES if room > PLENTY_BYTES else (size + max(room, 0)) // PAGE_BYTES
        if disk.f_blocks:
            self._tell(connection, "wal_autocheckpoint", MOST_LOG_PAGES if is_roomy else min(log, PAGES))
            self._tell(connection, "max_page_count", max(min(pages, (most - kept) // PAGE_BYTES), 1))

    def _tell(self, connection: sqlite3.Connection, pragma: str, value: int) -> None:
        if self._set.get(pragma) != value:
            self._set[pragma] = value
            connection.execute(f"PRAGMA {pragma}={value}").fetchall()


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _most_file_bytes() -> int:
    """Return how large this process may make a file."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


class SqliteStorage:
    """A store in a file, for one process. ``is_guest``: for an administrator, who may come while a hub uses the store,
    and does not make one.
    """

    is_shared = False

    def __init__(self, path: Path | str, schema: Schema, make_rules: MakeRules, *, is_guest: bool = False) -> None:
        self.path = Path(path)
        if is_guest and not self.path.is_file():
            raise StorageError(f"{self.path}: no such store")
        self._lock = None if is_guest else Lock(self.path)
        try:
            self._connection = _open(self.path, schema)
            self._database = SqliteDatabase(self._connection, path=self.path, is_guest=is_guest)
            self.rules = self._database.make(make_rules)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self._batches = Batches(self._database, self.rules)

    @property
    def counts(self) -> Counter[str]:
        return self._batches.counts

    def run(self, requests: Sequence[Any]) -> list[Done | Failed]:
        return self._batches.run(requests)

    def run_at_once(self, requests: Sequence[Any]) -> list[Done | Failed] | None:
        return self._batches.run_at_once(requests)

    def close(self) -> None:
        if self._database.checkpoints is not None:
            self._database.checkpoints.close()
        self._connection.close()
        if self._lock is not None:
            self._lock.release()


class SqliteMemory:
    """A store that lives as long as its process: for tests, and where nothing has to be kept. ``apply`` carries out one
    request, so that it also is the state of a simulated disk, which replays what it has synced.
    """

    is_shared = False

    def __init__(self, schema: Schema, make_rules: MakeRules) -> None:
        self._connection = _connect(":memory:")
        database = SqliteDatabase(self._connection)
        database.create(schema)
        self.rules = database.make(make_rules)
        self._batches = Batches(database, self.rules)

    @property
    def counts(self) -> Counter[str]:
        return self._batches.counts

    def apply(self, request: Any) -> Any:
        return self.rules.apply(request)

    def run(self, requests: Sequence[Any]) -> list[Done | Failed]:
        return self._batches.run(requests)

    def run_at_once(self, requests: Sequence[Any]) -> list[Done | Failed] | None:
        return self._batches.run_at_once(requests)

    def close(self) -> None:
        self._connection.close()


def _connect(path: str) -> sqlite3.Connection:
    """Batches run in the thread of the event loop or in one of their own, one at a time."""
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _open(path: Path, schema: Schema) -> sqlite3.Connection:
    if sqlite3.sqlite_version_info < LEAST_VERSION:
        raise StorageError(f"{path}: SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
    _make_file(path)
    try:
        connection = _connect(os.fspath(path))
    except sqlite3.Error as error:
        raise StorageError(f"{path}: cannot be opened: {error}") from None
    try:
        is_new = connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if not is_new:
            _check(path, connection, schema)
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise StorageError(f"{path}: the file system cannot hold this store: SQLite has no WAL here, only {mode}")
        for pragma in (
            "synchronous=FULL",
            f"cache_size=-{CACHE_KIB}",
            f"wal_autocheckpoint={PAGES}",
            "temp_store=MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if is_new:
            SqliteDatabase(connection).create(schema)
    except sqlite3.Error as error:
        connection.close()
        raise StorageError(f"{path}: cannot be used as a store: {error}") from None
    except StorageError:
        connection.close()
        raise
    return connection


def _make_file(path: Path) -> None:
    """Make the file if it is missing, for its owner alone. One that is there is not opened: to close it again would
    take away the locks that SQLite may have on it in this process.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise StorageError(f"{path}: cannot be made: {error.strerror}") from None
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _check(path: Path, connection: sqlite3.Connection, schema: Schema) -> None:
    number = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if number != schema.number:
        raise StorageError(f"{path}: not a store of {schema.name}; choose another path")
    if version != schema.version:
        raise StorageError(
            f"{path}: a store of version {version}, and this wirelake reads version {schema.version};"
            f" use the wirelake that wrote it, or choose another path"
        )
