"""What workers do, without a cluster: the tables are the same however captures with damage are cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from wirelake.capture.decode import CaptureRange
from wirelake.generate import generate, write_pcap
from wirelake.ingest.tasks import StepSettings
from wirelake.ingest.tasks.decode import DecodeTask
from wirelake.ingest.tasks.gold import Bucket, GoldTask
from wirelake.ingest.tasks.index import IndexTask
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN

BUCKETS = 2
WHOLE = 1 << 30


def gold_of(place: Path, files: list[Path], partition_bytes: int) -> dict[str, Counter[str]]:
    """The rows of every gold table that a bucket makes."""
    lake = Lake.open(str(place), settings={"buckets": BUCKETS})
    made: dict[str, Counter[str]] = {}
    with lake.writing() as run:
        settings = StepSettings(run.staging, "here", "k", BUCKETS, final=True)
        pieces = tuple(CaptureRange(str(path), "all", "pcap", size=path.stat().st_size) for path in files)
        tasks: list[DecodeTask] = []
        number, before = 0, None
        while pieces:
            found = IndexTask(settings, number, pieces, before, partition_bytes).run()
            for one in found.partitions:
                tasks.append(DecodeTask(settings, len(tasks), one.ranges, one.before))
            number, pieces, before = number + 1, found.rest, found.end.state.staged
        tasks.append(DecodeTask(settings, len(tasks), (), before, is_last=True))
        decoded = [task.run() for task in tasks]
        latest = max(one.last_us for one in decoded if one.last_us is not None)
        buckets = [Bucket(k, tuple(one.of_bucket(k) for one in decoded), None) for k in range(BUCKETS)]
        for file in GoldTask(settings, tuple(buckets), latest).run().files:
            rows = pq.ParquetFile(lake.store.full(file.staged)).read().to_pylist()
            made.setdefault(file.table, Counter()).update(map(repr, rows))
    return made


@pytest.mark.parametrize("seed", [1, 4, 5, 7])
def test_gold_does_not_depend_on_where_damaged_captures_are_cut(tmp_path: Path, seed: int) -> None:
    traffic = generate(BUILT_IN, seed=seed, messages=2400, connections=3, violations=0.05, corrupt=0.01)
    write_pcap(traffic, tmp_path / "all.pcap", files=4)
    files = sorted(tmp_path.glob("*.pcap"))
    whole = gold_of(tmp_path / "whole", files, WHOLE)
    assert set(whole) == {"gold/exchanges", "gold/sessions", "gold/violations"}
    cut = gold_of(tmp_path / "cut", files, 64 << 10)
    for table, rows in whole.items():
        assert cut[table] == rows, table
