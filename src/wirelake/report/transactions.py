"""Distributed transactions: all their messages, and the two phases of each branch as bars of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from ..gold.transactions import COMMIT, PREPARE, ROLLBACK, STEPS, WORK
from ..protocols.casual import XA_RETURN
from .conversation_ids import Spot, TransactionId
from .exchanges import Pair
from .views import rows
from .windows import give

XID_OF = {"casual": "xid"}
"""The column of transaction ids, where a protocol has some."""
PHASES = {WORK: "work", PREPARE: "prepare", COMMIT: "commit", ROLLBACK: "rollback"}
MOST_REQUESTS = 40
"""Requests of a transaction that are shown."""

_GTRIDS = pa.schema([("gtrid", pa.string())])


@dataclass
class Transaction:
    """One transaction: its row in gold, if it is decided, and its requests."""

    gtrid: str
    row: dict[str, Any] | None
    protocol: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    """How many requests there are."""

    @property
    def outcome(self) -> str:
        return self.row["outcome"] if self.row else "open"

    def pairs(self) -> list[Pair]:
        return list(dict.fromkeys((row["connection"], row["correlation"]) for row in self.requests))


def read_transactions(tables: duckdb.DuckDBPyConnection, ids: Sequence[TransactionId]) -> dict[str, Transaction]:
    """The transactions with these ids; those that the lake does not have are left out."""
    if not ids:
        return {}
    give(tables, "wanted_gtrids", _GTRIDS, [(name,) for name in sorted({one.gtrid for one in ids})])
    decided = rows(tables, "select * from gold_transactions semi join wanted_gtrids using (gtrid)")
    requests: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for protocol, column in XID_OF.items():
        for row in _requests(tables, protocol, column):
            requests[protocol, row["gtrid"], row["xid_format"]].append(row)
    made = {}
    for one in ids:
        found = _transaction(one, decided, requests)
        if found is not None:
            made[one.id] = found
    return made


def _transaction(
    one: TransactionId, decided: list[dict[str, Any]], requests: dict[tuple[str, str, int], list[dict[str, Any]]]
) -> Transaction | None:
    """The transaction of an id. Without a format it is one that is not decided, or whatever became of it."""
    row = next(
        (r for r in decided if r["gtrid"] == one.gtrid and one.format in (None, r["xid_format"])),
        None,
    )
    keys = [k for k in requests if k[1] == one.gtrid and one.format in (None, k[2])]
    if row is None and not keys:
        return None
    protocol = row["protocol"] if row is not None else keys[0][0]
    listed = [request for key in keys if key[0] == protocol for request in requests[key]]
    size = listed[0]["size"] if listed else 0
    return Transaction(one.gtrid, row, protocol, listed, size)


def _requests(tables: duckdb.DuckDBPyConnection, protocol: str, column: str) -> list[dict[str, Any]]:
    """The requests that carry these ids. Their answers are found by correlation: they may carry another id, or none."""
    steps = {name: step for name, step in STEPS[protocol].items() if step in PHASES}
    names = ", ".join(f"'{name}'" for name in steps)
    found = rows(
        tables,
        f"""
select connection, direction, "offset", epoch_us(ts) as ts, message, lower(hex(correlation)) as correlation,
       {column}.format as xid_format, lower(hex({column}.gtrid)) as gtrid, lower(hex({column}.bqual)) as bqual,
       count(*) over (partition by {column}.format, {column}.gtrid) as size
from silver_{protocol}
where {column}.gtrid in (select unhex(gtrid) from wanted_gtrids) and message in ({names})
qualify row_number() over (partition by {column}.format, {column}.gtrid
                           order by ts, connection, direction, "offset") <= {MOST_REQUESTS}
order by ts, connection, direction, "offset" """,
    )
    return [row | {"step": steps[row["message"]]} for row in found]


def answer_to(request: dict[str, Any], messages: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The answer to a request among the messages of its correlation."""
    for row in messages:
        is_later = request["ts"] is None or row["ts"] is None or row["ts"] >= request["ts"]
        if row["kind"] == "response" and row["direction"] != request["direction"] and is_later:
            return row
    return None


def branches(
    one: Transaction, messages: dict[Pair, list[dict[str, Any]]], labels: dict[str, str]
) -> list[dict[str, Any]]:
    """The branches with a bar for each request: from when it was asked to when it was answered."""
    bars: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request in one.requests:
        reply = answer_to(request, messages.get((request["connection"], request["correlation"]), ()))
        bars[request["bqual"], request["connection"]].append(
            {
                "phase": PHASES[request["step"]],
                "start": request["ts"],
                "end": reply["ts"] if reply is not None else None,
                "result": _result(request["step"], reply),
            }
        )
    outcomes = {(b["bqual"], b["connection"]): b["outcome"] for b in (one.row or {}).get("branches") or ()}
    return [
        {
            "branch": bqual,
            "label": labels.get(connection, ""),
            "outcome": outcomes.get((bqual, connection), one.outcome),
            "bars": listed,
        }
        for (bqual, connection), listed in bars.items()
    ]


def _result(step: int, reply: dict[str, Any] | None) -> str:
    if reply is None:
        return "no reply"
    status = reply["status"]
    if step == WORK:
        return "ok" if status in (None, "", "0") else str(status)
    try:
        return XA_RETURN.names.get(int(status), str(status))
    except (TypeError, ValueError):
        return str(status or "")


def unanswered(one: Transaction, messages: dict[Pair, list[dict[str, Any]]]) -> set[Spot]:
    """The requests that no answer came to."""
    return {
        Spot(request["connection"], request["direction"], request["offset"])
        for request in one.requests
        if answer_to(request, messages.get((request["connection"], request["correlation"]), ())) is None
    }
