"""Arrow batches in staged files: what goes in comes out, one batch at a time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from wirelake.errors import LakeError
from wirelake.lake import Staging, read_ipc, stage_ipc
from wirelake.lake.store import Store

SCHEMA = pa.schema([("n", pa.int64()), ("blob", pa.binary())])


def batch(start: int, count: int = 10) -> pa.RecordBatch:
    numbers = list(range(start, start + count))
    return pa.RecordBatch.from_pydict({"n": numbers, "blob": [bytes(n % 7) for n in numbers]}, schema=SCHEMA)


def test_batches_come_back_one_at_a_time(tmp_path: Path) -> None:
    staging = Staging(Store.at(tmp_path), "run", 1)
    batches = [batch(0), batch(10, 0), batch(10, 3)]
    with staging.attempt(1) as attempt:
        file = stage_ipc(attempt, "facts-0", SCHEMA, batches)
        attempt.close()
    assert file.rows == 13
    assert file.bytes == (tmp_path / file.staged).stat().st_size
    reader = read_ipc(staging.store, file)
    assert next(reader).equals(batches[0])
    assert list(reader) == batches[1:]


def test_several_streams_grow_side_by_side(tmp_path: Path) -> None:
    staging = Staging(Store.at(tmp_path), "run", 1)
    with staging.attempt(1) as attempt:
        for k in range(12):
            attempt.stream(f"bucket-{k % 3}", SCHEMA).write(batch(10 * k))
        files = [attempt.stream(f"bucket-{k}", SCHEMA).close() for k in range(3)]
        attempt.close()
    for k, file in enumerate(files):
        assert [b.column(0)[0].as_py() for b in read_ipc(staging.store, file)] == [10 * n for n in range(k, 12, 3)]


def test_a_stream_without_a_batch_is_a_file_without_rows(tmp_path: Path) -> None:
    staging = Staging(Store.at(tmp_path), "run", 1)
    with staging.attempt(1) as attempt:
        file = stage_ipc(attempt, "none", SCHEMA, [])
        attempt.close()
    assert list(read_ipc(staging.store, file)) == []


def test_a_file_that_is_missing_or_broken_is_said_in_one_line(tmp_path: Path) -> None:
    staging = Staging(Store.at(tmp_path), "run", 1)
    with pytest.raises(LakeError, match=r"nowhere\.arrow: cannot be read: No such file or directory$"):
        list(read_ipc(staging.store, "nowhere.arrow"))
    (tmp_path / "text").write_text("this is no Arrow at all\n" * 9)
    with pytest.raises(LakeError, match=r"text: cannot be read: [^\n]+$"):
        list(read_ipc(staging.store, "text"))
