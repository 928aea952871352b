"""Transactions are followed in parts, over all connections; what is undecided is carried on."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from wirelake.capture.decode import CaptureRange
from wirelake.generate import generate, write_pcap
from wirelake.ingest.tasks import StepSettings
from wirelake.ingest.tasks.decode import DecodeTask
from wirelake.ingest.tasks.gold import Bucket, GoldTask
from wirelake.ingest.tasks.transactions import Part, TransactionsTask
from wirelake.lake import Lake

PARTS = 2


def followed(place: Path, capture: Path, final: bool) -> tuple[set[bytes], set[str], dict[str, int]]:
    """The transactions that are decided, those that are open, and the outcomes."""
    lake = Lake.open(place, settings={"buckets": PARTS}, durable=False)
    with lake.writing() as run:
        settings = StepSettings(run.staging, "here", "k", PARTS, final=final)
        piece = CaptureRange(str(capture), "all", "pcap", size=capture.stat().st_size)
        decoded = DecodeTask(settings, 0, (piece,), None, is_last=True).run()
        buckets = [Bucket(k, (decoded.of_bucket(k),), None) for k in range(PARTS)]
        gold = [GoldTask(settings, (bucket,), decoded.last_us).run() for bucket in buckets]
        decided: set[bytes] = set()
        opened: set[str] = set()
        outcomes: dict[str, int] = {}
        for part in range(PARTS):
            calls, moves = (
                tuple(files[part] for result in gold if part in (files := getattr(result, kind)))
                for kind in ("calls", "moves")
            )
            result = TransactionsTask(settings, (Part(part, calls, moves, None),), decoded.last_us).run()
            assert set(result.carry) == (set() if final else {f"transactions-{part:03d}"})
            for file in result.files:
                if file.table == "gold/open":
                    rows = pq.ParquetFile(lake.store.full(file.staged)).read()
                    opened |= set(rows.column("correlation").to_pylist())
                    continue
                ids = pq.ParquetFile(lake.store.full(file.staged)).read().column("gtrid").to_pylist()
                assert not decided & set(ids)
                decided |= set(ids)
            outcomes = {name: outcomes.get(name, 0) + result.outcomes[name] for name in {*outcomes, *result.outcomes}}
    return decided, opened, outcomes


def test_each_transaction_is_decided_in_one_part_and_none_is_open_at_the_end(tmp_path: Path) -> None:
    capture = tmp_path / "all.pcap"
    write_pcap(generate("casual", seed=5, messages=2000, connections=4), capture)
    decided, opened, outcomes = followed(tmp_path / "final", capture, final=True)
    assert len(decided) == sum(outcomes.values()) > 10
    assert outcomes["committed"] and not opened
    so_far, *_ = followed(tmp_path / "more", capture, final=False)
    assert so_far <= decided
