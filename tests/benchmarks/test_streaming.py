"""The small sister of ``python -m benchmarks.streaming``: nothing is lost on the way, and no time is asserted."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from benchmarks.streaming import at_once, live, read_again, recorded
from wirelake.lake import Lake


def test_what_a_hub_passes_on_is_in_the_lake_while_all_of_them_run(tmp_path: Path) -> None:
    found = live(tmp_path / "live", 400, 1.5, "200ms", "inline")
    lake = Lake.open(tmp_path / "live" / "lake", create=False)
    addresses = lake.dataset("silver/messages").to_table(columns=["address"]).column("address")
    warm = 5
    assert found.published == 300
    assert pc.sum(pc.equal(addresses, "plant.boiler")).as_py() == 2 * (found.published + warm)
    assert 2 * found.published <= found.rows <= found.messages and found.batches >= 2


def test_a_capture_that_is_read_in_steps_has_the_messages_of_one_ingest(tmp_path: Path) -> None:
    captures = recorded(tmp_path / "captures", 1, 400)
    messages, _ = at_once(captures, tmp_path / "batch")
    told, _, _ = read_again(captures, tmp_path / "stream", 20_000)
    assert len(told.batches) > 2 and len(told.cpu) == len(told.batches)
    assert sum(sum(batch.report.messages.values()) for batch in told.batches) == messages
