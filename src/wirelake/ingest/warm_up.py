"""What every worker does before its first task, and how it runs one."""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Any

from .runner import Task, run_task


def run_warm(task: Task, results: Sequence[Any], *_: object) -> Any:
    """Run a task in a worker; return its result, or a ``Failure``."""
    warm_up()
    kind = type(getattr(task, "task", task)).__name__
    _give_back_before(kind)
    result = run_task(task, results)
    _freeze(kind)
    return result


@lru_cache(maxsize=1)
def _give_back_before(_: str) -> None:
    """Give memory back to the system before a task of another kind than the last one: it needs other sizes, and would
    take more beside what lies free. Tasks of one kind use again what is free, which is quicker.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # only glibc has it; Windows has no CDLL(None)
        ctypes.CDLL(None).malloc_trim(0)


@cache
def _freeze(_: str) -> None:
    """Freeze what the first task of a kind has loaded: declarations and programs are a hundred thousand objects."""
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Load what decoding needs and freeze it. Every task calls this; only the first call in a process does anything.

    After each task a Spark worker searches all its objects for garbage. Frozen objects are not searched: with Arrow and
    Numba loaded that saves 28 ms per task.
    """
    from .. import columnar  # noqa: F401
    from ..columnar.selection import load_kernel

    _use_jemalloc()
    load_kernel()
    gc.collect()
    gc.freeze()


def _use_jemalloc() -> None:
    """jemalloc, where Arrow has it, returns pages later than the default allocator: an ingest takes a seventh less
    time, and its workers less memory.
    """
    import pyarrow as pa

    if "jemalloc" in pa.supported_memory_backends() and "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.jemalloc_memory_pool())
