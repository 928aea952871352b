"""Count messages and exchanges by address and minute, hour by hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...columnar.schema import TIMESTAMP
from ...gold.addresses import ADDRESSES, EXCHANGE_COLUMNS, MESSAGE_COLUMNS, TEXTS, count_addresses
from ...lake import StagedFile
from ...lake.store import Store
from . import StepSettings

HOUR_US = 3_600_000_000
DAY_HOURS = 24
ROWS_AT_ONCE = 1 << 19
"""Rows that are counted at once."""


@dataclass(frozen=True)
class AddressesTask:
    """Hours (since 1970) of which something new is known, each with the files that may have rows of it."""

    settings: StepSettings
    hours: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]

    def run(self) -> AddressesResult:
        result = AddressesResult()
        store = self.settings.staging.store
        for hour, messages, exchanges in self.hours:
            with self.settings.attempt(f"a{hour:08d}") as attempt:
                counts = count_addresses(
                    _rows_of(store, messages, MESSAGE_COLUMNS, "ts", hour),
                    _rows_of(store, exchanges, EXCHANGE_COLUMNS, "request_ts", hour),
                )
                if counts.rows.num_rows:
                    attempt.table("gold/addresses", ADDRESSES, dated_by="minute").write(counts.rows)
                result.files += attempt.close()
                result.latencies.append(counts.latencies)
        return result


@dataclass
class AddressesResult:
    files: list[StagedFile] = field(default_factory=list)
    latencies: list[pa.Table] = field(default_factory=list)
    """Of each hour; see gold/addresses.py."""


# --- which hours are counted anew


def hours_of(files: Iterable[StagedFile]) -> list[int]:
    """The hours that these files of messages and exchanges have rows of."""
    return sorted({hour for file in files for hour in _hours(file)})


def address_tasks(
    settings: StepSettings,
    committed: Iterable[StagedFile],
    new: Iterable[StagedFile],
    hours: Sequence[int],
    parallelism: int,
) -> list[AddressesTask]:
    """The minutes of these hours are counted anew, from the files that the lake has of the sensor and the new ones."""
    messages: dict[int, tuple[str, ...]] = {}
    exchanges: dict[int, tuple[str, ...]] = {}
    wanted = set(hours)
    for file, path in [*((file, file.path) for file in committed), *((file, file.staged) for file in new)]:
        places = messages if file.table == "silver/messages" else exchanges
        for hour in wanted.intersection(_hours(file)):
            places[hour] = (*places.get(hour, ()), path)
    share = max(1, -(-len(hours) // (4 * parallelism)))
    listed = [(hour, messages.get(hour, ()), exchanges.get(hour, ())) for hour in hours]
    return [AddressesTask(settings, tuple(listed[at : at + share])) for at in range(0, len(listed), share)]


def counted_anew(hours: Iterable[int], counted: Iterable[StagedFile]) -> tuple[list[int], list[StagedFile]]:
    """Return the hours to count when something new is known of these, and the files of gold/addresses that go.

    A file has one hour, or after a compaction a date: then all its hours are counted.
    """
    left, wanted, gone = list(counted), set(hours), list[StagedFile]()
    while again := [file for file in left if not wanted.isdisjoint(_hours_between(file))]:
        gone += again
        left = [file for file in left if file not in again]
        wanted.update(hour for file in again for hour in _hours_between(file))
    return sorted(wanted), gone


def _hours(file: StagedFile) -> range:
    """The hours of a file of messages or exchanges."""
    return _hours_between(file) if file.table in ("silver/messages", "gold/exchanges") else range(0)


def _hours_between(file: StagedFile) -> range:
    """The hours of a file: it holds one date, so there are 24 at most; rows without a sane time have none."""
    if file.min_ts is None or file.max_ts is None:
        return range(0)
    first, last = file.min_ts // HOUR_US, file.max_ts // HOUR_US
    return range(first, last + 1) if last - first < DAY_HOURS else range(0)


# --- rows


def _rows_of(
    store: Store, paths: Iterable[str], columns: Sequence[str], time: str, hour: int
) -> Iterator[pa.RecordBatch]:
    """The rows of an hour. They come many at once: to count a batch takes a time that goes by its addresses too."""
    waiting: list[pa.Table] = []
    for rows in _row_groups(store, paths, columns, time, hour):
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


def _row_groups(store: Store, paths: Iterable[str], columns: Sequence[str], time: str, hour: int) -> Iterator[pa.Table]:
    """The rows of an hour, one row group after the other; of those of other hours only the times are read.

    A dataset would read ahead: the same rows then take 150 MB more.
    """
    coded = [name for name in columns if name in TEXTS]
    start, stop = (pa.scalar(at * HOUR_US, TIMESTAMP) for at in (hour, hour + 1))
    for path in paths:
        place = store.full(path)
        with pq.ParquetFile(place, filesystem=store.files, read_dictionary=coded, pre_buffer=False) as file:
            for number in range(file.num_row_groups):
                times = file.read_row_group(number, [time]).column(time)
                is_wanted = pc.and_(pc.greater_equal(times, start), pc.less(times, stop))
                if pc.any(is_wanted).as_py():
                    rows = file.read_row_group(number, list(columns), use_threads=False)
                    yield rows if pc.all(is_wanted, skip_nulls=False).as_py() else rows.filter(is_wanted)
