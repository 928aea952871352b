"""Facts by protocol and by connection, as the arrays that several steps read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .arrays import Ints, coded, hashed, integers, joined, run_starts, valid, which


@dataclass(frozen=True)
class Runs:
    """Facts by connection: those of ``names[i]`` are the rows ``starts[i] .. starts[i + 1]``."""

    names: list[str]
    starts: Ints

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    def spread(self, values: Any) -> NDArray[Any]:
        """Turn one value per connection into one per row."""
        return np.repeat(np.asarray(values), self.lengths)


def runs_of(facts: pa.Table) -> Runs:
    """Return the connections of facts that are sorted by connection."""
    if not facts.num_rows:
        return Runs([], np.zeros(1, np.int64))
    starts = run_starts(coded(facts["connection"])[1])
    return Runs(facts["connection"].take(pa.array(starts[:-1])).to_pylist(), starts)


def to_client(facts: pa.Table) -> NDArray[np.int8]:
    """Return who sent each message: 0 the client (to_server), 1 the server (to_client)."""
    return (which(facts["direction"], ["to_client"]) >= 0).astype(np.int8)


def introductions(facts: pa.Table) -> list[tuple[int, dict[str, str]]]:
    """Return the rows that say something about the peers, and what they say."""
    said = joined(facts["introduction"])
    if said.null_count == len(said):
        return []
    rows = np.flatnonzero(valid(said))
    return [(row, dict(pairs)) for row, pairs in zip(rows.tolist(), said.take(pa.array(rows)).to_pylist(), strict=True)]


@dataclass
class ProtocolFacts:
    """``rows`` are the places of these facts in the feed; ``side`` is who sent each: 0 the client, 1 the server."""

    protocol: str
    table: pa.Table
    rows: Ints
    runs: Runs
    side: NDArray[np.int8]
    ts: Ints
    code: Ints

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def connection_hashes(self) -> Ints:
        return self.runs.spread(hashed(pa.array(self.runs.names, pa.string())))


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


def _facts_of(protocol: str, table: pa.Table, rows: Ints) -> ProtocolFacts:
    return ProtocolFacts(
        protocol, table, rows, runs_of(table), to_client(table), integers(table["ts"]), integers(table["code"])
    )
