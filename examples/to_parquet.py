"""Decode a file of frames as columns and write them as Parquet: one file for messages, one for quarantined ranges.

python examples/to_parquet.py PROTOCOL FILE MESSAGES.parquet QUARANTINE.parquet [COLUMN ...]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from wirelake import columnar, load
from wirelake.columnar.schema import QUARANTINE


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            yield chunk


def main(protocol: str, name: str, messages: str, quarantine: str, *wanted: str) -> None:
    columns = wanted or columnar.default_columns(load(protocol))
    schema = columnar.schema(load(protocol), columns)
    read = quarantined = 0
    with pq.ParquetWriter(messages, schema) as good, pq.ParquetWriter(quarantine, QUARANTINE) as bad:
        for batch in columnar.decode_stream(protocol, chunks(Path(name)), columns):
            good.write_batch(batch.records)
            bad.write_batch(batch.quarantined)
            read += batch.records.num_rows
            quarantined += batch.quarantined.num_rows
    print(f"{read} messages, {quarantined} quarantined ranges, {len(columns)} columns")


if __name__ == "__main__":
    main(*sys.argv[1:])
