"""The facts of one protocol, as the arrays that several steps read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .by_connection import Runs, integers, runs_of, to_client


@dataclass
class ProtocolFacts:
    """``rows`` are the places of these facts in the feed; ``side`` is who sent each: 0 the client, 1 the server."""

    protocol: str
    table: pa.Table
    rows: NDArray[np.int64]
    runs: Runs
    side: NDArray[np.int8]
    ts: NDArray[np.int64]
    code: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.table.num_rows)


def by_protocol(facts: pa.Table) -> list[ProtocolFacts]:
    """Divide the facts of a feed, which are sorted by connection, ts, order."""
    if not facts.num_rows:
        return []
    column = facts.column("protocol")
    names = sorted(pc.unique(column).to_pylist())
    if len(names) == 1:
        return [_facts_of(names[0], facts, np.arange(facts.num_rows))]
    parts = []
    for name in names:
        rows = np.flatnonzero(pc.equal(column, name).to_numpy())
        parts.append(_facts_of(name, facts.take(pa.array(rows)), rows))
    return parts


def _facts_of(protocol: str, table: pa.Table, rows: NDArray[np.int64]) -> ProtocolFacts:
    return ProtocolFacts(
        protocol, table, rows, runs_of(table), to_client(table), integers(table, "ts"), integers(table, "code")
    )
