"""The committed files of one table.

Those of a checkpoint stay rows of Arrow until somebody wants to hold one: a lake of a hundred thousand files opens in
milliseconds, and its totals are sums of columns. Files of later commits are laid over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .staging import StagedFile, join

_TEXT = pa.dictionary(pa.int32(), pa.string())
FILES = pa.schema(
    [
        ("partition", _TEXT),
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("min_ts", pa.int64()),
        ("max_ts", pa.int64()),
        ("sensor", _TEXT),
        ("columns", _TEXT),
    ]
)
"""A file as a checkpoint has it. Where it was staged no longer matters."""


@dataclass(frozen=True)
class TableSummary:
    files: int
    rows: int
    bytes: int
    min_ts: int | None
    max_ts: int | None


class TableFiles:
    """The files of a table by path."""

    def __init__(self, table: str, load: Callable[[], pa.Table] | None = None) -> None:
        """``load`` returns the rows of a checkpoint, checked; it is called when they are first needed."""
        self._table = table
        self._load = load
        self._rows: pa.Table | None = None
        self._removed: set[str] = set()
        """Paths that are gone since the checkpoint."""
        self._added: dict[str, StagedFile] = {}
        self._all: dict[str, StagedFile] | None = None if load else self._added

    def add(self, file: StagedFile) -> None:
        if self._all is not None:
            self._all[file.path] = file
        if self._all is not self._added:
            self._added[file.path] = file

    def remove(self, path: str) -> None:
        if self._all is not None:
            self._all.pop(path, None)
        if self._added.pop(path, None) is None and self._load is not None:
            self._removed.add(path)

    def by_path(self) -> dict[str, StagedFile]:
        """Return all files; the same mapping each time, so that the caller must not change it."""
        if self._all is None:
            rows = self._kept_rows()
            columns = [rows.column(name).to_pylist() for name in FILES.names]
            made = [
                StagedFile(self._table, partition, "", name, count, size, low, high, sensor, kinds)
                for partition, name, count, size, low, high, sensor, kinds in zip(*columns, strict=True)
            ]
            self._all = {file.path: file for file in made} | self._added
        return self._all

    def paths(self) -> list[str]:
        if self._all is not None:
            return list(self._all)
        return [*_paths(self._table, self._kept_rows()), *self._added]

    def samples(self) -> list[str]:
        """Return paths of files that have, together, all columns of the table: one of each kind.

        Of files of an older version, which do not say it, these are the oldest and the newest.
        """
        if self._all is not None:
            pairs = [(file.columns, file.path) for file in self._all.values()]
        else:
            rows = self._kept_rows()
            kinds = rows.column("columns").to_pylist()
            pairs = [*zip(kinds, _paths(self._table, rows), strict=True)]
            pairs += [(file.columns, file.path) for file in self._added.values()]
        unknown = [path for kind, path in pairs if not kind]
        return list(
            dict.fromkeys([*{kind: path for kind, path in pairs if kind}.values(), *unknown[:1], *unknown[-1:]])
        )

    def summary(self) -> TableSummary:
        return _summary(self.to_arrow())

    def to_arrow(self) -> pa.Table:
        """Return all files as rows, for a checkpoint."""
        added = self._added.values() if self._load is not None else (self._all or {}).values()
        return pa.concat_tables([self._kept_rows(), files_to_arrow(added)]).unify_dictionaries()

    def copy(self) -> TableFiles:
        """Return the files as they are now; the rows of the checkpoint are shared."""
        copy = TableFiles(self._table, self._load)
        copy._rows, copy._removed, copy._added = self._rows, set(self._removed), dict(self._added)
        copy._all = copy._added if self._load is None else None
        return copy

    def __len__(self) -> int:
        return len(self._all) if self._all is not None else self._kept_rows().num_rows + len(self._added)

    def _kept_rows(self) -> pa.Table:
        """Return the rows of the checkpoint without those that are gone."""
        if self._load is None:
            return FILES.empty_table()
        if self._rows is None:
            self._rows = self._load()
        if self._removed:
            known = self._removed
            is_kept = [path not in known for path in _paths(self._table, self._rows)]
            self._rows, self._removed = self._rows.filter(pa.array(is_kept, pa.bool_())), set()
        return self._rows


def files_to_arrow(files: Iterable[StagedFile]) -> pa.Table:
    listed = list(files)
    return pa.table({field.name: pa.array([getattr(one, field.name) for one in listed], field.type) for field in FILES})


def _paths(table: str, rows: pa.Table) -> list[str]:
    partitions, names = (rows.column(name).to_pylist() for name in ("partition", "name"))
    return list(map(join, repeat(table), partitions, names))


def _summary(rows: pa.Table) -> TableSummary:
    def total(function: Any, name: str) -> Any:
        return function(rows.column(name)).as_py()

    count, size = (total(pc.sum, name) or 0 for name in ("rows", "bytes"))
    return TableSummary(rows.num_rows, count, size, total(pc.min, "min_ts"), total(pc.max, "max_ts"))


def joined(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema with the columns of all of these; nested ones may have gained fields as well."""
    distinct = list(dict.fromkeys(schema.remove_metadata() for schema in schemas))
    return distinct[0] if len(distinct) == 1 else pa.unify_schemas(distinct, promote_options="permissive")
