"""Distributed transactions: their messages, and the two phases of each branch as bars over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from ..gold.tables import view_name
from ..protocols import known
from ..spec.columns import Column, columns
from ..spec.nodes import Protocol
from ..spec.roles import Place, label, places
from .conversation_ids import Spot, TransactionId
from .database import quoted, register_texts, rows
from .exchanges import Pair

WORK = "work"
MAX_REQUESTS = 40
"""Requests of a transaction in a conversation."""


@dataclass
class Transaction:
    """One transaction: its row in gold, if it is decided, and its requests."""

    gtrid: str
    row: dict[str, Any] | None
    protocol: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    """The number of its requests in the lake."""

    @property
    def outcome(self) -> str:
        return self.row["outcome"] if self.row else "open"

    def pairs(self) -> list[Pair]:
        return list(dict.fromkeys((row["connection"], row["correlation"]) for row in self.requests))


def read_transactions(tables: duckdb.DuckDBPyConnection, ids: Sequence[TransactionId]) -> dict[str, Transaction]:
    """Return the transactions with these ids, as far as the lake has them."""
    if not ids:
        return {}
    register_texts(tables, "wanted_gtrids", "gtrid", (id_.gtrid for id_ in ids))
    decided = rows(tables, "select * from gold_transactions semi join wanted_gtrids using (gtrid)")
    requests: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    for protocol in _with_branches(tables):
        for row in _requests(tables, protocol):
            requests[protocol.name, row["gtrid"], row["xid_format"]].append(row)
    transactions = ((id_.id, _transaction(id_, decided, requests)) for id_ in ids)
    return {name: transaction for name, transaction in transactions if transaction is not None}


def _transaction(
    id_: TransactionId, decided: list[dict[str, Any]], requests: dict[tuple[str, str, int], list[dict[str, Any]]]
) -> Transaction | None:
    """Return the transaction of an id. An id without a format is of one that was undecided when it was named."""
    row = next(
        (r for r in decided if r["gtrid"] == id_.gtrid and id_.format in (None, r["xid_format"])),
        None,
    )
    keys = [k for k in requests if k[1] == id_.gtrid and id_.format in (None, k[2])]
    if row is None and not keys:
        return None
    protocol = row["protocol"] if row is not None else keys[0][0]
    listed = [request for key in keys if key[0] == protocol for request in requests[key]]
    size = listed[0]["size"] if listed else 0
    return Transaction(id_.gtrid, row, protocol, listed, size)


def _with_branches(tables: duckdb.DuckDBPyConnection) -> list[Protocol]:
    """Return the protocols of the lake whose declaration says how their transactions go."""
    names = {row["table_name"] for row in rows(tables, "select table_name from information_schema.tables")}
    declared = (protocol for protocol in known() if view_name(f"silver/{protocol.name}") in names)
    return [protocol for protocol in declared if protocol.conduct.branches]


def _phases(protocol: Protocol) -> dict[str, str]:
    """Return the phase that each request belongs to."""
    branches = protocol.conduct.branches
    assert branches is not None
    ends = {branches.prepare: "prepare", branches.commit: "commit", branches.rollback: "rollback"}
    return dict.fromkeys(sorted(branches.work), WORK) | {name: phase for name, phase in ends.items() if name}


def _requests(tables: duckdb.DuckDBPyConnection, protocol: Protocol) -> list[dict[str, Any]]:
    """Return the requests that carry these ids. Their replies are found by correlation: they may carry another id."""
    phases = _phases(protocol)
    names = ", ".join(f"'{name}'" for name in phases)
    roles = places(protocol)
    xid = [_xid(protocol, place) for place in roles["xid"]]
    number, gtrid, bqual = (f"coalesce({', '.join(parts)})" for parts in zip(*xid, strict=True))
    correlation = ", ".join(_text(protocol, place) for place in roles.get("correlation", ())) or "null"
    requests = rows(
        tables,
        f"""
select connection, direction, "offset", epoch_us(ts) as ts, message, coalesce({correlation}) as correlation,
       {number} as xid_format, lower(hex({gtrid})) as gtrid, lower(hex({bqual})) as bqual,
       count(*) over (partition by {number}, {gtrid}) as size
from {quoted(view_name(f"silver/{protocol.name}"))}
where {gtrid} in (select unhex(gtrid) from wanted_gtrids) and message in ({names})
qualify row_number() over (partition by {number}, {gtrid}
                           order by ts, connection, direction, "offset") <= {MAX_REQUESTS}
order by ts, connection, direction, "offset" """,
    )
    return [row | {"phase": phases[row["message"]]} for row in requests]


def _xid(protocol: Protocol, place: Place) -> tuple[str, str, str]:
    """Return SQL for the format, global id and branch of a transaction id, as facts have them."""
    path, column = _sql(place), _column(protocol, place)
    if column.kind == "struct":
        return f"{path}.format", f"{path}.gtrid", f"{path}.bqual"
    return "0", path if column.type == "binary" else f"encode({path}::varchar)", "''::blob"


def _text(protocol: Protocol, place: Place) -> str:
    path = _sql(place)
    return f"lower(hex({path}))" if _column(protocol, place).type == "binary" else f"{path}::varchar"


def _sql(place: Place) -> str:
    return ".".join(map(quoted, place.path))


def _column(protocol: Protocol, place: Place) -> Column:
    found = columns(protocol)[place.path[0]]
    for name in place.path[1:]:
        found = found.children[name]
    return found


def reply_to(request: dict[str, Any], messages: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the reply to a request among the messages of its correlation."""
    for row in messages:
        is_later = request["ts"] is None or row["ts"] is None or row["ts"] >= request["ts"]
        if row["kind"] == "response" and row["direction"] != request["direction"] and is_later:
            return row
    return None


def branches(
    one: Transaction, messages: dict[Pair, list[dict[str, Any]]], labels: dict[str, str]
) -> list[dict[str, Any]]:
    """Return the branches with a bar for each request, which ends with its reply."""
    bars: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request in one.requests:
        reply = reply_to(request, messages.get((request["connection"], request["correlation"]), ()))
        bars[request["bqual"], request["connection"]].append(
            {
                "phase": request["phase"],
                "start": request["ts"],
                "end": reply["ts"] if reply is not None else None,
                "result": _result(one.protocol, request["phase"], reply),
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


def _result(protocol: str, phase: str, reply: dict[str, Any] | None) -> str:
    if reply is None:
        return "no reply"
    status = str(reply["status"] or "")
    if phase == WORK:
        return "ok" if status in ("", "0") else status
    declared = next(one for one in known() if one.name == protocol)
    return label(declared, reply["message"], "status", status)


def unanswered(one: Transaction, messages: dict[Pair, list[dict[str, Any]]]) -> set[Spot]:
    """Return the requests without a reply."""
    return {
        Spot.of(request)
        for request in one.requests
        if reply_to(request, messages.get((request["connection"], request["correlation"]), ())) is None
    }
