"""Records of cells: by number, and in the order of the deployed writer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..spec.declare import Cell


def by_id(record: Iterable[Cell]) -> dict[int, Any]:
    """The values by number; of equal numbers the last one counts."""
    return {cell.fid: cell.value for cell in record}


def java_order(record: Iterable[Cell]) -> tuple[Cell, ...]:
    """The cells in the order in which the Java API writes them: that of its chained hash table.

    The table starts with 11 buckets. Before a new number is added to one that is three quarters full, it grows to
    twice its size and one, moving entries bucket by bucket from the highest index down, each to the front of its new
    bucket. A cell whose number is there already replaces the value in place."""
    latest = {cell.fid: cell for cell in record}
    buckets: list[list[int]] = [[] for _ in range(11)]
    for count, fid in enumerate(latest):
        if count >= int(0.75 * len(buckets)):
            grown: list[list[int]] = [[] for _ in range(2 * len(buckets) + 1)]
            for bucket in reversed(buckets):
                for moved in bucket:
                    grown[moved % len(grown)].insert(0, moved)
            buckets = grown
        buckets[fid % len(buckets)].insert(0, fid)
    return tuple(latest[fid] for bucket in reversed(buckets) for fid in bucket)
