"""How a commit is made, and how one that a crash interrupted is finished or removed."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__
from ..errors import LakeError
from .commit_records import MAX_RECORD_BYTES, Kept, Record, record_path, temporary_records
from .inputs import Input
from .staging import StagedFile, Staging
from .store import Store
from .validation import CARRY, STAGING, is_name

if TYPE_CHECKING:
    from .lake import Lake


def recover(lake: Lake) -> None:
    """Finish the last commit: only that one can be unfinished, since a record waits for the moves of the last."""
    last = lake.refresh().last
    if last is not None:
        finish(lake.store, last)
    for path in temporary_records(lake.store):
        lake.store.delete(path)
    lake.store.delete_tree(STAGING)


def finish(store: Store, record: Record) -> None:
    """Move and delete what a record says; skip what is done already."""
    moves = record.moves()
    staged = store.sizes(source for source, _ in moves)
    moved = [target for source, target in moves if source not in staged]
    lost = set(moved) - set(store.sizes(moved))
    if lost:
        reason = f"is missing, though commit {record.number} has it; restore it from a backup"
        raise LakeError(store.show(min(lost)), reason)
    store.move_all((source, target) for source, target in moves if source in staged)
    store.delete_all([*record.removed, *record.superseded])


class Run:
    """The right to write, and the next commit. From ``lake.writing()``."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.number = 0
        """The number of the next commit."""
        self.staging: Staging
        """Where tasks of the next commit write. Picklable; renewed by each commit."""
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
        kept: Mapping[str, list[Kept]] | None = None,
    ) -> int:
        """Make these files part of the lake, all or none. Return the number of the commit.

        ``removed``: committed files (as ``lake.files`` gives them, or their paths) that these replace. ``inputs``: the
        captures that were read, each with its position. ``carry``: staged files for the next commit by name; those of
        other names stay, None drops one. ``facts``: counts, which ``summary`` adds up over commits. ``labels``: small
        values of which the newest counts, such as the number of a streaming batch. ``kept``: which carry of earlier
        commits stays, by sensor; what neither this nor the carry names any more is deleted.

        After an exception nothing is committed, unless it came while files were moved: then the commit is recorded, and
        the next ``writing`` finishes it. Either way this run cannot commit again.
        """
        if self._is_in_doubt:
            raise LakeError(self.lake.path, f"commit {self.number} failed in this run; start another")
        carry, kept = carry or {}, kept or {}
        record = Record(
            number=self.number,
            run=self.staging.run,
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            wirelake=__version__,
            files=list(files),
            removed=[file if isinstance(file, str) else file.path for file in removed],
            inputs=list(inputs),
            carry={name: file and self._carried(name, file) for name, file in carry.items()},
            superseded=self._superseded(carry, kept),
            facts=dict(facts or {}),
            labels=dict(labels or {}),
            kept=dict(kept),
        )
        self._check(record)
        self._publish(record)
        return record.number

    def _publish(self, record: Record) -> None:
        """Record the commit, move its files to their places, and get ready for the next one."""
        store = self.lake.store
        data = _checked_bytes(record, store.show(record_path(record.number)))
        store.sync(file.staged for file in record.carry.values() if file is not None)  # workers have synced the others
        store.sync_directories(source for source, _ in record.moves())
        self._is_in_doubt = True
        store.publish(record_path(record.number), data)
        finish(store, record)
        self._is_in_doubt = False
        self.lake._state.add(record)
        store.delete_tree(self.staging.directory)
        self._next()

    def close(self) -> None:
        """Delete what is staged, unless a commit may need it."""
        if not self._is_in_doubt:
            self.lake.store.delete_tree(STAGING)

    def _next(self) -> None:
        self.number = self.lake._state.number + 1
        run = f"{self.number:08d}-{uuid.uuid4().hex[:12]}"
        self.staging = Staging(self.lake.store, run, self.number, self.lake.durable)

    def _carried(self, name: str, file: StagedFile) -> StagedFile:
        if not is_name(name):
            raise ValueError(f"carry has a name of up to 100 letters, digits, '_', '.' and '-', not {name!r}")
        extension = os.path.splitext(file.name)[1]
        return msgspec.structs.replace(file, table=CARRY, partition="", name=f"{self.number:08d}-{name}{extension}")

    def _superseded(self, carry: Mapping[str, Any], kept: Mapping[str, list[Kept]]) -> list[str]:
        """Return the paths of carry that nothing names after this commit."""
        state = self.lake._state
        later = {**state.kept, **kept}
        before = {*state.carry.values(), *_paths(state.kept)}
        return sorted(before - {path for name, path in state.carry.items() if name not in carry} - set(_paths(later)))

    def _check(self, record: Record) -> None:
        """Refuse what would make a broken commit, before there is one."""
        store = self.lake.store
        counts = Counter(target for _, target in record.moves())
        twice = [target for target, count in counts.items() if count > 1]
        if twice:
            raise LakeError(store.show(twice[0]), "is named twice: by two attempts at a task, or two tasks of one name")
        unknown = [path for path in record.removed if self.lake._state.table_of(path) is None]
        if unknown:
            raise LakeError(store.show(unknown[0]), "cannot be removed: it is not a committed file")
        sources = {file.staged: file.bytes for file in (*record.files, *filter(None, record.carry.values()))}
        sizes = store.sizes(sources)
        for path, size in sources.items():
            if sizes.get(path) != size:
                reason = f"was staged with {size} bytes, now there are {sizes.get(path, 'none')}"
                raise LakeError(store.show(path), reason)
        if store.kind(record_path(record.number)):
            raise LakeError(store.shown, f"commit {record.number} was made by another run meanwhile")


def _paths(kept: Mapping[str, list[Kept]]) -> Iterator[str]:
    return (path for listed in kept.values() for one in listed for path in one.carry.values())


def _checked_bytes(record: Record, path: str) -> bytes:
    """Encode a record, and make sure that it can be read again."""
    data = msgspec.json.encode(record)
    if len(data) > MAX_RECORD_BYTES:
        raise LakeError(path, f"would have {len(data):,} bytes, and {MAX_RECORD_BYTES:,} is the limit; commit in parts")
    Record.from_bytes(data, path)
    return data
