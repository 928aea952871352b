"""Count messages and exchanges by address and minute: what is new is added to what was counted before.

What was counted of a minute that may get more rows is carried (``MinuteCarry``), so a step reads only its own rows, and
a late decision replaces the rows of its minute alone. A minute that is not carried any more, and one of which rows were
taken away, is counted anew from the tables. Either way its rows are those of all its messages and exchanges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ...columnar.schema import TIMESTAMP
from ...errors import LakeError
from ...gold.addresses import (
    ADDRESSES,
    EXCHANGE_COLUMNS,
    MESSAGE_COLUMNS,
    MINUTE_US,
    TEXTS,
    AddressCounts,
    MinuteCarry,
)
from ...lake import Attempt, StagedFile
from ...lake.layout import places
from ...lake.store import Store
from ..carry import pack, read
from . import StepSettings

TABLE = "gold/addresses"
_SPOKEN, _ASKED = "silver/messages", "gold/exchanges"
COUNTED = {_SPOKEN: (MESSAGE_COLUMNS, "ts"), _ASKED: (EXCHANGE_COLUMNS, "request_ts")}
"""Tables that are counted: the columns that are read, and that of the time."""
HOUR_US = 3_600_000_000
HOUR_MINUTES = 60
DAY_HOURS = 24
ROWS_AT_ONCE = 1 << 19
"""Rows that are counted at once."""
APART = 4
"""So many minutes of an hour get a file each: the next step replaces that of the present minute, and no other rows."""
GRACE_US = MINUTE_US
"""A minute is carried until so long after its end: packets may be a little out of order."""
MOST_MINUTES = 120
"""Minutes that are carried of a sensor: the newest."""
MOST_BYTES = 64 << 20
"""Bytes of them. Minutes with requests that stay open for long go first: they are counted anew when that ends."""


def carry_name(minute: int) -> str:
    return f"{CARRIED}{minute:010d}"


CARRIED = "addresses-"
"""Begins the names of what is carried."""


@dataclass(frozen=True)
class Open:
    """Which minutes may get more rows."""

    known_until_us: int | None
    """Until when everything is known."""
    minutes: frozenset[int] = frozenset()
    """Those with requests that are not decided."""

    def has(self, minute: int) -> bool:
        if self.known_until_us is None:
            return False
        return minute in self.minutes or (minute + 1) * MINUTE_US + GRACE_US > self.known_until_us


@dataclass(frozen=True)
class Hour:
    """An hour (since 1970) of which something is new.

    ``new`` are files of this step that may have rows of it, ``old`` those of earlier ones. ``carried`` are the paths
    of what was counted, by minute. ``is_anew``: rows were taken away, so all of it is counted again.
    """

    hour: int
    new: tuple[StagedFile, ...]
    old: tuple[StagedFile, ...] = ()
    carried: Mapping[int, str] = field(default_factory=dict)
    is_anew: bool = False


@dataclass(frozen=True)
class AddressesTask:
    """Some hours; ``counted`` are the files of gold/addresses that may have minutes of them, and of no other task."""

    settings: StepSettings
    hours: tuple[Hour, ...]
    counted: tuple[StagedFile, ...]
    open: Open

    def run(self) -> AddressesResult:
        result = AddressesResult()
        minutes: set[int] = set()
        for hour in self.hours:
            minutes |= _HourCount(self, hour).run(result)
        for number, file in enumerate(self.counted):
            if not minutes.isdisjoint(_minutes_between(file)):
                self._replace(file, minutes, f"k{self.hours[0].hour:08d}.{number:05d}", result)
        return result

    def _replace(self, file: StagedFile, minutes: Collection[int], task: str, result: AddressesResult) -> None:
        """Remove a file if it has any of these minutes; its other minutes go to another one."""
        store = self.settings.staging.store
        source = ds.dataset(store.full_paths(places(store, [file.path], None)), ADDRESSES, "parquet", store.files)
        rows = source.to_table()
        counted = pc.divide(rows.column("minute").cast(pa.int64()), MINUTE_US)
        is_replaced = pc.is_in(counted, pa.array(sorted(minutes), pa.int64()))
        if not pc.any(is_replaced).as_py():
            return
        result.removed.append(file)
        left = rows.filter(pc.invert(is_replaced))
        if left.num_rows:
            with self.settings.attempt(task) as attempt:
                attempt.table(TABLE, ADDRESSES, dated_by="minute").write(left)
                result.files += attempt.close()


@dataclass
class AddressesResult:
    files: list[StagedFile] = field(default_factory=list)
    removed: list[StagedFile] = field(default_factory=list)
    carry: dict[str, StagedFile] = field(default_factory=dict)
    """By its name."""
    counted: set[int] = field(default_factory=set)
    """The minutes of which something was new."""
    latencies: list[pa.Table] = field(default_factory=list)
    """Of those minutes, by hour; see gold/addresses.py."""


class _HourCount:
    """Counts one hour."""

    def __init__(self, task: AddressesTask, hour: Hour) -> None:
        self._task, self._hour = task, hour
        self._store = task.settings.staging.store
        self._counts = AddressCounts()

    def run(self, result: AddressesResult) -> set[int]:
        """Write the rows of all minutes of which something is new; return these minutes."""
        hour, counts = self._hour, self._counts
        first = hour.hour * HOUR_MINUTES
        self._add([(file, file.staged) for file in hour.new], first, first + HOUR_MINUTES)
        minutes = set(counts.minutes())
        if hour.is_anew:
            self._add(self._old(), first, first + HOUR_MINUTES)
            minutes = set(range(first, first + HOUR_MINUTES))
        else:
            self._add_known(sorted(minutes))
        rows = counts.rows()
        if rows.num_rows:
            self._write(rows, result)
        if not self._task.settings.final:
            self._carry([minute for minute in counts.minutes() if self._task.open.has(minute)], result)
        result.counted |= minutes
        result.latencies.append(counts.latencies())
        return minutes

    def _add_known(self, minutes: Sequence[int]) -> None:
        """Add what was counted before; of what is not carried, the rows in the tables."""
        lost = []
        for minute in minutes:
            if (path := self._hour.carried.get(minute)) is not None:
                carry = read(self._store, path, MinuteCarry)
                if carry.minute != minute:
                    raise LakeError(self._store.show(path), f"is of minute {carry.minute}, not of {minute}")
                self._counts.add_carry(carry)
            else:
                lost.append(minute)
        for start, stop in _runs(lost):
            self._add(self._old(), start, stop)

    def _old(self) -> list[tuple[StagedFile, str]]:
        return [(file, file.path) for file in self._hour.old]

    def _add(self, files: Sequence[tuple[StagedFile, str]], start: int, stop: int) -> None:
        """Add the rows of these minutes in files, each with its place."""
        for table, add in ((_SPOKEN, self._counts.add_messages), (_ASKED, self._counts.add_exchanges)):
            there = [
                path
                for file, path in files
                if file.table == table and _has_between(file, start * MINUTE_US, stop * MINUTE_US)
            ]
            for batch in _rows_of(self._store, there, table, start, stop):
                add(batch)

    def _write(self, rows: pa.Table, result: AddressesResult) -> None:
        minutes = rows.column("minute").cast(pa.int64()).to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(minutes)) + 1).tolist(), len(minutes)]
        if len(edges) - 1 > APART:
            result.files += self._written(f"a{self._hour.hour:08d}", rows)
            return
        for start, stop in pairwise(edges):
            name = f"m{minutes[start] // MINUTE_US:010d}"
            result.files += self._written(name, rows.slice(start, stop - start))

    def _written(self, task: str, rows: pa.Table) -> list[StagedFile]:
        with self._task.settings.attempt(task) as attempt:
            attempt.table(TABLE, ADDRESSES, dated_by="minute").write(rows)
            return attempt.close()

    def _carry(self, minutes: Sequence[int], result: AddressesResult) -> None:
        if not minutes:
            return
        with self._task.settings.attempt(f"q{self._hour.hour:08d}") as attempt:
            result.carry |= {carry_name(minute): self._carried(attempt, minute) for minute in minutes[-MOST_MINUTES:]}
            attempt.close()

    def _carried(self, attempt: Attempt, minute: int) -> StagedFile:
        return attempt.stage_bytes(carry_name(minute), pack(self._counts.carry(minute)))


def _runs(minutes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first minute and the one behind the last of each run of minutes."""
    start = 0
    for place, minute in enumerate(minutes):
        if place + 1 == len(minutes) or minutes[place + 1] != minute + 1:
            yield minutes[start], minute + 1
            start = place + 1


# --- which hours have something new


def hours_of(files: Iterable[StagedFile]) -> set[int]:
    """The hours that these files of messages and exchanges have rows of."""
    return {hour for file in files if file.table in COUNTED for hour in _hours_between(file)}


@dataclass(frozen=True)
class Sources:
    """What the tasks of a sensor count from: its files, all of them or those that may matter."""

    new: Sequence[StagedFile]
    removed: Sequence[StagedFile]
    kept: Sequence[StagedFile]
    """Those of earlier commits that stay."""
    carried: Mapping[int, str]
    """Paths of what was counted, by minute."""

    def tasks(self, settings: StepSettings, still_open: Open, parallelism: int) -> list[AddressesTask]:
        """Return tasks for all hours of which something is new. A file of counted minutes belongs to one task."""
        anew = hours_of(self.removed)
        hours = {hour: Hour(hour, (), is_anew=hour in anew) for hour in sorted(hours_of(self.new) | anew)}
        new, old = (_by_hour(files, hours) for files in (self.new, self.kept))
        carried: dict[int, dict[int, str]] = {}
        for minute, path in self.carried.items():
            carried.setdefault(minute // HOUR_MINUTES, {})[minute] = path
        hours = {
            hour: replace(one, new=tuple(new[hour]), old=tuple(old[hour]), carried=carried.get(hour, {}))
            for hour, one in hours.items()
        }
        counted = [file for file in self.kept if file.table == TABLE]
        groups = list(_together(hours, counted))
        share = max(1, -(-len(groups) // (4 * parallelism)))
        made = []
        for at in range(0, len(groups), share):
            some = groups[at : at + share]
            listed = tuple(hours[hour] for group, _ in some for hour in group)
            made.append(AddressesTask(settings, listed, tuple(file for _, files in some for file in files), still_open))
        return made


def _by_hour(files: Iterable[StagedFile], hours: Collection[int]) -> dict[int, list[StagedFile]]:
    found: dict[int, list[StagedFile]] = {hour: [] for hour in hours}
    for file in files:
        if file.table in COUNTED:
            for hour in found.keys() & set(_hours_between(file)):
                found[hour].append(file)
    return found


def _together(hours: Iterable[int], counted: Iterable[StagedFile]) -> Iterator[tuple[list[int], list[StagedFile]]]:
    """Yield hours that share files of counted minutes, with these files. A compacted file has a whole date."""
    group_of: dict[int, tuple[list[int], list[StagedFile]]] = {hour: ([hour], []) for hour in hours}
    for file in counted:
        its = [hour for hour in _hours_between(file) if hour in group_of]
        for hour in its:
            first, other = group_of[its[0]], group_of[hour]
            if other is not first:
                first[0].extend(other[0])
                first[1].extend(other[1])
                group_of.update(dict.fromkeys(other[0], first))
        if its:
            group_of[its[0]][1].append(file)
    yield from ((sorted(group), files) for hour, (group, files) in group_of.items() if hour == group[0])


def kept_of(carried: Mapping[int, str], made: Mapping[str, StagedFile], store: Store) -> tuple[set[str], set[str]]:
    """Return which of what is carried stays, and which of what was made is handed on: the newest, within the limits."""
    sizes = store.sizes(carried.values())
    listed = [(carry_name(minute), sizes.get(path, 0)) for minute, path in carried.items()]
    listed += [(name, file.bytes) for name, file in made.items()]
    stays: set[str] = set()
    total = 0
    for name, size in sorted(listed, reverse=True)[:MOST_MINUTES]:
        total += size
        if total > MOST_BYTES:
            break
        stays.add(name)
    return {name for name in map(carry_name, carried) if name in stays}, stays & made.keys()


def minute_of(name: str) -> int | None:
    """Return the minute of something carried; None if it is something else."""
    number = name.removeprefix(CARRIED)
    return int(number) if number != name and number.isdecimal() else None


def _hours_between(file: StagedFile) -> range:
    """The hours of a file: it holds one date, so there are 24 at most; rows without a sane time have none."""
    if file.min_ts is None or file.max_ts is None:
        return range(0)
    first, last = file.min_ts // HOUR_US, file.max_ts // HOUR_US
    return range(first, last + 1) if last - first < DAY_HOURS else range(0)


def _minutes_between(file: StagedFile) -> range:
    if not _hours_between(file) or file.min_ts is None or file.max_ts is None:
        return range(0)
    return range(file.min_ts // MINUTE_US, file.max_ts // MINUTE_US + 1)


def _has_between(file: StagedFile, start_us: int, stop_us: int) -> bool:
    return file.min_ts is not None and file.max_ts is not None and file.min_ts < stop_us and file.max_ts >= start_us


# --- rows


def _rows_of(store: Store, paths: Iterable[str], table: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """The rows of these minutes, many at once: to count a batch takes a time that goes by its addresses too."""
    waiting: list[pa.Table] = []
    for rows in _row_groups(store, paths, table, start, stop):
        waiting.append(rows)
        if sum(map(len, waiting)) >= ROWS_AT_ONCE:
            yield from _joined(waiting)
            waiting = []
    if waiting:
        yield from _joined(waiting)


def _joined(tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
    """Return the rows in one batch; none if there are no rows."""
    joined: list[pa.RecordBatch] = pa.concat_tables(tables).unify_dictionaries().combine_chunks().to_batches()
    return joined


def _row_groups(store: Store, paths: Iterable[str], table: str, start: int, stop: int) -> Iterator[pa.Table]:
    """The rows of these minutes, one row group after the other; of those of others only the times are read.

    A dataset would read ahead: the same rows then take 150 MB more.
    """
    columns, time = COUNTED[table]
    coded = [name for name in columns if name in TEXTS]
    first, last = (pa.scalar(at * MINUTE_US, TIMESTAMP) for at in (start, stop))
    for path in paths:
        place = store.full(path)
        with pq.ParquetFile(place, filesystem=store.files, read_dictionary=coded, pre_buffer=False) as file:
            for number in range(file.num_row_groups):
                times = file.read_row_group(number, [time]).column(time)
                is_wanted = pc.and_(pc.greater_equal(times, first), pc.less(times, last))
                if pc.any(is_wanted).as_py():
                    rows = file.read_row_group(number, list(columns), use_threads=False)
                    yield rows if pc.all(is_wanted, skip_nulls=False).as_py() else rows.filter(is_wanted)
