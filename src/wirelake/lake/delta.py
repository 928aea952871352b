"""Publish the tables of a lake as Delta tables, for engines that read those.

``_tables/gold/exchanges`` is a Delta table: its log names the files that lie there, so nothing is copied. On S3, where
a file has no second name, the store copies it there; when a commit removes it, it moves over its copy. A publication
compares the files of the last commit with those of the log and writes the difference as one transaction per table: what
ingest, compaction, expiry and rebuilds added and removed. Columns that came are a transaction before it. Each
transaction names our commit. A publication is repeated without harm, runs beside a writer, and costs a commit nothing.

Our own commit stays the truth: all tables and the carry advance together by it, which no table format does without a
catalogue. Published tables are for reading: a commit of somebody else is refused by name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from ..errors import LakeError
from .compaction import TIMES
from .fence import is_s3, s3_options
from .lake import Lake
from .layout import hidden
from .lock import locked
from .publications import PUBLISHED, note_publication, publications
from .staging import StagedFile
from .table_files import joined
from .validation import SNAPSHOTS

APPLICATION = "wirelake"
COMMIT = "wirelake_commit"
"""In the commit info of each transaction: the commit of the lake that it publishes."""
LOOKED_AT = 20
"""Transactions that are looked at for one that is not ours."""
NULL_DATE = "__HIVE_DEFAULT_PARTITION__"


@dataclass
class Published:
    """What a publication did."""

    commit: int
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of each table: its place, its version, and how many files were added and removed."""


def publish(lake: Lake) -> Published:
    """Bring the Delta tables in line with the last commit."""
    _check(lake)
    with _one_at_a_time(lake):
        lake = lake.snapshot()
        done = Published(lake.number())
        _copy(lake)
        for table in sorted({*lake.tables(), *_published_tables(lake)}):
            done.tables[table] = _Table(lake, table).publish()
        note_publication(lake.store, done.commit, datetime.now(UTC) - lake.grace)
    return done


def drop(lake: Lake) -> list[str]:
    """Publish no longer: delete the logs, so that sweeps wait for nobody. Return the tables that were published."""
    _check(lake)
    with _one_at_a_time(lake):
        tables = _published_tables(lake)
        lake.store.delete(PUBLISHED)
        for table in tables:
            lake.store.delete_tree(f"{hidden(table)}/_delta_log")
            if not lake.store.links:
                lake.store.delete_all([hidden(path) for path in lake.paths(table)])
    return tables


def _check(lake: Lake) -> None:
    if not lake.store.links and not is_s3(lake.store):
        reason = "cannot be published: its store has no hard links, by which published files outlive a commit"
        raise LakeError(lake.path, f"{reason}; on S3 it can, because the store copies them")


def _copy(lake: Lake) -> None:
    """Copy files that have no second name to where the log names them, if they are not there yet."""
    store = lake.store
    if store.links:
        return
    wanted = {hidden(path): path for table in lake.tables() for path in lake.paths(table)}
    there = store.sizes(wanted)
    gone = store.copy_all((path, target) for target, path in wanted.items() if target not in there)
    lost = set(gone) - set(store.sizes(gone))  # what a commit has removed meanwhile is there now
    if lost:
        raise LakeError(store.show(min(lost)), "is gone: its grace period was over while it was published; try again")


@contextmanager
def _one_at_a_time(lake: Lake) -> Iterator[None]:
    lake.store.make_directory(SNAPSHOTS)
    with locked(lake.store, f"{SNAPSHOTS}/_lock", "is publishing this lake"):
        yield


def _published_tables(lake: Lake) -> list[str]:
    """Return the tables that have a log, also those that have no rows any more."""
    if not publications(lake.store) and not lake.store.names(SNAPSHOTS):
        return []
    rooms = [name for name in lake.store.names(SNAPSHOTS) if not name.startswith("_")]
    places = [*rooms, *(f"{room}/{name}" for room in rooms for name in lake.store.names(f"{SNAPSHOTS}/{room}"))]
    return [place for place in places if lake.store.kind(f"{hidden(place)}/_delta_log") == "directory"]


class _Table:
    """One table, as the lake has it and as its log says."""

    def __init__(self, lake: Lake, table: str) -> None:
        from deltalake import DeltaTable

        self._lake, self._name = lake, table
        self._place, self._options = _place(lake, hidden(table))
        self._shown = lake.store.show(hidden(table))
        self._files = {file.path.removeprefix(f"{table}/"): file for file in lake.files(table)}
        with self._errors():
            is_there = DeltaTable.is_deltatable(self._place, self._options)
            self._known = DeltaTable(self._place, storage_options=self._options) if is_there else None

    def publish(self) -> dict[str, Any]:
        self._refuse_others()
        with self._errors():
            before = self._known_files()
            added = [file for path, file in self._files.items() if path not in before]
            removed = [path for path in before if path not in self._files]
            if added or removed:
                self._write(added, {path: before[path] for path in removed})
            version = self._known.version() if self._known is not None else None
        return {"place": self._shown, "version": version, "added": len(added), "removed": len(removed)}

    def _known_files(self) -> dict[str, dict[str, Any]]:
        """Return the files that the log has now, with the size and the date of each."""
        if self._known is None:
            return {}
        rows = pa.table(self._known.get_add_actions(flatten=True))
        dates = rows.column("partition.date").to_pylist() if "partition.date" in rows.column_names else None
        paths, sizes = rows.column("path").to_pylist(), rows.column("size_bytes").to_pylist()
        return {
            path: {"size": size, "date": None if dates is None else dates[number]}
            for number, (path, size) in enumerate(zip(paths, sizes, strict=True))
        }

    def _refuse_others(self) -> None:
        """Refuse to go on behind a transaction that is not ours: it may have changed anything."""
        if self._known is None:
            return
        for entry in self._known.history(LOOKED_AT):
            if COMMIT not in entry:
                name = str(entry.get("operation", "?"))[:50]
                reason = f"has a transaction that wirelake did not write (version {entry.get('version')}, {name!r})"
                hint = "published tables are for reading: `wirelake lake delta --drop` and publish again"
                raise LakeError(self._shown, f"{reason}; {hint}")

    def _write(self, added: Sequence[StagedFile], removed: dict[str, dict[str, Any]]) -> None:
        from deltalake import CommitProperties, DeltaTable, Schema
        from deltalake.transaction import AddAction, RemoveAction, Transaction, create_table_with_add_actions

        number = self._lake.number()
        noted = CommitProperties({COMMIT: number}, app_transactions=[Transaction(APPLICATION, number)])
        schema, is_dated = self._schema(), any(file.partition for file in self._files.values())
        now = int(time.time() * 1000)
        adds = [
            AddAction(
                file.path.removeprefix(f"{self._name}/"),
                file.bytes,
                _values(file.partition),
                now,
                True,
                _statistics(file, schema),
            )
            for file in added
        ]
        dates = ["date"] if is_dated else []
        if self._known is None:
            create_table_with_add_actions(
                self._place,
                Schema.from_arrow(schema),
                adds,
                partition_by=dates,
                name=self._name,
                commit_properties=noted,
                storage_options=self._options,
            )
        else:
            dropped = [
                RemoveAction(path, True, now, one["size"], _values(path.rpartition("/")[0]))
                for path, one in removed.items()
            ]
            self._grow(schema, noted)
            self._known.create_write_transaction(
                [*adds, *dropped], "append", self._known.schema(), dates or None, commit_properties=noted
            )
        self._known = DeltaTable(self._place, storage_options=self._options)

    def _grow(self, schema: pa.Schema, noted: Any) -> None:
        """Add columns, and fields of nested ones, that the log does not know: for the library a transaction apart."""
        from deltalake import DeltaTable, Schema

        assert self._known is not None
        known = {field.name: field for field in self._known.schema().fields}
        new = [field for field in Schema.from_arrow(schema).fields if known.get(field.name) != field]
        if new:
            self._known.alter.add_columns(new, commit_properties=noted)
            self._known = DeltaTable(self._place, storage_options=self._options)

    def _schema(self) -> pa.Schema:
        """Return the columns of the table: those that it had, and those of its files."""
        schemas = [pa.schema(self._known.schema().to_arrow())] if self._known is not None else []
        found = joined([*schemas, *([self._lake.schema(self._name)] if self._files else [])])
        if any(file.partition for file in self._files.values()) and "date" not in found.names:
            found = found.append(pa.field("date", pa.date32()))
        return found

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from deltalake.exceptions import DeltaError

        try:
            yield
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise LakeError(self._shown, f"cannot be published: {str(error).splitlines()[0]}") from error


def _place(lake: Lake, path: str) -> tuple[str, dict[str, str]]:
    """Return where a table is for deltalake, and how it reaches its store."""
    place = lake.store.full(path)
    if not is_s3(lake.store):
        return place, {}
    options = s3_options(lake.store.shown)
    client = options.pop("client_options", {})
    named = {name: str(value) for name, value in {**options, **client}.items()}
    return f"s3://{place}", {f"aws_{name}" if name != "allow_http" else name: value for name, value in named.items()}


def _values(partition: str) -> dict[str, str | None]:
    if not partition:
        return {}
    date = partition.removeprefix("date=")
    return {"date": None if date == NULL_DATE else date}


def _statistics(file: StagedFile, schema: pa.Schema) -> str:
    """Return what engines skip files by: how many rows, and from when to when."""
    found: dict[str, Any] = {"numRecords": file.rows}
    column = next((name for name in TIMES if name in schema.names), None)
    if file.partition and column is not None and file.min_ts is not None and file.max_ts is not None:
        found |= {"minValues": {column: _iso(file.min_ts)}, "maxValues": {column: _iso(file.max_ts)}}
    return msgspec.json.encode(found).decode()


def _iso(time_us: int) -> str:
    seconds, micros = divmod(time_us, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"
