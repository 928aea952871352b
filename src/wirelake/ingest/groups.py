"""Put units of work into as few tasks as keep all cores busy: a task costs some time, however little it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
ENOUGH_ROWS = 50_000
"""What is worth a task of its own: it takes several times as long as beginning a task."""
TASKS_PER_CORE = 2


def grouped(units: Sequence[T], sizes: Sequence[int], cores: int) -> list[list[T]]:
    """Divide units among tasks of about the same size; the units of a task keep their order."""
    total = sum(sizes)
    count = min(len(units), TASKS_PER_CORE * cores, max(1, total // ENOUGH_ROWS))
    if not units:
        return []
    filled = [0] * count
    chosen: list[list[int]] = [[] for _ in range(count)]
    for i in sorted(range(len(units)), key=lambda i: -sizes[i]):
        least = filled.index(min(filled))
        filled[least] += sizes[i]
        chosen[least].append(i)
    return [[units[i] for i in sorted(numbers)] for numbers in chosen if numbers]
