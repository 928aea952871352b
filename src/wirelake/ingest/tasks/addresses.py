"""Count messages and exchanges by address and minute, hour by hour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds

from ...columnar.schema import TIMESTAMP
from ...gold.addresses import ADDRESSES, EXCHANGE_COLUMNS, MESSAGE_COLUMNS, TEXTS, count_addresses
from ...gold.exchanges import EXCHANGES
from ...gold.facts import MESSAGES
from ...lake import Lake, StagedFile, Staging
from ...lake.store import Store

HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class AddressesTask:
    """Hours (since 1970) of which something new is known, each with the files that may have rows of it."""

    staging: Staging
    hours: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]

    def run(self) -> list[StagedFile]:
        files = []
        for hour, messages, exchanges in self.hours:
            with self.staging.attempt(f"a{hour:08d}") as attempt:
                rows = count_addresses(
                    _rows_of(self.staging.store, messages, MESSAGES, MESSAGE_COLUMNS, "ts", hour),
                    _rows_of(self.staging.store, exchanges, EXCHANGES, EXCHANGE_COLUMNS, "request_ts", hour),
                ).rows
                if rows.num_rows:
                    attempt.table("gold/addresses", ADDRESSES, dated_by="minute").write(rows)
                files += attempt.close()
        return files


# --- which hours are counted anew


def hours_of(files: Iterable[StagedFile]) -> list[int]:
    """The hours that these files of messages and exchanges have rows of."""
    return sorted({hour for file in files for hour in _hours(file)})


def address_tasks(
    lake: Lake, staging: Staging, new: Sequence[StagedFile], hours: Sequence[int], parallelism: int
) -> list[AddressesTask]:
    """The minutes of these hours are counted anew, from the files that the lake has and the new ones."""
    messages, exchanges = _by_hour(lake, new, "silver/messages"), _by_hour(lake, new, "gold/exchanges")
    share = max(1, -(-len(hours) // (4 * parallelism)))
    return [
        AddressesTask(
            staging, tuple((hour, messages.get(hour, ()), exchanges.get(hour, ())) for hour in hours[at : at + share])
        )
        for at in range(0, len(hours), share)
    ]


def replaced_by(hours: Sequence[int], lake: Lake) -> list[StagedFile]:
    """The files of earlier commits whose hours are counted anew."""
    again = {f"-a{hour:08d}-" for hour in hours}
    return [file for file in lake.files("gold/addresses") if any(part in file.name for part in again)]


def _by_hour(lake: Lake, new: Sequence[StagedFile], table: str) -> dict[int, tuple[str, ...]]:
    places: dict[int, list[str]] = {}
    committed = [(file, file.path) for file in lake.files(table)]
    for file, path in [*committed, *((file, file.staged) for file in new if file.table == table)]:
        for hour in _hours(file):
            places.setdefault(hour, []).append(path)
    return {hour: tuple(paths) for hour, paths in places.items()}


def _hours(file: StagedFile) -> range:
    if file.table not in ("silver/messages", "gold/exchanges") or file.min_ts is None or file.max_ts is None:
        return range(0)
    return range(file.min_ts // HOUR_US, file.max_ts // HOUR_US + 1)


# --- rows


def _rows_of(
    store: Store, paths: tuple[str, ...], schema: pa.Schema, columns: Sequence[str], time: str, hour: int
) -> Iterator[pa.RecordBatch]:
    """The rows of an hour, in batches; row groups of other hours are not read."""
    if not paths:
        return iter(())
    coded = [
        field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in TEXTS else field
        for field in schema.remove_metadata()
    ]
    files = ds.ParquetFileFormat(dictionary_columns=set(TEXTS) & set(columns))
    source = ds.dataset([store.full(path) for path in paths], pa.schema(coded), files, store.files)
    start, stop = (pa.scalar(at * HOUR_US, TIMESTAMP) for at in (hour, hour + 1))
    wanted = (ds.field(time) >= start) & (ds.field(time) < stop)
    batches: Iterator[pa.RecordBatch] = source.to_batches(
        columns=list(columns), filter=wanted, use_threads=False, batch_readahead=1, fragment_readahead=1
    )
    return batches
