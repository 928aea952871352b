"""Conversations by their ids: their messages in order, between which peers, with violations. Bytes are added later.

However many conversations are wanted, each table is read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from .conversation_ids import ConnectionId, ExchangeId, Id, Spot, TransactionId, parse
from .database import register_spots, rows
from .exchanges import Exchange, Pair, read_exchanges, read_pairs
from .lifelines import UNKNOWN, Lifelines, Peers, read_peers
from .page_values import cut
from .queries import MAX_WHOLE
from .transactions import Transaction, branches, read_transactions, unanswered
from .windows import Around, Ends, Rows, Want, read_rows

BEFORE, AFTER = 10, 6
HEAD, TAIL = 50, 30
MAX_EVENTS = 160
GAP = "gap"


@dataclass
class Draft:
    """A conversation before it is chosen: its rows in order, and what else is known."""

    id: str
    kind: str
    title: str
    protocol: str
    rows: list[dict[str, Any]]
    focus: set[Spot] = field(default_factory=set)
    left_out: tuple[int, int, int] = (0, 0, 0)
    branches: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    """The conversation as the page gets it."""
    broken: dict[Spot, int] = field(default_factory=dict)
    """Number of violations and quarantined ranges, by place."""


def read_conversations(tables: duckdb.DuckDBPyConnection, ids: Iterable[str]) -> dict[str, Draft]:
    """Return the conversations with these ids, in this order, as far as the lake has them."""
    parsed = [id_ for text in dict.fromkeys(ids) if (id_ := parse(text)) is not None]
    exchanges = read_exchanges(tables, [id_ for id_ in parsed if isinstance(id_, ExchangeId)])
    transactions = read_transactions(tables, [id_ for id_ in parsed if isinstance(id_, TransactionId)])
    pairs = [pair for exchange in exchanges.values() for pair in exchange.pairs]
    pairs += [pair for transaction in transactions.values() for pair in transaction.pairs()]
    read = _Read(
        read_rows(tables, [want for id_ in parsed for want in _wants(id_, exchanges)]),
        read_pairs(tables, pairs),
        {},
        exchanges,
        transactions,
    )
    connections = {row["connection"] for listed in read.pairs.values() for row in listed}
    connections |= {name for name, listed in read.rows.by_connection.items() if listed}
    read.peers = read_peers(tables, connections)
    drafts = {id_.id: draft for id_ in parsed if (draft := _draft(id_, read)) is not None}
    broken = _violations(tables, [row for draft in drafts.values() for row in draft.rows])
    for draft in drafts.values():
        draft.shown = _shown(draft, read.peers, broken)
        draft.broken = {
            spot: len(broken.get(spot, ())) + (row["rule"] is not None)
            for row in draft.rows
            if (spot := Spot.of(row)) in broken or row["rule"] is not None
        }
    return drafts


@dataclass
class _Read:
    """Everything that was read from the lake."""

    rows: Rows
    pairs: dict[Pair, list[dict[str, Any]]]
    peers: dict[str, Peers]
    exchanges: dict[str, Exchange]
    transactions: dict[str, Transaction]


def _wants(id_: Id, exchanges: Mapping[str, Exchange]) -> list[Want]:
    match id_:
        case ConnectionId(focus=None):
            return [Ends(id_.connection, MAX_WHOLE, HEAD, TAIL)]
        case ConnectionId(focus=Spot() as spot):
            return [Around(spot, BEFORE, AFTER)]
        case ExchangeId() if id_.id in exchanges:
            return list(exchanges[id_.id].around())
        case _:
            return []


def _draft(id_: Id, read: _Read) -> Draft | None:
    match id_:
        case ConnectionId():
            return _connection(id_, read)
        case ExchangeId() if id_.id in read.exchanges:
            return _exchange(id_.id, read.exchanges[id_.id], read)
        case TransactionId() if id_.id in read.transactions:
            return _transaction(id_.id, read.transactions[id_.id], read)
        case _:
            return None


def _connection(id_: ConnectionId, read: _Read) -> Draft | None:
    (want,) = _wants(id_, {})
    listed = read.rows.around(want)
    if not listed:
        return None
    peers = read.peers.get(id_.connection, UNKNOWN)
    names = [
        name or address for name, address in ((peers.client_name, peers.client), (peers.server_name, peers.server))
    ]
    title = f"{peers.protocol or 'unknown protocol'}: {names[0] or 'client'} → {names[1] or 'server'}"
    if id_.focus is not None:
        title += f", around byte {id_.focus.offset} {id_.focus.direction.replace('_', ' ')}"
    focus = {id_.focus} if id_.focus is not None else set()
    left = _left_out(listed, read.rows.sizes.get(id_.connection, 0))
    return Draft(id_.id, "connection", title, peers.protocol, listed, focus, left)


def _left_out(listed: Sequence[Mapping[str, Any]], size: int) -> tuple[int, int, int]:
    """Return the number of hidden rows before the first row, between the rows, and after the last."""
    hidden = size - len(listed)
    lanes = {row["lane"] for row in listed}
    if hidden <= 0:
        return 0, 0, 0
    if len(lanes) > 1:  # without times, before and after are known per direction only
        return 0, hidden, 0
    first, last = listed[0]["place"], listed[-1]["place"]
    return first - 1, last - first + 1 - len(listed), size - last


def _exchange(id_: str, exchange: Exchange, read: _Read) -> Draft:
    row = exchange.row
    listed = [message for want in exchange.around() for message in read.rows.around(want)]
    own = read.pairs.get(exchange.own, []) if exchange.own else []
    listed += [message for pair in exchange.pairs for message in read.pairs.get(pair, ())]
    outcome = f"{row['outcome']}" + (f" after {_duration(row['latency_us'])}" if row["latency_us"] is not None else "")
    title = f"{row['protocol']}: {row['message']} {cut(row['address'] or '', 120)}".rstrip() + f", {outcome}"
    focus = {*exchange.spots, *(Spot.of(message) for message in own)}
    left = max(0, own[0]["size"] - len(own)) if own else 0
    return Draft(id_, "exchange", title, row["protocol"] or "", _in_order(listed), focus, (0, 0, left))


def _transaction(id_: str, transaction: Transaction, read: _Read) -> Draft:
    listed = [message for pair in transaction.pairs() for message in read.pairs.get(pair, ())]
    labels = {name: peers.server_name or peers.server for name, peers in read.peers.items()}
    outcome = transaction.outcome.replace("_", " ")
    title = f"{transaction.protocol}: transaction {cut(transaction.gtrid, 40)}, {outcome}"
    return Draft(
        id_,
        "transaction",
        title,
        transaction.protocol,
        _in_order(listed),
        unanswered(transaction, read.pairs),
        (0, 0, max(0, transaction.size - len(transaction.requests))),
        branches(transaction, read.pairs, labels),
    )


def _in_order(listed: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each row once, by time and place in its stream; at the same time, requests before replies."""
    unique = {Spot.of(row): row for row in listed}
    return sorted(unique.values(), key=_order)[:MAX_EVENTS]


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    ts = row["ts"]
    return (
        ts is None,
        ts or 0,
        row["kind"] == "response",
        row["connection"],
        row["direction"] == "to_client",
        row["offset"],
    )


def _duration(us: int) -> str:
    if us < 1000:
        return f"{us} µs"
    return f"{us / 1000:.1f} ms" if us < 1_000_000 else f"{us / 1_000_000:.2f} s"


# --- as the page gets them


def _violations(
    tables: duckdb.DuckDBPyConnection, listed: Iterable[Mapping[str, Any]]
) -> dict[Spot, list[dict[str, Any]]]:
    """Return the violations of these messages, by message."""
    register_spots(tables, map(Spot.of, listed))
    violations = rows(
        tables,
        """
select connection, direction, "offset", rule, detail
from gold_violations semi join wanted_spots using (connection, direction, "offset")
order by all""",
    )
    broken: dict[Spot, list[dict[str, Any]]] = {}
    for row in violations:
        broken.setdefault(Spot.of(row), []).append(row)
    return broken


def _shown(draft: Draft, peers: Mapping[str, Peers], broken: Mapping[Spot, list[dict[str, Any]]]) -> dict[str, Any]:
    lifelines = Lifelines(peers)
    events = [_event(row, lifelines, broken.get(Spot.of(row)), Spot.of(row) in draft.focus) for row in draft.rows]
    before, between, after = draft.left_out
    return {
        "id": draft.id,
        "kind": draft.kind,
        "title": cut(draft.title, 250),
        "protocol": draft.protocol,
        "why": [],
        "lifelines": lifelines.shown(),
        "left_out": {"before": before, "between": between, "after": after},
        "events": events,
        "branches": draft.branches,
    }


def _event(
    row: Mapping[str, Any], lifelines: Lifelines, broken: list[dict[str, Any]] | None, is_focus: bool
) -> dict[str, Any]:
    start, end = lifelines.ends(row["connection"], row["direction"])
    mark, rule, detail = "focus" if is_focus else "", row["rule"], row["detail"]
    message = row["message"]
    if broken:
        mark, rule = "violation", ", ".join(dict.fromkeys(violation["rule"] for violation in broken))
        detail = "; ".join(dict.fromkeys(violation["detail"] for violation in broken))
    elif rule is not None:
        mark = GAP if rule == GAP else "quarantine"
        message = "missing bytes" if rule == GAP else "undecodable bytes"
    return {
        "ts": row["ts"],
        "from": start,
        "to": end,
        "protocol": row["protocol"] or "",
        "message": message,
        "kind": row["kind"],
        "address": _short(row["address"], 200),
        "status": _short(row["status"], 100),
        "correlation": _short(row["correlation"], 100),
        "length": row["length"],
        "direction": row["direction"],
        "offset": row["offset"],
        "connection": row["connection"],
        "mark": mark,
        "rule": rule,
        "detail": _short(detail, 400),
        "fields": None,
        "bytes": None,
    }


def _short(text: str | None, length: int) -> str | None:
    return None if text is None else cut(text, length)
