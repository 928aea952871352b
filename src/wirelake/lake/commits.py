"""How a commit is made, and how one that a crash interrupted is finished or removed."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from .. import __version__
from ..errors import LakeError
from .checkpoints import EVERY as CHECKPOINT_EVERY
from .checkpoints import write_checkpoint
from .commit_records import MAX_RECORD_BYTES, Kept, Record, record_path
from .fence import create
from .history import drop_temporary, time_of
from .inputs import Input
from .layout import finish, prepare, undo
from .staging import StagedFile, Staging
from .store import Store
from .sweep import EVERY as SWEEP_EVERY
from .sweep import sweep
from .validation import CARRY, STAGING, is_name, is_run

if TYPE_CHECKING:
    from .lake import Lake


def recover(lake: Lake) -> None:
    """Finish the last commit: only that one can be unfinished, since a record waits for the moves of the last."""
    state, store = lake.refresh(), lake.store
    if state.last is not None:
        finish(store, state.last)
    undo(store, state.number + 1)
    drop_temporary(store)
    drop_staged(store, state.number)
    maintain(lake)


def drop_staged(store: Store, number: int, *runs: str) -> None:
    """Delete what is staged: everything where a lock says that nobody else writes; otherwise what these runs have, and
    what was for a commit up to this number, which is made.
    """
    if store.is_local:
        store.delete_tree(STAGING)
        return
    over = [run for run in store.names(STAGING) if is_run(run) and int(run.partition("-")[0]) <= number]
    for run in {*runs, *over}:
        store.delete_tree(f"{STAGING}/{run}")


def maintain(lake: Lake, is_due: bool = True) -> None:
    """Write a checkpoint if it is time; sweep if ``is_due``. Neither changes what the lake holds."""
    state = lake._state
    if state.number - state.checkpoint >= CHECKPOINT_EVERY:
        write_checkpoint(lake.store, state)
    if is_due:
        sweep(lake.store, state, lake.grace)


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
        settings: Mapping[str, Any] | None = None,
    ) -> int:
        """Make these files part of the lake, all or none. Return the number of the commit.

        ``removed``: committed files (as ``lake.files`` gives them, or their paths) that these replace. ``inputs``: the
        captures that were read, each with its position. ``carry``: staged files for the next commit by name; those of
        other names stay, None drops one. ``facts``: counts, which ``summary`` adds up over commits. ``labels``: small
        values of which the newest counts, such as the number of a streaming batch. ``kept``: which carry of earlier
        commits stays, by sensor; what neither this nor the carry names any more is deleted. ``settings``: those of the
        lake that change from now on.

        After an exception nothing is committed, unless it came while files were moved: then the commit is recorded, and
        the next ``writing`` finishes it. Either way this run cannot commit again.
        """
        if self._is_in_doubt:
            raise LakeError(self.lake.path, f"commit {self.number} failed in this run; start another")
        carry, kept = carry or {}, kept or {}
        record = Record(
            number=self.number,
            run=self.staging.run,
            at=self._now(),
            wirelake=__version__,
            files=list(files),
            removed=[file if isinstance(file, str) else file.path for file in removed],
            inputs=list(inputs),
            carry={name: file and self._carried(name, file) for name, file in carry.items()},
            superseded=self._superseded(carry, kept),
            facts=dict(facts or {}),
            labels=dict(labels or {}),
            kept=dict(kept),
            settings=dict(settings or {}),
            swept=self.lake._state.swept,
        )
        self._check(record)
        self._publish(record)
        return record.number

    def _publish(self, record: Record) -> None:
        """Record the commit, move its files to their places, and get ready for the next one."""
        store = self.lake.store
        data = _checked_bytes(record, store.show(record_path(record.number)))
        prepare(store, record.files)
        carried = [file.staged for file in record.carry.values() if file is not None]
        store.sync(carried)  # workers have synced the others
        store.sync_directories(carried if store.links else (source for source, _ in record.moves()))
        self._is_in_doubt = True
        if not create(store, record_path(record.number), data):
            reason = f"commit {record.number} was made by another run meanwhile; nothing of this one is in the lake"
            drop_staged(store, self.lake._state.number, self.staging.run)
            raise LakeError(store.shown, reason)
        finish(store, record)
        self._is_in_doubt = False
        self.lake._state.add(record)
        store.delete_tree(self.staging.directory)
        with suppress(LakeError):  # the commit is made; the next one tries again
            maintain(self.lake, is_due=record.number % SWEEP_EVERY == 0)
        self._next()

    def aside(self) -> Staging:
        """Return where files can be written that a later commit gets: commits leave it alone, ``close`` does not."""
        return self._staging()

    def adopted(self, files: Sequence[StagedFile]) -> list[StagedFile]:
        """Move files that were written aside to those of the next commit."""
        staged = [f"{self.staging.directory}/{file.staged.split('/', 2)[2]}" for file in files]
        self.lake.store.move_all((file.staged, path) for file, path in zip(files, staged, strict=True))
        return [msgspec.structs.replace(file, staged=path) for file, path in zip(files, staged, strict=True)]

    def close(self) -> None:
        """Delete what is staged, unless a commit may need it."""
        if not self._is_in_doubt:
            undo(self.lake.store, self.number)
            drop_staged(self.lake.store, self.lake._state.number, self.staging.run)

    def _now(self) -> str:
        """Return the time of the next commit: never before that of the last one, whatever the clock says."""
        last = self.lake._state.last
        now = datetime.now(UTC) if last is None else max(datetime.now(UTC), time_of(last))
        return now.isoformat(timespec="milliseconds")

    def _next(self) -> None:
        self.number = self.lake._state.number + 1
        self.staging = self._staging()

    def _staging(self) -> Staging:
        run = f"{self.number:08d}-{uuid.uuid4().hex[:12]}"
        return Staging(self.lake.store, run, self.number, self.lake.durable)

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
        unknown = [path for path in record.removed if not self.lake._state.has_file(path)]
        if unknown:
            raise LakeError(store.show(unknown[0]), "cannot be removed: it is not a committed file")
        sources = {file.staged: file.bytes for file in (*record.files, *filter(None, record.carry.values()))}
        sizes = store.sizes(sources)
        for path, size in sources.items():
            if sizes.get(path) != size:
                reason = f"was staged with {size} bytes, now there are {sizes.get(path, 'none')}"
                raise LakeError(store.show(path), reason)


def _paths(kept: Mapping[str, list[Kept]]) -> Iterator[str]:
    return (path for listed in kept.values() for one in listed for path in one.carry.values())


def _checked_bytes(record: Record, path: str) -> bytes:
    """Encode a record, and make sure that it can be read again."""
    data = msgspec.json.encode(record)
    if len(data) > MAX_RECORD_BYTES:
        raise LakeError(path, f"would have {len(data):,} bytes, and {MAX_RECORD_BYTES:,} is the limit; commit in parts")
    Record.from_bytes(data, path)
    return data
