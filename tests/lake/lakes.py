"""Small lakes of numbers, and all files of a lake, whatever it says about them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow import fs

from wirelake.lake import Lake, Run, StagedFile
from wirelake.lake.store import Store

SCHEMA = pa.schema([("ts", pa.timestamp("us", "UTC")), ("n", pa.int64())])


def rows(*numbers: int, ts: int = 0) -> pa.RecordBatch:
    columns = [pa.array([ts] * len(numbers), SCHEMA.field("ts").type), pa.array(numbers, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def stage(run: Run, table: str, *numbers: int, task: int = 0, **options: Any) -> list[StagedFile]:
    with run.staging.attempt(task) as attempt:
        attempt.table(table, SCHEMA, **options).write(rows(*numbers))
        return attempt.close()


def numbers(lake: Lake, table: str) -> list[int]:
    return sorted(lake.dataset(table, SCHEMA).to_table().column("n").to_pylist())


def tree(store: Store, path: str) -> list[str]:
    """The files below a directory, as paths in the lake."""
    selector = fs.FileSelector(store.full(path), allow_not_found=True, recursive=True)
    found = [info for info in store.files.get_file_info(selector) if info.is_file]
    return sorted(info.path[len(store.root) + 1 :] for info in found)
