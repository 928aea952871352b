"""Small sisters of the benchmarks of queues: what they measure works."""

from __future__ import annotations

from pathlib import Path

from benchmarks.live import HUB, running
from benchmarks.queue_soak import judged, run
from benchmarks.queues import CONFIG, RUNS, SERVICES, sync_loop, table
from benchmarks.queues import judged as rows_of
from benchmarks.queues_load import run_load


def test_messages_come_out_in_order_after_the_hub_was_killed(tmp_path: Path) -> None:
    assert run(tmp_path, 1_500) == []


def test_a_hub_that_grows_is_found() -> None:
    (fault,) = judged("enqueues", [100 << 20, 400 << 20])
    assert fault == "enqueues: the hub grew from 100 to 400 MiB"


def test_every_kind_of_load_is_served(tmp_path: Path) -> None:
    (tmp_path / "hub.toml").write_text(CONFIG)
    (tmp_path / "bench_services.py").write_text(SERVICES)
    with running("-c", HUB, "serve", "--casual", "127.0.0.1:0", "--config", str(tmp_path / "hub.toml")) as hub:
        for kind in ("enqueue", "transaction", "call"):
            assert run_load(hub["casual"].port, kind, 4, 0.2) > 0
    assert sync_loop(tmp_path, 0.05) > 0


def test_a_sync_can_be_made_slower_for_both(tmp_path: Path) -> None:
    (tmp_path / "hub.toml").write_text(CONFIG)
    (tmp_path / "bench_services.py").write_text(SERVICES)
    slow = f"from benchmarks.queues import slow_down; slow_down(50); {HUB}"
    with running("-c", slow, "serve", "--casual", "127.0.0.1:0", "--config", str(tmp_path / "hub.toml")) as hub:
        assert 0 < run_load(hub["casual"].port, "enqueue", 1, 0.3) < 1 / 0.05
    assert 0 < sync_loop(tmp_path, 0.2, 50) < 1 / 0.05


def test_what_is_too_slow_is_marked() -> None:
    names = (*RUNS, "calls")
    rows = rows_of([{**dict.fromkeys(names, 2.5), **{f"{name} rate": 100.0 for name in names}}])
    assert [row["run"] for row in rows if not row["passed"]] == ["32 producers", "256 producers"]
    assert table(rows, 40.0).count("MISSED") == 2
