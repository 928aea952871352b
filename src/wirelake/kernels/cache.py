"""What Numba found compiled, and what it had to compile, in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from numba.core.registry import CPUDispatcher


def cache_counts() -> tuple[int, int]:
    """How many kernels were found compiled on disk, and how many were compiled here."""
    stats = [kernel.stats for kernel in _kernels()]
    hits = sum(sum(one.cache_hits.values()) for one in stats)
    return hits, sum(sum(one.cache_misses.values()) for one in stats)


def _kernels() -> Iterator[CPUDispatcher]:
    """Every kernel of the modules that are loaded, once."""
    room = __package__ + "."
    for name, module in list(sys.modules.items()):
        if name.startswith(room):
            yield from (it for it in vars(module).values() if isinstance(it, CPUDispatcher) and it.__module__ == name)
