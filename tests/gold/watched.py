"""Generated traffic as the steps of gold get it: facts, connections, accounts; whole, or cut into feeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from wirelake.generate import Traffic
from wirelake.generate.truth import Truth
from wirelake.gold.connections import CONNECTIONS, endpoint

from .played import name_of, play

ACCOUNTS = pa.schema(
    [
        ("connection", pa.string()),
        ("direction", pa.string()),
        ("protocol", pa.string()),
        *((f"bytes_{what}", pa.int64()) for what in ("in", "decoded", "quarantined", "pending", "missing")),
        ("messages", pa.int64()),
    ]
)


@dataclass
class Fed:
    """What one commit brings."""

    facts: pa.Table
    connections: pa.Table
    accounts: pa.Table
    watermark: int


@dataclass
class Watched:
    facts: pa.Table
    truth: Truth
    place: dict[int, tuple[str, str, int]]

    def at_once(self) -> Fed:
        return next(self.cut([]))

    def cut(self, cuts: list[int]) -> Iterator[Fed]:
        """The traffic, cut at these times."""
        ts = self.facts.column("ts").cast(pa.int64()).to_numpy()
        bounds = [-1, *sorted(cuts), 2**62]
        for start, end in pairwise(bounds):
            facts = self.facts.filter(pa.array((ts > start) & (ts <= end)))
            heads, accounts = self._heads(start, end), self._accounts(self.facts.filter(pa.array(ts <= end)))
            yield Fed(facts, heads, accounts, min(end, int(ts.max(initial=0))))

    def randomly(self, seed: int, cuts: int) -> Iterator[Fed]:
        ts = self.facts.column("ts").cast(pa.int64()).to_pylist()
        return self.cut([Random(seed + i).choice(ts) for i in range(cuts)] if ts else [])

    def _heads(self, start: int, end: int) -> pa.Table:
        """Connections as they are known at ``end``; those that ended before ``start`` are not told again."""
        rows: list[dict[str, Any]] = []
        for one in self.truth.sessions:
            closed = one.closed_us if one.closed_us is not None and one.closed_us <= end else None
            if one.opened_us > end or (one.closed_us is not None and one.closed_us <= start):
                continue
            rows.append(
                {
                    "connection": name_of(one.connection),
                    "capture": "t.pcap",
                    "client": endpoint(*one.client),
                    "server": endpoint(*one.server),
                    "protocol": None,
                    "first_us": one.opened_us,
                    "last_us": closed,
                    "is_whole": True,
                    "ended": one.ended if closed is not None else None,
                    "ended_us": closed,
                }
            )
        return pa.Table.from_pylist(rows, CONNECTIONS)

    def _accounts(self, facts: pa.Table) -> pa.Table:
        grouped = facts.group_by(["connection", "direction", "protocol"]).aggregate(
            [("length", "sum"), ("ts", "count")]
        )
        rows = [
            {
                **{name: row[name] for name in ("connection", "direction", "protocol")},
                **{f"bytes_{what}": 0 for what in ("quarantined", "pending", "missing")},
                "bytes_in": row["length_sum"],
                "bytes_decoded": row["length_sum"],
                "messages": row["ts_count"],
            }
            for row in grouped.to_pylist()
        ]
        return pa.Table.from_pylist(rows, ACCOUNTS)


def watch(traffic: Traffic) -> Watched:
    played = play(traffic)
    return Watched(played.facts, traffic.truth, played.place)


def keys(table: pa.Table, *names: str) -> np.ndarray[Any, Any]:
    """Some columns as rows, for a comparison that shows what differs."""
    return np.array(list(zip(*(table.column(name).to_pylist() for name in names), strict=True)), object)
