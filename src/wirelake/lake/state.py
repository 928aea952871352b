"""The state of a lake: the sum of its commit records up to a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .commit_records import Kept, Record
from .inputs import Input
from .table_files import TableFiles
from .validation import table_of


class Inputs:
    """The captures that were read, by their keys. Those of a checkpoint are decoded when somebody asks for them."""

    def __init__(
        self, load: Callable[[], Iterable[Input]] | None = None, keys: Callable[[], list[str]] | None = None
    ) -> None:
        self._load, self._keys = load, keys
        self._known: dict[str, Input] = {}

    def update(self, inputs: Iterable[Input]) -> None:
        self._known.update({capture.key: capture for capture in inputs})

    def by_key(self) -> dict[str, Input]:
        """Return all of them; the same mapping each time, so that the caller must not change it."""
        if self._load is not None:
            self._known = {capture.key: capture for capture in self._load()} | self._known
            self._load = None
        return self._known

    def copy(self) -> Inputs:
        copy = Inputs(self._load, self._keys)
        copy._known = dict(self._known)
        return copy

    def __len__(self) -> int:
        if self._load is None or self._keys is None:
            return len(self.by_key())
        return len(self._known.keys() | self._keys())


@dataclass
class State:
    """The sum of the records up to a number."""

    number: int = 0
    last: Record | None = None
    checkpoint: int = 0
    """The number of the newest checkpoint that is known."""
    swept: int = 0
    """Files that this commit and earlier ones removed are deleted."""
    files: dict[str, TableFiles] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=Inputs)
    carry: dict[str, str] = field(default_factory=dict)
    """name -> path."""
    facts: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, list[Kept]] = field(default_factory=dict)
    """key of a sensor -> carry of earlier commits, oldest first."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that a commit changed since the lake was made."""

    def add(self, record: Record) -> None:
        for path in record.removed:
            self.files_of(table_of(path)).remove(path)
        for file in record.files:
            self.files_of(file.table).add(file)
        for name, carried in record.carry.items():
            if carried is None:
                self.carry.pop(name, None)
            else:
                self.carry[name] = carried.path
        self.inputs.update(record.inputs)
        self.facts = add_facts(self.facts, record.facts)
        self.labels.update(record.labels)
        self.kept.update(record.kept)
        self.settings.update(record.settings)
        self.swept = max(self.swept, record.swept)
        self.number = record.number
        self.last = record

    def files_of(self, table: str) -> TableFiles:
        if table not in self.files:
            self.files[table] = TableFiles(table)
        return self.files[table]

    def has_file(self, path: str) -> bool:
        files = self.files.get(table_of(path))
        return files is not None and path in files.by_path()

    def copy(self) -> State:
        """Return the state as it is now, whatever is added later."""
        return replace(
            self,
            files={table: files.copy() for table, files in self.files.items()},
            inputs=self.inputs.copy(),
            carry=dict(self.carry),
            labels=dict(self.labels),
            kept=dict(self.kept),
            settings=dict(self.settings),
        )


def add_facts(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Add up numbers, also in mappings within; of anything else keep the newer."""
    result = dict(old)
    for name, value in new.items():
        before = result.get(name)
        if isinstance(value, Mapping):
            result[name] = add_facts(before if isinstance(before, Mapping) else {}, value)
        elif _is_number(value) and _is_number(before):
            result[name] = before + value
        else:
            result[name] = value
    return result


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
