"""The small sister of ``python -m benchmarks.streaming``: nothing is lost on the way, and no time is asserted."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from benchmarks.streaming import ADDRESS, RATE, Held, Lived, at_once, live, read_again, recorded, too_much
from wirelake.lake import Lake

MOST_BEHIND = 3
"""The step that runs when the load ends, the one behind it, and one for what the tap has still to write."""


def test_each_message_of_a_hub_under_load_is_one_row_and_no_step_falls_behind(tmp_path: Path) -> None:
    found = live(tmp_path / "live", RATE, 10, "1s", "inline")
    lake = Lake.open(tmp_path / "live" / "lake", create=False)
    rows = lake.dataset("silver/messages").to_table(columns=["address", "connection", "direction", "offset"])
    warm = 5
    assert found.published == RATE * 10 / 2
    assert pc.sum(pc.equal(rows["address"], ADDRESS)).as_py() == 2 * (found.published + warm)
    assert len(rows.group_by(["connection", "direction", "offset"]).aggregate([])) == len(rows)
    assert 2 * found.published <= found.rows <= found.messages == len(rows) and found.batches >= 4
    assert found.batches_behind <= MOST_BEHIND


def test_a_capture_that_is_read_in_steps_has_the_messages_of_one_ingest(tmp_path: Path) -> None:
    captures = recorded(tmp_path / "captures", 1, 400)
    messages, _ = at_once(captures, tmp_path / "batch")
    told, _, _ = read_again(captures, tmp_path / "stream", 20_000)
    assert len(told.batches) > 2 and len(told.cpu) == len(told.batches)
    assert sum(sum(batch.report.messages.values()) for batch in told.batches) == messages


def test_a_long_run_that_is_slow_or_grows_is_told() -> None:
    def lived(p99: float, growth: int) -> Lived:
        held = [Held(n, {"java": 1000 + growth * n}, 100, 50 + growth * n, 500, n) for n in range(90)]
        return Lived(1, 2, 2, 0.5, p99, p99, 1, 0, 100, 1.0, held)

    assert too_much(lived(2.0, 0)) == []
    assert [fault.split()[0] for fault in too_much(lived(3.5, 10))] == ["p99", "memory:", "files"]
