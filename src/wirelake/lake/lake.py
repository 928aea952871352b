"""The lake: tables of Parquet files, and the commits that made them.

    lake = Lake.open("lake")
    with lake.writing() as run:                              # one writer at a time; finishes what a crash left
        files = decode(run.staging)                          # in workers: see staging.py
        run.commit(files, inputs=inputs, carry=carry, facts={"messages": 12})
    lake.dataset("silver/casual").to_table()

A commit is one record in ``_commits``, published when all its files lie in ``_staging``. Then the files move to their
places, and the files that the commit replaced are deleted. If the process or the machine dies, the next ``writing``
repeats what the last record says and deletes staged files that no record names.

Guarantee: after a kill at any moment, and on a local file system with ``durable=True`` also after a loss of power (as
far as the disk honours fsync), the lake is that of the last commit, whole. An engine that lists directories sees files
of a commit appear one by one while they move (milliseconds), and a replaced file beside its successor until it is
deleted; when a run has ended, or the next one has begun, the directories are exact.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from .. import __version__
from ..errors import LakeError
from .commit_records import Kept, State, read_new
from .commits import Run, recover
from .inputs import Input
from .lock import locked
from .staging import StagedFile
from .store import Store, errors
from .validation import Count, Text, Values, printable, shown

ABOUT = "_lake.json"
MAX_ABOUT_BYTES = 1 << 20
FORMAT = 2
"""Of the files of a lake. Since 2 every table has a column ``sensor``."""
_TEMPORARY_ABOUT = re.compile(r"_lake\.json\.[0-9a-f]{32}\.tmp")
DATES = ds.partitioning(pa.schema([("date", pa.date32())]), flavor="hive")


@dataclass(frozen=True)
class TableSummary:
    files: int
    rows: int
    bytes: int
    min_ts: int | None
    max_ts: int | None


@dataclass(frozen=True)
class Summary:
    """The content of a lake in numbers."""

    commits: int
    last_at: str | None
    """Time of the last commit, ISO 8601."""
    inputs: int
    tables: dict[str, TableSummary]
    facts: dict[str, Any]
    """The facts of all commits: numbers are added up, of anything else the newest counts."""


class Lake:
    """An open lake. Read it directly; write through ``writing``."""

    def __init__(self, store: Store, settings: Mapping[str, Any], *, durable: bool = True) -> None:
        """Use ``Lake.open``."""
        self.store = store
        self.settings = dict(settings)
        self.durable = durable
        self._state = State()
        self._is_snapshot = False

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str],
        create: bool = True,
        *,
        settings: Mapping[str, Any] | None = None,
        filesystem: fs.FileSystem | None = None,
        durable: bool = True,
    ) -> Lake:
        """Open a lake: a local path, a URI that pyarrow knows, or a path in ``filesystem``.

        With ``create``, a place that does not exist or is empty becomes a lake with these ``settings`` (JSON values);
        an existing lake keeps its own, see ``lake.settings``. ``durable=False`` writes without fsync: a kill is still
        harmless, a loss of power is not.
        """
        store = replace(Store.at(place, filesystem), durable=durable)
        match store.kind(""):
            case "file":
                raise LakeError(store.shown, "is a file, not a lake")
            case "" if not create:
                raise LakeError(store.shown, "there is no lake")
        if store.kind(ABOUT) != "file":
            _create(store, settings or {}, create)
        return cls(store, _settings(store), durable=durable)

    @property
    def path(self) -> str:
        """The place as it was given."""
        return self.store.shown

    # --- reading

    def refresh(self) -> State:
        """Return the sum of all commit records; read only new ones."""
        return self._state if self._is_snapshot else read_new(self.store, self._state)

    def snapshot(self) -> Lake:
        """Return the lake as it is now, for reading: without what is committed later.

        A file that a later commit replaces is deleted all the same; reading it then fails.
        """
        state = self.refresh()
        snapshot = Lake(self.store, self.settings)
        snapshot._is_snapshot = True
        files = {table: dict(listed) for table, listed in state.files.items()}
        inputs, carry = dict(state.inputs), dict(state.carry)
        labels, kept = dict(state.labels), dict(state.kept)
        snapshot._state = replace(state, files=files, inputs=inputs, carry=carry, labels=labels, kept=kept)
        return snapshot

    def number(self) -> int:
        """Return the number of the last commit; 0 before the first."""
        return self.refresh().number

    def inputs(self) -> dict[str, Input]:
        """Return the captures that were read, by their keys, each as its last commit left it."""
        return dict(self.refresh().inputs)

    def carry(self) -> dict[str, str]:
        """Return the carry for the next commit: name -> path in the lake."""
        return dict(self.refresh().carry)

    def kept(self) -> dict[str, list[Kept]]:
        """Return the carry of earlier commits that is kept, by the key of its sensor, oldest first."""
        return dict(self.refresh().kept)

    def labels(self) -> dict[str, Any]:
        """Return the newest value of each label."""
        return dict(self.refresh().labels)

    def tables(self) -> list[str]:
        """Return the tables that have files."""
        return sorted(table for table, files in self.refresh().files.items() if files)

    def files(self, table: str) -> list[StagedFile]:
        """Return the committed files of a table; ``.path`` is where each lies in the lake."""
        return list(self.refresh().files.get(table, {}).values())

    def dataset(self, table: str, schema: pa.Schema | None = None) -> ds.Dataset:
        """Return a table for pyarrow, with its column ``date``: only the committed files.

        Without ``schema`` it is that of the oldest and the newest file, joined. A table without rows needs one.
        """
        paths = self.places(table)
        if not paths:
            if schema is None:
                raise LakeError(self.store.show(table), "has no rows")
            return ds.dataset(schema.append(pa.field("date", pa.date32())).empty_table())
        with errors(self.store.show(table), "cannot be read"):
            if schema is None:
                schema = pa.unify_schemas([self._schema(path) for path in dict.fromkeys((paths[-1], paths[0]))])
            if paths[0].count("/date="):
                schema = schema.append(pa.field("date", pa.date32()))
            return ds.dataset(paths, schema, "parquet", self.store.files, DATES)

    def places(self, table: str) -> list[str]:
        """Return the current paths of a table's committed files, as their file system names them.

        Files of an unfinished last commit may still be staged.
        """
        files = self.files(table)
        last = self._state.last
        staged = {file.path: file.staged for file in (last.files if last is not None else ()) if file.table == table}
        unmoved = self.store.sizes(staged.values())
        paths = [staged[file.path] if staged.get(file.path) in unmoved else file.path for file in files]
        return self.store.full_paths(paths)

    def summary(self) -> Summary:
        state = self.refresh()
        tables = {table: _table_summary(state.files[table].values()) for table in self.tables()}
        at = state.last.at if state.last is not None else None
        return Summary(state.number, at, len(state.inputs), tables, state.facts)

    def _schema(self, place: str) -> pa.Schema:
        import pyarrow.parquet as pq

        return pq.read_schema(place, filesystem=self.store.files).remove_metadata()

    # --- writing

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """Lock the lake, finish or remove what a crash left, and yield a run that can commit.

        Raises LakeError if another run is writing. The end of the run deletes what was staged and not committed.
        """
        if self._is_snapshot:
            raise LakeError(self.path, "a snapshot is for reading")
        with locked(self.store):
            recover(self)
            run = Run(self)
            try:
                yield run
            finally:
                run.close()


class _About(msgspec.Struct):
    """The content of ``_lake.json``."""

    format: Count
    settings: Values
    wirelake: Text = "unknown"


def _create(store: Store, settings: Mapping[str, Any], create: bool) -> None:
    """Make a lake of an empty place. A crash halfway leaves a temporary file at most, which does not count."""
    others = [name for name in store.names("") if not _TEMPORARY_ABOUT.fullmatch(name)]
    if others:
        raise LakeError(store.shown, f"is not empty and not a lake (it has {shown(others[0])}, but no {ABOUT!r})")
    if not create:
        raise LakeError(store.shown, "there is no lake")
    about = _About(FORMAT, dict(settings), __version__)
    store.publish(ABOUT, msgspec.json.format(msgspec.json.encode(about)))
    store.sync_root()
    for name in store.names(""):
        if _TEMPORARY_ABOUT.fullmatch(name):
            store.delete(name)


def _settings(store: Store) -> Values:
    """Return the settings of a lake; raise LakeError if it does not describe one that this version can read."""
    try:
        about = msgspec.json.decode(store.read(ABOUT, MAX_ABOUT_BYTES), type=_About)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LakeError(store.show(ABOUT), f"does not describe a lake: {error}; restore it from a backup") from error
    if about.format < FORMAT:
        reason = f"has format {about.format}, of an older wirelake; ingest the captures into a new lake"
        raise LakeError(store.shown, reason)
    if about.format > FORMAT:
        maker = printable(about.wirelake)
        reason = f"has format {about.format}, of a newer wirelake ({maker}); this one knows up to {FORMAT}"
        raise LakeError(store.shown, reason)
    return about.settings


def _table_summary(files: Iterable[StagedFile]) -> TableSummary:
    listed = list(files)
    return TableSummary(
        len(listed),
        sum(file.rows for file in listed),
        sum(file.bytes for file in listed),
        min((file.min_ts for file in listed if file.min_ts is not None), default=None),
        max((file.max_ts for file in listed if file.max_ts is not None), default=None),
    )
