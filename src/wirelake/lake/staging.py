"""Staged files: written into ``_staging``, and no part of the lake until a commit names them.

A task of a run makes an *attempt*. Each attempt writes into a directory of its own, so that a failed attempt, a
repeated one and two concurrent ones never meet. The driver collects the lists of staged files and so decides which
attempt counts; the next start deletes files that are in no list.

    with staging.attempt(task) as attempt:                       # in a worker
        attempt.table("silver/casual", schema).write(batch)
        files = attempt.close()                                  # -> to the driver, which commits them
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from ..errors import LakeError
from .store import Store, errors
from .validation import STAGING, Count, Int64, Text, is_name

if TYPE_CHECKING:
    from .arrow_files import StreamWriter
    from .table_writer import TableWriter


class StagedFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is written, and where it goes if it is committed. Times are microseconds since 1970."""

    table: Text
    """``silver/casual`` and the like; ``_carry`` for carry; empty for a file that lives only as long as the run."""
    partition: Text
    """``date=2024-05-01``; empty if the table has no dates."""
    staged: Text
    """The path in the lake where it lies now."""
    name: Text
    """The name that it gets."""
    rows: Count
    bytes: Count
    min_ts: Int64 | None = None
    max_ts: Int64 | None = None
    sensor: Text = ""
    """The sensor whose rows it holds: a file holds those of one."""
    columns: Text = ""
    """The same for two files with the same columns of the same types; empty for a file of an older version."""

    @property
    def path(self) -> str:
        """The path in the lake that it gets."""
        return join(self.table, self.partition, self.name)

    @property
    def commit(self) -> int:
        """The number of the commit that added it to its table."""
        return int(self.name.split("-")[1])


def join(*parts: str) -> str:
    return "/".join(part for part in parts if part)


@dataclass(frozen=True)
class Staging:
    """Where the tasks of one commit write. Small and picklable: it travels to workers."""

    store: Store
    run: str
    """The directory below ``_staging``."""
    number: int
    """The commit that this is for; part of the names of files."""
    durable: bool = True
    """Whether files are synced to the disk before they are committed."""

    @property
    def directory(self) -> str:
        return f"{STAGING}/{self.run}"

    def attempt(self, task: str | int, sensor: str = "") -> Attempt:
        """Begin an attempt at a task. ``task`` is part of file names: the same for every attempt, unique per task.

        With a ``sensor``, every row that the attempt writes to a table gets a first column with its name.
        """
        return Attempt(self, f"{task:05d}" if isinstance(task, int) else task, sensor)

    def stage_bytes(self, task: str | int, name: str, data: bytes) -> StagedFile:
        """Stage a small file of any content, such as carry of the driver."""
        with self.attempt(task) as attempt:
            file = attempt.stage_bytes(name, data)
            attempt.close()
        return file


class Attempt:
    """One attempt at a task: opens writers, closes them all, or deletes what it wrote.

    As a context it aborts on an exception, and if ``close`` was not called.
    """

    def __init__(self, staging: Staging, task: str, sensor: str = "") -> None:
        if not is_name(task):
            raise ValueError(f"a task has a name of up to 100 letters, digits, '_', '.' and '-', not {task!r}")
        self.staging = staging
        self.task = task
        self.sensor = sensor
        self.directory = f"{staging.directory}/{task}-{uuid.uuid4().hex[:12]}"
        self._tables: dict[str, TableWriter] = {}
        self._streams: dict[str, StreamWriter] = {}
        self._disk: ThreadPoolExecutor | None = None
        self._syncing: list[Future[None]] = []
        self._files: list[StagedFile] | None = None

    @property
    def store(self) -> Store:
        return self.staging.store

    def table(self, table: str, schema: pa.Schema, **options: Any) -> TableWriter:
        """Return the ``TableWriter`` of this table; the first call makes it, with its options."""
        from .table_writer import TableWriter

        if table not in self._tables:
            self._tables[table] = TableWriter(self, table, schema, **options)
        return self._tables[table]

    def stream(self, name: str, schema: pa.Schema) -> StreamWriter:
        """Return the ``StreamWriter`` of this name: Arrow batches for a later stage of the run, or carry."""
        from .arrow_files import StreamWriter

        if name not in self._streams:
            self._streams[name] = StreamWriter(self, name, schema)
        return self._streams[name]

    def stage_bytes(self, name: str, data: bytes) -> StagedFile:
        """Stage a small file of any content."""
        staged = f"{self.directory}/{name}"
        self.store.write(staged, data)
        self.sync_later(staged)
        return StagedFile("", "", staged, name, 0, len(data))

    def close(self) -> list[StagedFile]:
        """Close every writer and return the files of tables, in a fixed order.

        Files of streams and bytes were returned when they were staged.
        """
        if self._files is None:
            for stream in self._streams.values():
                stream.close()
            self._files = [file for table in sorted(self._tables) for file in self._tables[table].close()]
            self._wait_for_sync()
        return self._files

    def abort(self) -> None:
        """Delete what was written. If that fails, the next start does it."""
        for table in self._tables.values():
            table.abort()
        for stream in self._streams.values():
            stream.abort()
        with suppress(LakeError):
            self._wait_for_sync()
        self.store.delete_tree(self.directory)
        self._files = []

    def sync_later(self, staged: str) -> None:
        """Sync a closed file to the disk while the task goes on."""
        if self.staging.durable and self.store.is_local:
            if self._disk is None:
                self._disk = ThreadPoolExecutor(1, thread_name_prefix="wirelake-sync")
            self._syncing.append(self._disk.submit(self.store.sync, [staged]))

    def _wait_for_sync(self) -> None:
        if self._disk is not None:
            self._disk.shutdown(wait=True)
            self._disk = None
        syncing, self._syncing = self._syncing, []
        for future in syncing:
            future.result()

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None or self._files is None:
            self.abort()


class Sink:
    """A file that an Arrow or Parquet writer fills. Counts its bytes and reports a failure in one line."""

    def __init__(self, attempt: Attempt, staged: str, writer_of: Callable[[pa.NativeFile], Any]) -> None:
        self._attempt = attempt
        self.staged = staged
        self._stream = attempt.store.open_output(staged)
        with self._failing():
            self._writer = writer_of(self._stream)

    def write(self, *rows: Any) -> None:
        with self._failing():
            self._writer.write(*rows)

    def close(self, durable: bool = True) -> int:
        """Close the file and return its size."""
        with self._failing():
            self._writer.close()
            size = int(self._stream.tell())
            self._stream.close()
        if durable:
            self._attempt.sync_later(self.staged)
        return size

    def abort(self) -> None:
        for file in (self._writer, self._stream):
            with suppress(OSError, pa.ArrowException):
                file.close()
        with suppress(AttributeError):
            self._writer.is_open = False  # else a Parquet writer would fail again when it is garbage collected

    def _failing(self) -> Any:
        return errors(self._attempt.store.show(self.staged), "cannot be written")
