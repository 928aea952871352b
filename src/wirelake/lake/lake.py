"""The lake: tables of Parquet files, and the commits that made them.

    lake = Lake.open("lake")
    with lake.writing() as run:                              # one writer at a time; finishes what a crash left
        files = work(run.staging)                            # in workers: see staging.py
        run.commit(files, inputs=inputs, carry=carry, facts={"messages": 12})
    lake.dataset("silver/casual").to_table()

A commit is one record in ``_commits``, put there whole when all its files lie in ``_staging``. Then the files are moved
to their places, and what the commit replaced is deleted. If the process or the machine dies, the next ``writing`` does
again what the last record says; what no record names is deleted.

What is guaranteed: after a kill at any moment, and on a local file system with ``durable=True`` after a loss of power
too (as far as the disk keeps its word about fsync), the lake is that of the last commit, whole. An engine that lists
directories sees a commit's files appear one by one while they are moved (milliseconds), and a replaced file beside its
successor until it is deleted; when a run has ended, or the next one has begun, the directories are exact.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from .. import __version__
from ..errors import LakeError
from .commits import COMMITS, Record, State, read_on, record_path
from .inputs import Input
from .lock import locked
from .staging import STAGING, StagedFile, Staging
from .store import Store, errors

ABOUT = "_lake.json"
CARRY = "_carry"
FORMAT = 1
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
    """What a lake holds."""

    commits: int
    last_at: str | None
    """When the last commit was made, ISO 8601."""
    inputs: int
    tables: dict[str, TableSummary]
    facts: dict[str, Any]
    """The facts of all commits: numbers added up, of anything else the newest."""


class Lake:
    """A lake that is open. Reading needs nothing more; writing goes through ``writing``."""

    def __init__(self, store: Store, settings: Mapping[str, Any], *, durable: bool = True) -> None:
        """Use ``Lake.open``."""
        self.store = store
        self.settings = dict(settings)
        self.durable = durable
        self._state = State()

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
        """Opens a lake: a local path, a URI that pyarrow knows, or a path in ``filesystem``.

        With ``create``, a place that does not exist or is empty becomes a lake with these ``settings`` (JSON values);
        a lake that exists keeps its own, see ``lake.settings``. ``durable=False`` writes without fsync: a kill is still
        harmless, a loss of power is not.
        """
        store = Store.at(place, filesystem)
        match store.kind(""):
            case "file":
                raise LakeError(store.shown, "is a file, not a lake")
            case "" if not create:
                raise LakeError(store.shown, "there is no lake")
            case _:
                pass
        if store.kind(ABOUT) != "file":
            _create(store, settings or {}, create)
        return cls(store, _about(store), durable=durable)

    @property
    def path(self) -> str:
        """The place as it was given."""
        return self.store.shown

    # --- reading

    def refresh(self) -> State:
        """The sum of all commit records; only new ones are read."""
        return read_on(self.store, self._state)

    def snapshot(self) -> Lake:
        """The lake as it is now, for reading: what is committed later is not in it.

        A file that a later commit replaces is gone all the same, and whoever reads it then is told so.
        """
        state = self.refresh()
        made = _Snapshot(self.store, self.settings)
        files = {table: dict(listed) for table, listed in state.files.items()}
        made._state = replace(state, files=files, inputs=dict(state.inputs))
        made._state.carry, made._state.labels = dict(state.carry), dict(state.labels)
        return made

    def number(self) -> int:
        """The number of the last commit; 0 before the first."""
        return self.refresh().number

    def inputs(self) -> dict[str, Input]:
        """The captures that were read, by path, each as its last commit left it."""
        return dict(self.refresh().inputs)

    def carry(self) -> dict[str, str]:
        """What the last commit handed on to the next one: name -> path in the lake (``read_ipc``, ``read_bytes``)."""
        return dict(self.refresh().carry)

    def labels(self) -> dict[str, Any]:
        """The newest value of each label."""
        return dict(self.refresh().labels)

    def tables(self) -> list[str]:
        """The tables that have files."""
        return sorted(table for table, files in self.refresh().files.items() if files)

    def files(self, table: str) -> list[StagedFile]:
        """The committed files of a table; ``.path`` is where each lies in the lake, ``.rows`` … what it holds."""
        return list(self.refresh().files.get(table, {}).values())

    def dataset(self, table: str, schema: pa.Schema | None = None) -> ds.Dataset:
        """A table for pyarrow, with its column ``date``: the committed files, and no others.

        Without ``schema`` it is that of the oldest and the newest file, joined. A table without rows needs one.
        """
        paths = self._places(table)
        if not paths:
            if schema is None:
                raise LakeError(self.store.show(table), "has no rows")
            return ds.dataset(schema.append(pa.field("date", pa.date32())).empty_table())
        with errors(self.store.show(table), "cannot be read"):
            if schema is None:
                schema = pa.unify_schemas([self._schema(path) for path in dict.fromkeys((paths[-1], paths[0]))])
            if paths[0].count("/date="):
                schema = schema.append(pa.field("date", pa.date32()))
            full = [self.store.full(path) for path in paths]
            return ds.dataset(full, schema, "parquet", self.store.files, DATES)

    def places(self, table: str) -> list[str]:
        """Where the committed files of a table lie now, as their file system names them."""
        return [self.store.full(path) for path in self._places(table)]

    def summary(self) -> Summary:
        state = self.refresh()
        tables = {table: _table_summary(state.files[table].values()) for table in self.tables()}
        at = state.last.at if state.last is not None else None
        return Summary(state.number, at, len(state.inputs), tables, state.facts)

    def read_bytes(self, path: str | StagedFile) -> bytes:
        """A small file of the lake."""
        return self.store.read(path if isinstance(path, str) else path.staged)

    def _places(self, table: str) -> list[str]:
        """Where the files of a table are now. Of an unfinished last commit some may not be moved yet."""
        files = self.files(table)
        last = self._state.last
        unsure = {file.path: file.staged for file in (last.files if last is not None else ()) if file.table == table}
        still = self.store.sizes(unsure.values())
        return [unsure[file.path] if unsure.get(file.path) in still else file.path for file in files]

    def _schema(self, path: str) -> pa.Schema:
        import pyarrow.parquet as pq

        return pq.read_schema(self.store.full(path), filesystem=self.store.files).remove_metadata()

    # --- writing

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """Locks the lake, finishes or clears away what a crash left, and gives a run that can commit.

        Raises LakeError if another run is writing. What was staged and not committed is deleted at the end.
        """
        with locked(self.store):
            self._recover()
            run = Run(self)
            try:
                yield run
            finally:
                run.close()

    def _recover(self) -> None:
        """Only the last record can be unfinished: no other is written before its moves are done."""
        last = self.refresh().last
        if last is not None:
            self._finish(last)
        for name in self.store.names(COMMITS):
            if name.endswith(".tmp"):
                self.store.delete(f"{COMMITS}/{name}")
        self.store.delete_tree(STAGING)

    def _finish(self, record: Record) -> None:
        """Moves and deletes what a record says; what is done already is left."""
        moves = record.moves()
        staged = self.store.sizes(source for source, _ in moves)
        gone = [target for source, target in moves if source not in staged]
        lost = set(gone) - set(self.store.sizes(gone))
        if lost:
            raise LakeError(self.store.show(min(lost)), f"is missing, though commit {record.number} has it")
        self.store.move_all((source, target) for source, target in moves if source in staged)
        self.store.delete_all(record.deletions())


class _Snapshot(Lake):
    """A lake that does not look for new commits."""

    def refresh(self) -> State:
        return self._state

    def writing(self) -> NoReturn:
        raise LakeError(self.path, "a snapshot is for reading")


class Run:
    """The right to write, and the next commit. From ``lake.writing()``."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.number = 0
        """The number that the next commit gets."""
        self.staging: Staging
        """Where tasks of the next commit write. Picklable; another one after each commit."""
        self._is_in_doubt = False
        self._next()

    def commit(
        self,
        files: Iterable[StagedFile] = (),
        *,
        removed: Iterable[StagedFile | str] = (),
        inputs: Iterable[Input] = (),
        carry: Mapping[str, StagedFile | None] | None = None,
        facts: Mapping[str, Any] | None = None,
        labels: Mapping[str, Any] | None = None,
    ) -> int:
        """Makes these files part of the lake, all or none. Returns the number of the commit.

        ``removed``: committed files (as ``lake.files`` gives them, or their paths) that these replace. ``inputs``: what
        was read, each with the position it was read to. ``carry``: staged files for the next commit by name; those
        of other names stay, None drops one. ``facts``: counts, which ``summary`` adds up over commits. ``labels``:
        small values of which the newest counts, such as the number of a streaming batch.

        After an exception nothing is committed, unless it came while files were moved: then the commit is recorded, and
        the next ``writing`` finishes it. This run ends with either.
        """
        if self._is_in_doubt:
            raise LakeError(self.lake.path, f"commit {self.number} failed in this run; start another")
        record = self._record(list(files), list(removed), list(inputs), dict(carry or {}), facts or {}, labels or {})
        store = self.lake.store
        self._check(record)
        if self.lake.durable:  # workers saw to the files of tables
            store.sync(file.staged for file in record.carry.values() if file is not None)
            store.sync_directories(source for source, _ in record.moves())
        self._is_in_doubt = True
        store.publish(record_path(record.number), record.to_bytes())
        self.lake._finish(record)
        self._is_in_doubt = False
        self.lake._state.add(record)
        store.delete_tree(self.staging.directory)
        self._next()
        return record.number

    def close(self) -> None:
        """Deletes what is staged, unless a commit may have it."""
        if not self._is_in_doubt:
            self.lake.store.delete_tree(STAGING)

    def _next(self) -> None:
        self.number = self.lake._state.number + 1
        run = f"{self.number:08d}-{uuid.uuid4().hex[:12]}"
        self.staging = Staging(self.lake.store, run, self.number, self.lake.durable)

    def _record(
        self,
        files: list[StagedFile],
        removed: list[StagedFile | str],
        inputs: list[Input],
        carry: dict[str, StagedFile | None],
        facts: Mapping[str, Any],
        labels: Mapping[str, Any],
    ) -> Record:
        state = self.lake._state
        return Record(
            number=self.number,
            run=self.staging.run,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            wirelake=__version__,
            files=files,
            removed=[file if isinstance(file, str) else file.path for file in removed],
            inputs=inputs,
            carry={name: file and self._carried(name, file) for name, file in carry.items()},
            superseded=[state.carry[name] for name in carry if name in state.carry],
            facts=dict(facts),
            labels=dict(labels),
        )

    def _carried(self, name: str, file: StagedFile) -> StagedFile:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            raise ValueError(f"carry is named by letters, digits, '_', '.' and '-': {name!r}")
        ending = os.path.splitext(file.name)[1]
        return replace(file, table=CARRY, partition="", name=f"{self.number:08d}-{name}{ending}")

    def _check(self, record: Record) -> None:
        """Refuses what would make a broken commit, before there is one."""
        store = self.lake.store
        counts = Counter(target for _, target in record.moves())
        twice = [target for target, count in counts.items() if count > 1]
        if twice:
            raise LakeError(store.show(twice[0]), "is named twice: by two attempts at a task, or two tasks of one name")
        unknown = [path for path in record.removed if self.lake._state.table_of(path) is None]
        if unknown:
            raise LakeError(store.show(unknown[0]), "cannot be removed: it is no committed file")
        sources = {file.staged: file.bytes for file in (*record.files, *filter(None, record.carry.values()))}
        found = store.sizes(sources)
        for path, size in sources.items():
            if found.get(path) != size:
                raise LakeError(
                    store.show(path), f"was staged with {size} bytes, now there are {found.get(path, 'none')}"
                )
        if store.kind(record_path(record.number)):
            raise LakeError(store.shown, f"commit {record.number} was made by another run meanwhile")


def _create(store: Store, settings: Mapping[str, Any], create: bool) -> None:
    """A crash in the middle leaves a temporary file at most; a place with only that is still empty."""
    others = [name for name in store.names("") if not name.startswith(f"{ABOUT}.")]
    if others:
        raise LakeError(store.shown, f"is not empty and no lake (it has {others[0]!r}, but no {ABOUT!r})")
    if not create:
        raise LakeError(store.shown, "there is no lake")
    about = {"format": FORMAT, "wirelake": __version__, "settings": dict(settings)}
    store.publish(ABOUT, json.dumps(about, indent=2).encode())
    store.sync_root()
    for name in store.names(""):
        if name.startswith(f"{ABOUT}.") and name.endswith(".tmp"):
            store.delete(name)


def _about(store: Store) -> dict[str, Any]:
    try:
        found = json.loads(store.read(ABOUT))
        version, settings = int(found["format"]), dict(found["settings"])
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(store.show(ABOUT), f"does not describe a lake: {error}") from error
    if version > FORMAT:
        maker = found.get("wirelake", "unknown")
        raise LakeError(
            store.shown, f"has format {version}, of a newer wirelake ({maker}); this one knows up to {FORMAT}"
        )
    return settings


def _table_summary(files: Iterable[StagedFile]) -> TableSummary:
    known = list(files)
    return TableSummary(
        len(known),
        sum(file.rows for file in known),
        sum(file.bytes for file in known),
        min((file.min_ts for file in known if file.min_ts is not None), default=None),
        max((file.max_ts for file in known if file.max_ts is not None), default=None),
    )
