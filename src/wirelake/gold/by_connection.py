"""Connections as a table, and facts by connection: what the steps of this room share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..capture.chunks import Connection

CONNECTIONS = pa.schema(
    [
        ("connection", pa.string()),
        ("capture", pa.string()),
        ("client", pa.string()),
        ("server", pa.string()),
        ("protocol", pa.string()),
        ("first_us", pa.int64()),
        ("last_us", pa.int64()),
        ("is_whole", pa.bool_()),
        ("ended", pa.string()),
        ("ended_us", pa.int64()),
    ]
)
"""What is known about connections. Addresses are ``host:port``; ``ended`` is null while a connection is open."""


def connection_rows(connections: Iterable[Connection], capture: str | None = None) -> pa.Table:
    """Connections of the capture room as rows."""
    return pa.Table.from_pylist(
        [
            {
                "connection": one.id,
                "capture": capture,
                "client": endpoint(one.client, one.client_port),
                "server": endpoint(one.server, one.server_port),
                "protocol": one.protocol,
                "first_us": one.first_us,
                "last_us": one.last_us,
                "is_whole": one.is_whole,
                "ended": one.ended or None,
                "ended_us": one.ended_us,
            }
            for one in connections
        ],
        CONNECTIONS,
    )


def endpoint(host: str, port: int) -> str:
    """``host:port``; the host of IPv6 in brackets."""
    if not port:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@dataclass(frozen=True)
class Runs:
    """Facts by connection: those of ``names[i]`` are the rows ``starts[i] .. starts[i + 1]``."""

    names: list[str]
    starts: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)

    def spread(self, values: Any) -> NDArray[Any]:
        """One value per connection -> one per row."""
        return np.repeat(np.asarray(values), self.lengths)


def runs_of(facts: pa.Table) -> Runs:
    """The connections of facts that are sorted by connection."""
    if not facts.num_rows:
        return Runs([], np.zeros(1, np.int64))
    encoded = pc.run_end_encode(whole(facts, "connection"), pa.int64())
    ends = encoded.run_ends.to_numpy(zero_copy_only=False)
    return Runs(encoded.values.to_pylist(), np.concatenate([np.zeros(1, np.int64), ends]))


def whole(facts: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = facts.column(name)
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else column.combine_chunks() if chunks else pa.array([], column.type)


def integers(facts: pa.Table, name: str, missing: int = 0) -> NDArray[np.int64]:
    column = whole(facts, name)
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, missing)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def truths(facts: pa.Table, name: str, default: bool = False) -> NDArray[np.bool_]:
    column = whole(facts, name)
    if column.null_count == len(column):
        return np.full(len(column), default)
    return np.asarray(pc.fill_null(column, default).to_numpy(zero_copy_only=False), np.bool_)


def to_client(facts: pa.Table) -> NDArray[np.int8]:
    """Who sent each message: 0 the client (to_server), 1 the server (to_client)."""
    is_reply = pc.equal(whole(facts, "direction"), "to_client").to_numpy(zero_copy_only=False)
    return np.asarray(is_reply, np.int8)


def introductions(facts: pa.Table) -> list[tuple[int, dict[str, str]]]:
    """Return the rows that say something about the peers, and what they say."""
    said = whole(facts, "introduction")
    if said.null_count == len(said):
        return []
    rows = np.flatnonzero(pc.is_valid(said).to_numpy(zero_copy_only=False))
    return [(row, dict(pairs)) for row, pairs in zip(rows.tolist(), said.take(pa.array(rows)).to_pylist(), strict=True)]
