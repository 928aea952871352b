"""``gold/open``: what is not decided yet. Small, and replaced by each commit.

Every step object of this room that keeps something undecided gives it by its method ``open() -> pa.Table`` of this
schema: exchanges their requests without a reply, sessions the connections that have not ended, transactions those
with a branch whose end was not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ..columnar.schema import TIMESTAMP, documented
from .arrays import table_of

OPEN = documented(
    ("kind", pa.string(), "`request`, `session` or `transaction`"),
    ("protocol", pa.string(), "the protocol"),
    ("connection", pa.string(), "the connection; of a transaction, that of its first branch"),
    ("address", pa.string(), "topic, service, path or queue of a request; server of a session"),
    ("correlation", pa.string(), "what its reply will carry; of a transaction, its gtrid"),
    ("since_ts", TIMESTAMP, "when it began"),
    ("limit_us", pa.int64(), "how long the requester waits; null if nothing limits it"),
    ("detail", pa.string(), "what is still missing, in words"),
)


def open_rows(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Return sessions or transactions as rows of the table, in a fixed order."""

    def place(row: dict[str, Any]) -> tuple[int, str, str]:
        return row["since_ts"] or 0, row["connection"] or "", row.get("correlation") or ""

    return pa.Table.from_pylist(sorted(rows, key=place), OPEN)


def open_requests(exchanges: pa.Table) -> pa.Table:
    """Return open requests, which are rows of gold/exchanges, as rows of the table."""
    size = len(exchanges)
    made = {
        "kind": pa.repeat("request", size),
        "since_ts": exchanges["request_ts"],
        "detail": pa.repeat("no reply yet", size),
    }
    return table_of(OPEN, made, exchanges)
