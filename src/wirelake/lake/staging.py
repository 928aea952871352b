"""Writing on the side: files that nobody sees until a commit names them.

A task of a run makes an *attempt*. Each attempt writes into a directory of its own, so that a failed attempt, a
repeated one and two that run at the same time never meet. Which attempt counted is known to whoever collects the
lists of staged files: what is in no list is rubbish, and the next start deletes it.

    with staging.attempt(task) as attempt:                       # in a worker
        attempt.table("silver/casual", schema).write(batch)
        files = attempt.close()                                  # -> to the driver, which commits them
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import LakeError
from .store import Store, errors

if TYPE_CHECKING:
    from .arrow_files import StreamWriter
    from .table_writer import TableWriter

STAGING = "_staging"

MANIFEST = pa.schema(
    [
        ("table", pa.string()),
        ("partition", pa.string()),
        ("staged", pa.string()),
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("min_ts", pa.int64()),
        ("max_ts", pa.int64()),
    ]
)
"""Staged files as rows, the way they travel from workers to the driver."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that is written, and where it goes if it is committed. Times are microseconds since 1970."""

    table: str
    """``silver/casual`` and the like; ``_carry`` for carry; empty for what only lives as long as the run."""
    partition: str
    """``date=2024-05-01``; empty if the table has no dates."""
    staged: str
    """The path in the lake where it lies now."""
    name: str
    """The name that it gets."""
    rows: int
    bytes: int
    min_ts: int | None = None
    max_ts: int | None = None

    @property
    def path(self) -> str:
        """The path in the lake that it gets."""
        return "/".join(part for part in (self.table, self.partition, self.name) if part)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> StagedFile:
        return cls(**{f.name: row.get(f.name) for f in fields(cls)})  # type: ignore[arg-type]


def manifest(files: Iterable[StagedFile]) -> pa.RecordBatch:
    """Staged files as one Arrow batch of schema ``MANIFEST``."""
    return pa.RecordBatch.from_pylist([file.to_json() for file in files], schema=MANIFEST)


def from_manifest(rows: pa.RecordBatch | pa.Table | Iterable[dict[str, Any]]) -> list[StagedFile]:
    """The inverse; also takes rows as dictionaries. Columns that are no part of a manifest are ignored."""
    if isinstance(rows, (pa.RecordBatch, pa.Table)):
        rows = rows.to_pylist()
    return [StagedFile.from_json(row) for row in rows]


@dataclass(frozen=True)
class Staging:
    """Where the tasks of one commit may write. Small and picklable: it goes to the workers."""

    store: Store
    run: str
    """The directory below ``_staging``."""
    number: int
    """The commit that this is for; part of the names of files."""
    durable: bool = True
    """Whether files are on the disk, not only in its cache, before they are committed."""

    @property
    def directory(self) -> str:
        return f"{STAGING}/{self.run}"

    def attempt(self, task: str | int) -> Attempt:
        """One try at a task. ``task`` is part of file names: the same for every try, and another for every task."""
        return Attempt(self, f"{task:05d}" if isinstance(task, int) else task)

    def stage_bytes(self, task: str | int, name: str, data: bytes) -> StagedFile:
        """Stages a small file of any content, such as carry that the driver holds."""
        with self.attempt(task) as attempt:
            file = attempt.stage_bytes(name, data)
            attempt.close()
        return file


class Attempt:
    """One try at a task: opens writers, closes them all, or deletes what it wrote.

    As a context it aborts when an exception passes, and when it was left without ``close``.
    """

    def __init__(self, staging: Staging, task: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", task):
            raise ValueError(f"a task is named by letters, digits, '_', '.' and '-': {task!r}")
        self.staging = staging
        self.task = task
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
        """The ``TableWriter`` of this table; made at the first call, with the options of that call."""
        from .table_writer import TableWriter

        if table not in self._tables:
            self._tables[table] = TableWriter(self, table, schema, **options)
        return self._tables[table]

    def stream(self, name: str, schema: pa.Schema, **options: Any) -> StreamWriter:
        """The ``StreamWriter`` of this name: Arrow batches for a later stage of the run, or carry."""
        from .arrow_files import StreamWriter

        if name not in self._streams:
            self._streams[name] = StreamWriter(self, name, schema)
        return self._streams[name]

    def stage_bytes(self, name: str, data: bytes) -> StagedFile:
        """Stages a small file of any content."""
        staged = f"{self.directory}/{name}"
        self.store.write(staged, data)
        self.written(staged)
        return StagedFile("", "", staged, name, 0, len(data))

    def close(self) -> list[StagedFile]:
        """Closes every writer; the files of tables, in a settled order. Streams and bytes were returned already."""
        if self._files is None:
            for stream in self._streams.values():
                stream.close()
            self._files = [file for table in sorted(self._tables) for file in self._tables[table].close()]
            self._settle()
        return self._files

    def abort(self) -> None:
        """Deletes what was written. A failure to do so is no matter: the next start does it."""
        for table in self._tables.values():
            table.abort()
        for stream in self._streams.values():
            stream.abort()
        with suppress(LakeError):
            self._settle()
        self.store.delete_tree(self.directory)
        self._files = []

    def written(self, staged: str) -> None:
        """Told by writers about a closed file. It goes to the disk while the task works on."""
        if self.staging.durable and self.store.is_local:
            if self._disk is None:
                self._disk = ThreadPoolExecutor(1, thread_name_prefix="wirelake-sync")
            self._syncing.append(self._disk.submit(self.store.sync, [staged]))

    def _settle(self) -> None:
        if self._disk is not None:
            self._disk.shutdown(wait=True)
            self._disk = None
        waiting, self._syncing = self._syncing, []
        for done in waiting:
            done.result()

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None or self._files is None:
            self.abort()


class Sink:
    """A file that is being written; counts its bytes, and says a failure in one line."""

    def __init__(self, attempt: Attempt, staged: str) -> None:
        self._attempt = attempt
        self.staged = staged
        self.shown = attempt.store.show(staged)
        self.stream = attempt.store.open_output(staged)

    def close(self, durable: bool = True) -> int:
        """The number of bytes that were written."""
        with self.failing():
            size = int(self.stream.tell())
            self.stream.close()
        if durable:
            self._attempt.written(self.staged)
        return size

    def abort(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self.stream.close()

    def failing(self) -> Any:
        return errors(self.shown, "cannot be written")
