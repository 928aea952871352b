"""Count messages and exchanges by address and minute, hour by hour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.dataset as ds

from ..columnar.schema import TIMESTAMP
from ..gold.addresses import ADDRESSES, EXCHANGE_COLUMNS, MESSAGE_COLUMNS, TEXTS, addresses
from ..gold.exchanges import EXCHANGES
from ..gold.facts import MESSAGES
from ..lake import StagedFile, Staging
from .warm_up import warm_up

HOUR_US = 3_600_000_000


@dataclass(frozen=True)
class AddressesTask:
    """Hours (since 1970) of which something new is known, each with the files that may have rows of it."""

    staging: Staging
    hours: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]

    def run(self) -> AddressesResult:
        warm_up()
        result = AddressesResult()
        for hour, messages, exchanges in self.hours:
            with self.staging.attempt(f"a{hour:08d}") as attempt:
                rows = addresses(
                    _rows_of(self.staging, messages, MESSAGES, MESSAGE_COLUMNS, "ts", hour),
                    _rows_of(self.staging, exchanges, EXCHANGES, EXCHANGE_COLUMNS, "request_ts", hour),
                )
                if rows.num_rows:
                    attempt.table("gold/addresses", ADDRESSES, dated_by="minute").write(rows)
                result.files += attempt.close()
        return result


@dataclass
class AddressesResult:
    files: list[StagedFile] = field(default_factory=list)


def _rows_of(
    staging: Staging, paths: tuple[str, ...], schema: pa.Schema, columns: Sequence[str], time: str, hour: int
) -> Iterator[pa.RecordBatch]:
    """The rows of an hour, in batches; row groups of other hours are not read."""
    if not paths:
        return iter(())
    store = staging.store
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
