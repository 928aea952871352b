"""``gold/open``: what is not decided yet. Small, and replaced by each commit.

Every step object of this room that keeps something undecided gives it by its method ``open() -> pa.Table`` of this
schema: exchanges their requests without a reply, sessions the connections that have not ended, transactions those
with a branch whose end was not seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ..columnar.schema import TIMESTAMP
from .schema import column

OPEN = pa.schema(
    [
        column("kind", pa.string(), "`request`, `session` or `transaction`"),
        column("protocol", pa.string(), "the protocol"),
        column("connection", pa.string(), "the connection; of a transaction, that of its first branch"),
        column("address", pa.string(), "topic, service, path or queue of a request; server of a session"),
        column("correlation", pa.string(), "what its reply will carry; of a transaction, its gtrid"),
        column("since_ts", TIMESTAMP, "when it began"),
        column("limit_us", pa.int64(), "how long the requester waits; null if nothing limits it"),
        column("detail", pa.string(), "what is still missing, in words"),
    ]
)


def open_rows(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """Undecided things as rows of the table, in a fixed order."""
    ordered = sorted(rows, key=lambda row: (row["since_ts"] or 0, row["connection"] or "", row["correlation"] or ""))
    return pa.Table.from_pylist(ordered, OPEN)
