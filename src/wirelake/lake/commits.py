"""Commit records: one small JSON file each, ``_commits/00000001.json`` and so on. A record that is there is the commit.

What a lake holds is the sum of its records, read in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from ..errors import LakeError
from .inputs import Input
from .staging import StagedFile
from .store import Store

COMMITS = "_commits"
FORMAT = 1
_NAME = re.compile(r"(\d{8,})\.json")


@dataclass(frozen=True, slots=True)
class Record:
    """What one commit did."""

    number: int
    run: str
    at: str
    """When, ISO 8601."""
    wirelake: str
    """The version that wrote it."""
    files: list[StagedFile]
    removed: list[str]
    """Paths in the lake of files that are no longer part of their tables."""
    inputs: list[Input]
    carry: dict[str, StagedFile | None]
    """By name; None if there is none of that name any more."""
    superseded: list[str]
    """Paths of carry that this commit replaces."""
    facts: dict[str, Any]
    labels: dict[str, Any]
    format: int = FORMAT

    def moves(self) -> list[tuple[str, str]]:
        """Every staged file and where it goes."""
        kept = [*self.files, *(file for file in self.carry.values() if file is not None)]
        return [(file.staged, file.path) for file in kept]

    def deletions(self) -> list[str]:
        return [*self.removed, *self.superseded]

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes, shown: str) -> Record:
        try:
            about = msgspec.json.decode(data, type=_About)
            if about.format > FORMAT:
                raise LakeError(shown, f"was written by a newer wirelake ({about.wirelake})")
            return _decoder().decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LakeError(shown, f"is no commit record: {error}") from error


@dataclass(frozen=True)
class _About:
    """What every record has, whatever its format."""

    format: int
    wirelake: str


@lru_cache(maxsize=1)
def _decoder() -> msgspec.json.Decoder[Record]:
    return msgspec.json.Decoder(Record)


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
        self.inputs.update({one.path: one for one in record.inputs})
        self.facts = summed(self.facts, record.facts)
        self.labels.update(record.labels)
        self.number = record.number
        self.last = record

    def table_of(self, path: str) -> str | None:
        """The table that has this file."""
        above = path
        while "/" in above:
            above = above.rpartition("/")[0]
            if path in self.files.get(above, {}):
                return above
        return None


def summed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers add up, also in mappings within; of anything else the newer stays."""
    result = dict(old)
    for name, value in new.items():
        before = result.get(name)
        if isinstance(value, Mapping):
            result[name] = summed(before if isinstance(before, Mapping) else {}, value)
        elif _is_number(value) and _is_number(before):
            result[name] = before + value
        else:
            result[name] = value
    return result


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def record_path(number: int) -> str:
    return f"{COMMITS}/{number:08d}.json"


def numbers(names: Iterable[str]) -> list[int]:
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)


def read_on(store: Store, state: State) -> State:
    """Adds the records that are not in the sum yet."""
    found = [number for number in numbers(store.names(COMMITS)) if number > state.number]
    if found != list(range(state.number + 1, state.number + 1 + len(found))):
        missing = next(n for i, n in enumerate(range(state.number + 1, max(found) + 1)) if found[i] != n)
        raise LakeError(store.show(record_path(missing)), "is missing, but later commits are there")
    paths = [record_path(number) for number in found]
    for path, data in zip(paths, store.read_all(paths), strict=True):
        state.add(Record.from_bytes(data, store.show(path)))
    return state
