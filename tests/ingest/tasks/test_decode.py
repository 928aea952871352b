"""Decode tasks: every connection has one bucket, and every chunk a row."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from wirelake.capture.decode import CaptureRange
from wirelake.generate import generate, write_pcap
from wirelake.ingest.tasks import StepSettings
from wirelake.ingest.tasks.decode import DecodeResult, DecodeTask, bucket_of
from wirelake.lake import Lake, read_ipc

BUCKETS = 3


def test_the_legs_of_a_server_share_a_bucket_only_behind_a_broker() -> None:
    connections = [f"{server:04x}{client:04x}00000000" for server in range(40) for client in range(40)]
    by_server = {name[:4]: bucket_of(name, True, 8) for name in connections}
    assert all(bucket_of(name, True, 8) == by_server[name[:4]] for name in connections)
    assert set(by_server.values()) == set(range(8))
    assert len({bucket_of(name, False, 8) for name in connections if name.startswith("0001")}) == 8


@pytest.mark.parametrize("keep_bytes", [False, True])
def test_messages_are_counted_and_shared_out_by_connection(tmp_path: Path, keep_bytes: bool) -> None:
    capture = tmp_path / "some.pcap"
    write_pcap(generate(("casual", "mb"), seed=3, messages=300, connections=6), capture)
    lake = Lake.open(tmp_path / "lake", settings={"buckets": BUCKETS}, durable=False)
    with lake.writing() as run:
        settings = StepSettings(run.staging, "here", "k", BUCKETS, final=True, keep_bytes=keep_bytes)
        piece = CaptureRange(str(capture), "some", "pcap", size=capture.stat().st_size)
        result: DecodeResult = DecodeTask(settings, 0, (piece,), None, is_last=True, is_only=True).run()
        tables = {file.table: pq.ParquetFile(lake.store.full(file.staged)).read() for file in result.files}
        shared = [
            {row["connection"] for batch in read_ipc(lake.store, file) for row in batch.to_pylist()}
            for file in result.shares["facts"].values()
        ]
    assert all(set(rows.column("sensor").to_pylist()) == {"here"} for rows in tables.values())
    assert sum(result.messages.values()) == tables["silver/messages"].num_rows > 0
    assert len(set.union(*shared)) == sum(map(len, shared)) == 12
    chunks = tables["bronze/chunks"]
    assert sum(chunks.column("length").to_pylist()) == result.bytes_decoded
    assert ("bytes" in chunks.column_names) is keep_bytes
    if keep_bytes:
        assert [len(data) for data in chunks.column("bytes").to_pylist()] == chunks.column("length").to_pylist()
