"""Distributed transactions: their messages, and the two phases of each branch as bars over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..gold.tables import view_name
from ..protocols import known
from ..spec.columns import Column, columns
from ..spec.nodes import Protocol
from ..spec.roles import Place, label, places
from .conversation_ids import TransactionId
from .database import TEXT, Row, Tables, quoted, register, rows
from .exchanges import Pair

WORK = "work"
MAX_REQUESTS = 40
"""Requests of a transaction in a conversation."""


@dataclass(frozen=True)
class Transaction:
    """One transaction: its row in gold, if it is decided, and its first requests."""

    gtrid: str
    row: Row | None
    protocol: str
    requests: list[Row]

    @property
    def outcome(self) -> str:
        return self.row["outcome"] if self.row else "open"

    @property
    def requests_left_out(self) -> int:
        return self.requests[0]["size"] - len(self.requests) if self.requests else 0

    def pairs(self) -> list[Pair]:
        return list(dict.fromkeys(map(_pair, self.requests)))

    def with_replies(self, messages: Mapping[Pair, Sequence[Row]]) -> list[tuple[Row, Row | None]]:
        """Return each request with its reply among the messages of its correlation."""
        return [(request, _reply(request, messages.get(_pair(request), ()))) for request in self.requests]


def _pair(request: Row) -> Pair:
    return request["sensor"], request["connection"], request["correlation"]


def _reply(request: Row, messages: Sequence[Row]) -> Row | None:
    for row in messages:
        is_later = request["ts"] is None or row["ts"] is None or row["ts"] >= request["ts"]
        if row["kind"] == "response" and row["direction"] != request["direction"] and is_later:
            return row
    return None


def read_transactions(tables: Tables, ids: Sequence[TransactionId]) -> dict[TransactionId, Transaction]:
    """Return the transactions with these ids, as far as the lake has them."""
    if not ids:
        return {}
    register(tables, "wanted_gtrids", {"sensor": TEXT, "gtrid": TEXT}, ((id_.sensor, id_.gtrid) for id_ in ids))
    decided, requests = (defaultdict[tuple[str, str], list[Row]](list) for _ in range(2))
    for row in rows(tables, "from gold_transactions semi join wanted_gtrids using (sensor, gtrid)"):
        decided[row["sensor"], row["gtrid"]].append(row)
    for protocol in _with_branches(tables):
        for row in _requests(tables, protocol):
            requests[row["sensor"], row["gtrid"]].append(row)
    seen = ((id_, (id_.sensor, id_.gtrid)) for id_ in ids)
    transactions = ((id_, _transaction(id_, decided[key], requests[key])) for id_, key in seen)
    return {id_: transaction for id_, transaction in transactions if transaction is not None}


def _transaction(id_: TransactionId, decided: Iterable[Row], requests: Iterable[Row]) -> Transaction | None:
    """Return the transaction of an id. An id without a format is of one that was undecided when it was named."""
    decided = [row for row in decided if id_.format in (None, row["xid_format"])]
    requests = [row for row in requests if id_.format in (None, row["xid_format"])]
    if not decided and not requests:
        return None
    protocol = (decided or requests)[0]["protocol"]
    own = [request for request in requests if request["protocol"] == protocol]
    return Transaction(id_.gtrid, decided[0] if decided else None, protocol, own)


def _with_branches(tables: Tables) -> list[Protocol]:
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


def _requests(tables: Tables, protocol: Protocol) -> list[Row]:
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
select sensor, connection, direction, "offset", epoch_us(ts) as ts, message, coalesce({correlation}) as correlation,
       {number} as xid_format, lower(hex({gtrid})) as gtrid, lower(hex({bqual})) as bqual,
       count(*) over (partition by sensor, {number}, {gtrid}) as size
from {quoted(view_name(f"silver/{protocol.name}"))}
where (sensor, {gtrid}) in (select (sensor, unhex(gtrid)) from wanted_gtrids) and message in ({names})
qualify row_number() over (partition by sensor, {number}, {gtrid}
                           order by ts, connection, direction, "offset") <= {MAX_REQUESTS}
order by ts, connection, direction, "offset" """,
    )
    return [row | {"protocol": protocol.name, "phase": phases[row["message"]]} for row in requests]


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
    column = columns(protocol)[place.path[0]]
    for name in place.path[1:]:
        column = column.children[name]
    return column


def branches(
    transaction: Transaction, replied: Iterable[tuple[Row, Row | None]], labels: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the branches with a bar for each request, which ends with its reply."""
    bars: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for request, reply in replied:
        bar = {"phase": request["phase"], "start": request["ts"], "end": reply["ts"] if reply is not None else None}
        bar["result"] = _result(transaction.protocol, request["phase"], reply)
        bars[request["bqual"], request["connection"]].append(bar)
    decided = (transaction.row or {}).get("branches") or ()
    outcomes = {(branch["bqual"], branch["connection"]): branch["outcome"] for branch in decided}
    return [
        {
            "branch": bqual,
            "label": labels.get(connection, ""),
            "outcome": outcomes.get((bqual, connection), transaction.outcome),
            "bars": listed,
        }
        for (bqual, connection), listed in bars.items()
    ]


def _result(protocol: str, phase: str, reply: Row | None) -> str:
    if reply is None:
        return "no reply"
    status = str(reply["status"] or "")
    if phase == WORK:
        return "ok" if status in ("", "0") else status
    declared = next(declared for declared in known() if declared.name == protocol)
    return label(declared, reply["message"], "status", status)
