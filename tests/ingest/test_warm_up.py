"""What every worker does once."""

from __future__ import annotations

import ctypes
import gc
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from wirelake.ingest.warm_up import run_warm, warm_up

MEGABYTE = 1 << 20


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


@dataclass(frozen=True)
class Resident:
    """A task that returns how much memory this process has."""

    def run(self) -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096


@dataclass(frozen=True)
class Other(Resident):
    """A task of another kind."""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the allocator is not that of glibc")
def test_a_task_of_another_kind_begins_without_the_memory_that_the_last_one_left_free() -> None:
    try:
        run_warm(Resident(), [])
        held = [np.ones(MEGABYTE // 128) for _ in range(3200)]  # 64 KB each: the system gets none back by itself
        last = held[-1]
        del held
        left = run_warm(Resident(), [])
        assert run_warm(Other(), []) < left - 100 * MEGABYTE
        assert last.all()
    finally:
        gc.unfreeze()


@pytest.mark.parametrize("error", [TypeError("bad argument type"), OSError("dynamic loading is not supported")])
def test_tasks_run_where_the_allocator_cannot_be_asked(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: None) -> None:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    try:
        assert run_warm(Resident(), []) > 0 and run_warm(Other(), []) > 0
    finally:
        gc.unfreeze()
