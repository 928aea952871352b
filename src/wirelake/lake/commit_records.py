"""Commit records: one small JSON file each, ``_commits/00000001.json`` and so on. The record is the commit.

The state of a lake is the sum of its records, in their order (``state.py``). A record is checked before it counts: its
types, its size, and every name and path in it (``validation.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ..errors import LakeError
from . import validation as valid
from .inputs import Input
from .staging import StagedFile
from .validation import Count, Int64, Text, Values, printable, shown

COMMITS = "_commits"
FORMAT = 2
"""Since 2 there are ``settings`` and ``swept``."""
MAX_RECORD_BYTES = 64 << 20
"""Some 200 000 files in one commit."""
NOT_OURS = "wirelake did not write it: restore it from a backup, or ingest the captures into a new lake"


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
    settings: Values = {}
    """Settings of the lake that this commit changes."""
    swept: Count = 0
    """Files that this commit and earlier ones removed were deleted before this one was made."""
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


def record_path(number: int) -> str:
    return f"{COMMITS}/{number:08d}.json"
