"""Merge small files of a table into few large ones, sorted by time.

Files are merged if they have one table, one date and one sensor, and lie between the same two commits to which a late
capture can go back: a rebuild removes the files of all later commits, and a merged file is either all later or not at
all. It is named by the newest commit whose rows it has.

Rows are neither added nor lost, and a commit that would do either is not made. Each commit is whole: readers see the
small files or the large one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ..errors import LakeError
from .commits import Run
from .layout import places
from .staging import StagedFile, Staging
from .store import Store
from .table_files import joined
from .table_writer import SENSOR

TARGET_BYTES = 128 << 20
SLICE_BYTES = 4 << 20
"""Of the files that are read at once, as they lie on the disk: this bounds the memory, and the time between two yields
of ``compacting``."""
COMMIT_BYTES = 4 << 30
TIMES = ("ts", "request_ts", "first_ts", "minute")
"""The column by which a table is dated and sorted: the first of these that it has."""
REPLACED_BY_COMMITS = "gold/open"
COUNTED_BY_MINUTE = "gold/addresses"
"""Its files are replaced while their minutes may still change: in the newest dates those of an hour are merged, when it
is over."""
NEWEST_DATES = 2
HOUR_US = 3_600_000_000
Say = Callable[[str], None]


@dataclass
class Compacted:
    """What a compaction did."""

    commits: list[int] = field(default_factory=list)
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Group:
    """Files that become one, in the order of their times."""

    files: tuple[StagedFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def compact(
    run: Run,
    *,
    tables: Collection[str] | None = None,
    target_bytes: int = TARGET_BYTES,
    min_files: int = 2,
    say: Say = lambda line: None,
) -> Compacted:
    """Merge what can be merged, in one commit or, if there is much, in several. ``min_files``: from so many on."""
    done = Compacted()
    for _ in compacting(run, done, tables=tables, target_bytes=target_bytes, min_files=min_files, say=say):
        pass
    return done


def compacting(
    run: Run,
    done: Compacted,
    *,
    tables: Collection[str] | None = None,
    target_bytes: int = TARGET_BYTES,
    min_files: int = 2,
    say: Say = lambda line: None,
) -> Generator[None, None, None]:
    """Do what ``compact`` does bit by bit, and count it: yield behind each bounded part.

    The run may commit something else meanwhile. What was merged of files that are gone then is dropped.
    """
    staging = run.aside()
    for batch in _batches(list(find_groups(run, tables, target_bytes, min_files))):
        merged: list[tuple[Group, list[StagedFile]]] = []
        for number, group in enumerate(batch):
            first = group.files[0]
            say(f"{first.table} {first.partition}: {len(group.files)} files, {group.rows:,} rows")
            task = f"c{staging.number:08d}.{number:05d}"
            files = yield from merging(run.lake.store, staging, task, group)
            merged.append((group, files))
        _commit(run, [one for one in merged if _is_there(run, one[0])], done)
        run.lake.store.delete_tree(staging.directory)
        pa.default_memory_pool().release_unused()
        yield


def _is_there(run: Run, group: Group) -> bool:
    state = run.lake.refresh()
    return all(state.has_file(file.path) for file in group.files)


def _commit(run: Run, merged: Sequence[tuple[Group, list[StagedFile]]], done: Compacted) -> None:
    if not merged:
        return
    removed = [file for group, _ in merged for file in group.files]
    made = run.adopted([file for _, files in merged for file in files])
    done.files_before += len(removed)
    done.files_after += len(made)
    done.bytes_before += sum(file.bytes for file in removed)
    done.bytes_after += sum(file.bytes for file in made)
    done.rows += sum(file.rows for file in made)
    done.commits.append(run.commit(made, removed=removed))


# --- which files


def find_groups(run: Run, tables: Collection[str] | None, target_bytes: int, min_files: int) -> Iterator[Group]:
    lake = run.lake
    borders = sorted({kept.commit for listed in lake.kept().values() for kept in listed})
    for table in lake.tables() if tables is None else sorted(tables):
        if table == REPLACED_BY_COMMITS:
            continue
        together: dict[tuple[str, str, int, int], list[StagedFile]] = defaultdict(list)
        files = [file for file in lake.files(table) if "-open-" not in file.name]
        hour_of = _hours_apart(files) if table == COUNTED_BY_MINUTE else (lambda file: 0)
        for file in files:
            if file.bytes < target_bytes // 2 and (hour := hour_of(file)) is not None:
                together[file.partition, file.sensor, hour, bisect_left(borders, file.commit)].append(file)
        for key in sorted(together):
            yield from _groups(together[key], target_bytes, min_files)


def _hours_apart(files: Sequence[StagedFile]) -> Callable[[StagedFile], int | None]:
    """Return what tells apart files of counted minutes that are not merged with each other: None for those that may
    still be replaced."""
    recent = sorted({file.partition for file in files})[-NEWEST_DATES:]
    newest: dict[str, int] = {}
    for file in files:
        newest[file.sensor] = max(newest.get(file.sensor, 0), file.max_ts or 0)

    def hour_of(file: StagedFile) -> int | None:
        if file.partition not in recent:
            return 0
        if file.min_ts is None or file.max_ts is None or file.max_ts > newest[file.sensor] - HOUR_US:
            return None
        first, last = file.min_ts // HOUR_US, file.max_ts // HOUR_US
        return first if first == last else None

    return hour_of


def _groups(files: list[StagedFile], target_bytes: int, min_files: int) -> Iterator[Group]:
    waiting: list[StagedFile] = []
    size = 0
    for file in sorted(files, key=lambda one: (one.min_ts is None, one.min_ts, one.commit, one.name)):
        if size + file.bytes > target_bytes and len(waiting) >= min_files:
            yield Group(tuple(waiting))
            waiting, size = [], 0
        waiting.append(file)
        size += file.bytes
    if len(waiting) >= max(2, min_files):
        yield Group(tuple(waiting))


def _batches(groups: Iterable[Group]) -> Iterator[list[Group]]:
    waiting: list[Group] = []
    for group in groups:
        waiting.append(group)
        if sum(one.bytes for one in waiting) >= COMMIT_BYTES:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


# --- their rows


def merging(store: Store, staging: Staging, task: str, group: Group) -> Generator[None, None, list[StagedFile]]:
    """Write the rows of a group in the order of their times, and yield behind each slice. Return the files: there is
    more than one if they outgrow a date.
    """
    newest = max(file.commit for file in group.files)
    first = group.files[0]
    source = _source(store, [file.path for file in group.files], drop=SENSOR if first.sensor else "")
    time = next((name for name in TIMES if name in source.schema.names), None) if first.partition else None
    with replace(staging, number=newest).attempt(task, first.sensor) as attempt:
        writer = attempt.table(first.table, source.schema, dated_by=time, lasting=True)
        for rows in _slices(source, group, time):
            writer.write(rows)
            yield
        files = attempt.close()
    if sum(file.rows for file in files) != group.rows or {file.partition for file in files} != {first.partition}:
        raise LakeError(store.show(first.path), "and others cannot be merged: their rows are not what they should be")
    return files


def _source(store: Store, paths: Sequence[str], drop: str) -> ds.Dataset:
    found = store.full_paths(places(store, list(paths), None))
    schema = joined([pq.read_schema(place, filesystem=store.files) for place in found])
    if drop in schema.names:
        schema = schema.remove(schema.get_field_index(drop))
    return ds.dataset(found, schema, "parquet", store.files)


def _slices(source: ds.Dataset, group: Group, time: str | None) -> Iterator[pa.Table]:
    """Yield the rows in the order of their times, a bounded part at once."""
    low = min((file.min_ts for file in group.files if file.min_ts is not None), default=None)
    high = max((file.max_ts for file in group.files if file.max_ts is not None), default=None)
    if time is None or low is None or high is None:
        yield from (pa.Table.from_batches([batch]) for batch in source.to_batches(batch_readahead=1))
        return
    count = max(1, -(-group.bytes // SLICE_BYTES))
    kind = source.schema.field(time).type
    edges = [pa.scalar(low + (high - low) * step // count, pa.timestamp("us", kind.tz)) for step in range(count)]
    at = ds.field(time)
    keys = [(name, "ascending") for name in (time, "order") if name in source.schema.names]
    for number, start in enumerate(edges):
        wanted = at >= start if number else at.is_valid()
        if number + 1 < count:
            wanted = wanted & (at < edges[number + 1])
        rows = source.to_table(filter=wanted)
        yield rows.take(pc.sort_indices(rows.select([name for name, _ in keys]), sort_keys=keys))
    yield source.to_table(filter=at.is_null())
