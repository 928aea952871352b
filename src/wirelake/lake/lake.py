"""The lake: tables of Parquet files, and the commits that made them.

    lake = Lake.open("lake")
    with lake.writing() as run:                              # one writer at a time; finishes what a crash left
        files = decode(run.staging)                          # in workers: see staging.py
        run.commit(files, inputs=inputs, carry=carry, facts={"messages": 12})
    lake.dataset("silver/casual").to_table()

A commit is one record in ``_commits``, published when all its files are written. Then the directories of the tables
get the new files and lose those that the commit replaced, which snapshots still find for a grace period
(``layout.py``). If the process or the machine dies, the next ``writing`` repeats what the last record says and deletes
files that no record names. Every few hundred commits a checkpoint has the whole state, so that opening a lake does not
read its history.

Guarantee: after a kill at any moment, and on a local file system with ``durable=True`` also after a loss of power (as
far as the disk honours fsync), the lake is that of the last commit, whole. An engine that lists directories sees files
of a commit appear one by one (milliseconds), and a replaced file beside its successor until it has left; when a run has
ended, or the next one has begun, the directories are exact.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from .. import __version__
from ..errors import LakeError
from .commit_records import Kept
from .commits import Run, recover
from .history import parse_when, read_new, state_at
from .inputs import Input
from .layout import hidden, places, places_of_past
from .lock import locked
from .moving_files import MovingFiles
from .staging import StagedFile
from .state import State
from .store import Store, errors
from .sweep import GRACE_SECONDS
from .table_files import TableSummary, joined
from .validation import Count, Text, Values, printable, shown

ABOUT = "_lake.json"
MAX_ABOUT_BYTES = 1 << 20
FORMAT = 3
"""Of the files of a lake. Since 2 every table has a column ``sensor``; since 3 there are checkpoints, and snapshots
find removed files. A lake of format 2 can be read; the first run that writes to it makes it one of format 3.
"""
OLDEST_FORMAT = 2
_TEMPORARY_ABOUT = re.compile(r"_lake\.json\.[0-9a-f]{32}\.tmp")
DATES = ds.partitioning(pa.schema([("date", pa.date32())]), flavor="hive")


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
        self.durable = durable
        self._made_with = dict(settings)
        self._state = State()
        self._is_snapshot = False
        self._is_past = False

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
        about = _read_about(store)
        links = about.links and store.is_local  # a copy in another store has none
        return cls(replace(store, links=links), about.settings, durable=durable)

    @property
    def path(self) -> str:
        """The place as it was given."""
        return self.store.shown

    @property
    def settings(self) -> dict[str, Any]:
        """What the lake was made with, and what commits have changed since."""
        return {**self._made_with, **self.refresh().settings}

    @property
    def grace(self) -> timedelta:
        """How long snapshots find a file that a commit has removed."""
        return timedelta(seconds=float(self.settings.get("grace_seconds", GRACE_SECONDS)))

    # --- reading

    def refresh(self) -> State:
        """Return the sum of all commit records; read only new ones."""
        if not self._is_snapshot:
            self._state = read_new(self.store, self._state)
        return self._state

    def snapshot(self) -> Lake:
        """Return the lake as it is now, for reading: without what is committed later.

        Its files can be read for the grace period, also if later commits replace them.
        """
        snapshot = self._at(self.refresh().copy())
        snapshot._is_past = self._is_past
        return snapshot

    def at(self, when: int | datetime | str) -> Lake:
        """Return the lake as it was after a commit, or at a time, for reading. A text is one or the other.

        A lake reaches back for the grace period, and further where no sweep has come by. LakeError says what is gone: a
        commit, or a file when its table is read.
        """
        past = self._at(state_at(self.store, parse_when(when) if isinstance(when, str) else when))
        past._is_past = True
        return past

    def _at(self, state: State) -> Lake:
        snapshot = Lake(self.store, self._made_with, durable=self.durable)
        snapshot._is_snapshot, snapshot._state = True, state
        return snapshot

    def number(self) -> int:
        """Return the number of the last commit; 0 before the first."""
        return self.refresh().number

    def inputs(self) -> dict[str, Input]:
        """Return the captures that were read, by their keys, each as its last commit left it."""
        return dict(self.refresh().inputs.by_key())

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
        return sorted(table for table, files in self.refresh().files.items() if len(files))

    def files(self, table: str) -> list[StagedFile]:
        """Return the committed files of a table; ``.path`` is where each lies in the lake."""
        return list(self.refresh().files_of(table).by_path().values())

    def dataset(self, table: str, schema: pa.Schema | None = None) -> ds.Dataset:
        """Return a table for pyarrow, with its column ``date``: only the committed files.

        Without ``schema`` it has the columns of all files: a table may gain some. A table without rows needs one.
        """
        paths = self.places(table)
        if not paths:
            if schema is None:
                raise LakeError(self.store.show(table), "has no rows")
            return ds.dataset(schema.append(pa.field("date", pa.date32())).empty_table())
        with errors(self.store.show(table), "cannot be read"):
            if schema is None:
                schema = self.schema(table)
            if paths[0].count("/date="):
                schema = schema.append(pa.field("date", pa.date32()))
            return ds.dataset(paths, schema, "parquet", self._files(), DATES)

    def _files(self) -> fs.FileSystem:
        """Return a file system that finds the files of this snapshot, also if a commit moves them meanwhile."""
        if self.store.links:
            return self.store.files
        last = self._state.last
        staged = {file.path: file.staged for file in (last.files if last is not None else ())}
        return fs.PyFileSystem(MovingFiles(self.store, staged))

    def places(self, table: str, since_us: int | None = None) -> list[str]:
        """Return the paths of a table's committed files, as their file system names them.

        With ``since_us``: only of those that may have rows of that time or later.
        """
        if since_us is None:
            return self.store.full_paths(self.paths(table))
        return self._resolved(
            [file.path for file in self.files(table) if file.max_ts is None or file.max_ts >= since_us]
        )

    def paths(self, table: str) -> list[str]:
        """Return the paths of a table's committed files in the lake, where snapshots find them."""
        return self._located(self.refresh().files_of(table).paths())

    def _located(self, paths: list[str]) -> list[str]:
        if self._is_past:
            return places_of_past(self.store, paths)
        return places(self.store, paths, self._state.last)

    def _resolved(self, paths: list[str]) -> list[str]:
        return self.store.full_paths(self._located(paths))

    def summary(self) -> Summary:
        state = self.refresh()
        tables = {table: state.files[table].summary() for table in self.tables()}
        at = state.last.at if state.last is not None else None
        return Summary(state.number, at, len(state.inputs), tables, state.facts)

    def read_file(self, path: str, columns: list[str] | None = None) -> pa.Table:
        """Return the rows of one committed file, without its date."""
        import pyarrow.parquet as pq

        self.refresh()
        (place,) = self._resolved([path])
        with errors(self.store.show(path), "cannot be read"):
            return pq.ParquetFile(place, filesystem=self.store.files).read(columns)

    def schema(self, table: str) -> pa.Schema:
        """Return the columns of a table that has files, without its date: those of all of them together."""
        import pyarrow.parquet as pq

        samples = self._resolved(self.refresh().files_of(table).samples())
        with errors(self.store.show(table), "cannot be read"):
            return joined([pq.read_schema(place, filesystem=self.store.files) for place in samples])

    # --- writing

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """Lock the lake, finish or remove what a crash left, and yield a run that can commit.

        Raises LakeError if another run is writing. The end of the run deletes what was staged and not committed.
        """
        if self._is_snapshot:
            raise LakeError(self.path, "a snapshot is for reading")
        with locked(self.store):
            self._upgrade()
            recover(self)
            run = Run(self)
            try:
                yield run
            finally:
                run.close()

    def _upgrade(self) -> None:
        """Make a lake of an older format one of this: from now on its files have the names that snapshots use."""
        about = _read_about(self.store)
        if about.format == FORMAT:
            return
        links = self.store.can_link()
        if links:
            paths = [path for files in self.refresh().files.values() for path in files.paths()]
            there = self.store.sizes(paths)  # those of an unfinished last commit are still staged
            self.store.link_all((path, hidden(path)) for path in there)
            last = self._state.last
            unmoved = [file for file in (last.files if last is not None else ()) if file.path not in there]
            self.store.link_all((file.staged, hidden(file.path)) for file in unmoved)
        _write_about(self.store, _About(FORMAT, about.settings, __version__, links))
        self.store = replace(self.store, links=links)


class _About(msgspec.Struct):
    """The content of ``_lake.json``."""

    format: Count
    settings: Values
    wirelake: Text = "unknown"
    links: bool = False
    """Whether files have a second name, see ``layout.py``."""


def _create(store: Store, settings: Mapping[str, Any], create: bool) -> None:
    """Make a lake of an empty place. A crash halfway leaves a temporary file at most, which does not count."""
    others = [name for name in store.names("") if not _TEMPORARY_ABOUT.fullmatch(name)]
    if others:
        raise LakeError(store.shown, f"is not empty and not a lake (it has {shown(others[0])}, but no {ABOUT!r})")
    if not create:
        raise LakeError(store.shown, "there is no lake")
    _write_about(store, _About(FORMAT, dict(settings), __version__, store.can_link()))
    store.sync_root()
    for name in store.names(""):
        if _TEMPORARY_ABOUT.fullmatch(name):
            store.delete(name)


def _write_about(store: Store, about: _About) -> None:
    store.publish(ABOUT, msgspec.json.format(msgspec.json.encode(about)))


def _read_about(store: Store) -> _About:
    """Return what a lake says about itself; raise LakeError if this version cannot read it."""
    try:
        about = msgspec.json.decode(store.read(ABOUT, MAX_ABOUT_BYTES), type=_About)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LakeError(store.show(ABOUT), f"does not describe a lake: {error}; restore it from a backup") from error
    if about.format < OLDEST_FORMAT:
        reason = f"has format {about.format}, of an older wirelake; ingest the captures into a new lake"
        raise LakeError(store.shown, reason)
    if about.format > FORMAT:
        maker = printable(about.wirelake)
        reason = f"has format {about.format}, of a newer wirelake ({maker}); this one knows up to {FORMAT}"
        raise LakeError(store.shown, reason)
    return about
