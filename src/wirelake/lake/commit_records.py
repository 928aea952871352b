"""Commit records: one small JSON file each, ``_commits/00000001.json`` and so on. The record is the commit.

The state of a lake is the sum of its records, in their order. A record is checked before it counts: its types, its
size, and every name and path in it (``validation.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..errors import LakeError
from . import validation as valid
from .inputs import Input
from .staging import StagedFile
from .store import Store
from .validation import Count, Int64, Text, Values, printable, shown

COMMITS = "_commits"
FORMAT = 1
MAX_RECORD_BYTES = 64 << 20
"""Some 200 000 files in one commit."""
NOT_OURS = "wirelake did not write it: restore it from a backup, or ingest the captures into a new lake"
_RECORD_NAME = re.compile(r"([0-9]{8,12})\.json")
_TEMPORARY_NAME = re.compile(r"[0-9]{8,12}\.json\.[0-9a-f]{32}\.tmp")


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The carry of a sensor as a commit left it, kept for a capture that comes late."""

    commit: Count
    after_us: Int64
    """The place of the newest capture that had been begun: the time of its first packet, and its name."""
    after: Text
    carry: dict[Text, Text]
    """Name -> path."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One commit."""

    number: Count
    run: Text
    at: Text
    """When, ISO 8601."""
    wirelake: Text
    """The version that wrote it."""
    files: list[StagedFile]
    removed: list[Text]
    """Paths in the lake of files that are no longer part of their tables."""
    inputs: list[Input]
    carry: dict[Text, StagedFile | None]
    """By name; None if there is none of that name any more."""
    superseded: list[Text]
    """Paths of carry that this commit replaces."""
    facts: Values
    labels: Values
    kept: dict[Text, list[Kept]] = {}
    """Of each sensor of this commit, by its key: the carry of earlier commits that is kept, oldest first."""
    format: int = FORMAT

    def moves(self) -> list[tuple[str, str]]:
        """Return every staged file and where it goes."""
        kept = [*self.files, *(file for file in self.carry.values() if file is not None)]
        return [(file.staged, file.path) for file in kept]

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Record:
        """Decode and check a record; raise LakeError about ``path`` if it is not one that wirelake writes."""
        try:
            header = msgspec.json.decode(data, type=_Header)
            if header.format > FORMAT:
                version = printable(header.wirelake)
                raise LakeError(path, f"has the format of a newer wirelake ({version}); upgrade this one")
            record = _DECODER.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LakeError(path, f"is not a commit record ({str(error).splitlines()[0]}); {NOT_OURS}") from error
        for fault in record._faults():
            raise LakeError(path, f"names {fault}; {NOT_OURS}")
        return record

    def _faults(self) -> Iterator[str]:
        """Yield what no record of wirelake names."""
        if not valid.is_run(self.run):
            yield f"the run {shown(self.run)}"
        for file in self.files:
            if not valid.is_table(file.table):
                yield f"the table {shown(file.table)}"
            if not valid.is_table_file(file.table, file.partition, file.name):
                yield f"the file {shown(file.path)}"
        for name, carried in self.carry.items():
            if not valid.is_name(name):
                yield f"the carry {shown(name)}"
            if carried is not None and not (carried.table == valid.CARRY and valid.is_carry_path(carried.path)):
                yield f"the file {shown(carried.path)} as carry"
        yield from (f"the file {shown(path)}" for path in self.removed if not valid.is_table_path(path))
        yield from (f"the file {shown(path)} as carry" for path in self.superseded if not valid.is_carry_path(path))
        kept = (path for listed in self.kept.values() for one in listed for path in one.carry.values())
        yield from (f"the file {shown(path)} as carry" for path in kept if not valid.is_carry_path(path))
        staged = (path for path, _ in self.moves())
        yield from (f"the staged file {shown(path)}" for path in staged if not valid.is_staged_path(path, self.run))


class _Header(msgspec.Struct, frozen=True):
    """The part of a record that every format has."""

    format: Count
    wirelake: Text


_DECODER = msgspec.json.Decoder(Record)


@dataclass
class State:
    """The sum of the records up to a number."""

    number: int = 0
    last: Record | None = None
    files: dict[str, dict[str, StagedFile]] = field(default_factory=dict)
    """table -> path -> file."""
    inputs: dict[str, Input] = field(default_factory=dict)
    carry: dict[str, str] = field(default_factory=dict)
    """name -> path."""
    facts: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, list[Kept]] = field(default_factory=dict)
    """key of a sensor -> carry of earlier commits, oldest first."""

    def add(self, record: Record) -> None:
        for path in record.removed:
            table = self.table_of(path)
            if table is not None:
                del self.files[table][path]
        for file in record.files:
            self.files.setdefault(file.table, {})[file.path] = file
        for name, carried in record.carry.items():
            if carried is None:
                self.carry.pop(name, None)
            else:
                self.carry[name] = carried.path
        self.inputs.update({capture.key: capture for capture in record.inputs})
        self.facts = add_facts(self.facts, record.facts)
        self.labels.update(record.labels)
        self.kept.update(record.kept)
        self.number = record.number
        self.last = record

    def table_of(self, path: str) -> str | None:
        """Return the table that has this file."""
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if path in self.files.get(above, {}):
                return above
        return None


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


def record_path(number: int) -> str:
    return f"{COMMITS}/{number:08d}.json"


def temporary_records(store: Store) -> list[str]:
    """Return the paths of records that were not completed."""
    return [f"{COMMITS}/{name}" for name in store.names(COMMITS) if _TEMPORARY_NAME.fullmatch(name)]


def read_new(store: Store, state: State) -> State:
    """Add the records that are not in the state yet."""
    matches = map(_RECORD_NAME.fullmatch, store.names(COMMITS))
    numbers = sorted(number for match in matches if match and (number := int(match[1])) > state.number)
    for expected, number in enumerate(numbers, state.number + 1):
        if number != expected:
            raise LakeError(store.show(record_path(expected)), "is missing, but later commits exist; restore it")
    paths = [record_path(number) for number in numbers]
    for number, path, data in zip(numbers, paths, store.read_all(paths, MAX_RECORD_BYTES), strict=True):
        record = Record.from_bytes(data, store.show(path))
        if record.number != number:
            raise LakeError(store.show(path), f"is the record of commit {record.number}; {NOT_OURS}")
        state.add(record)
    return state
