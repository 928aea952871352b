"""What every worker does once."""

from __future__ import annotations

import gc
import os
import platform
from pathlib import Path

import pytest

from wirelake.ingest.warm_up import run_warm, warm_up


def test_workers_freeze_what_they_have_loaded() -> None:
    before = gc.get_freeze_count()
    warm_up.cache_clear()
    try:
        warm_up()
        assert gc.get_freeze_count() > before
        frozen = gc.get_freeze_count()
        warm_up()
        assert gc.get_freeze_count() <= frozen
    finally:
        gc.unfreeze()
        warm_up.cache_clear()


class Fill:
    """Leaves free memory behind that the C library keeps: something small that is in use lies behind it."""

    def run(self) -> bytes:
        parts = [bytes(100_000) for _ in range(1000)]
        return parts[-1]


class Resident:
    def run(self) -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be asked to give memory back")
def test_a_worker_gives_back_what_tasks_of_another_kind_have_left() -> None:
    run_warm(Resident(), ())
    kept = run_warm(Fill(), ())
    before = Resident().run()
    after = run_warm(Resident(), ())
    assert kept
    assert before - after > 50_000_000
