"""Conversations by their ids: who said what to whom and when, with what was wrong about it. Bytes come later.

However many are asked for, each table is read once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from .conversation_ids import ConnectionId, ExchangeId, Id, Spot, TransactionId, parse
from .exchanges import Exchange, Pair, read_exchanges, read_pairs
from .lifelines import UNKNOWN, Lifelines, Peers, read_peers
from .page_values import cut
from .queries import WHOLE
from .transactions import Transaction, branches, read_transactions, unanswered
from .views import rows
from .windows import Around, Ends, Rows, Want, give, read_rows

BEFORE, AFTER = 10, 6
HEAD, TAIL = 50, 30
MOST_EVENTS = 160
GAP = "gap"

_SPOTS = pa.schema([("connection", pa.string()), ("direction", pa.string()), ("offset", pa.int64())])


@dataclass
class Draft:
    """A conversation on its way: its rows in order, and what else is known."""

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
    """What is wrong in it: rows of violations and of quarantine, by place."""


def spot_of(row: Mapping[str, Any]) -> Spot:
    return Spot(row["connection"], row["direction"], row["offset"])


def make_conversations(tables: duckdb.DuckDBPyConnection, ids: Iterable[str]) -> dict[str, Draft]:
    """The conversations with these ids, in this order; what the lake does not have is left out."""
    parsed = [one for text in dict.fromkeys(ids) if (one := parse(text)) is not None]
    exchanges = read_exchanges(tables, [one for one in parsed if isinstance(one, ExchangeId)])
    transactions = read_transactions(tables, [one for one in parsed if isinstance(one, TransactionId)])
    pairs = [pair for exchange in exchanges.values() for pair in exchange.pairs]
    pairs += [pair for transaction in transactions.values() for pair in transaction.pairs()]
    found = _Found(
        read_rows(tables, [want for one in parsed for want in _wants(one, exchanges)]),
        read_pairs(tables, pairs),
        {},
        exchanges,
        transactions,
    )
    connections = {row["connection"] for listed in found.pairs.values() for row in listed}
    connections |= {name for name, listed in found.rows.by_connection.items() if listed}
    found.peers = read_peers(tables, connections)
    drafts = {one.id: draft for one in parsed if (draft := _draft(one, found)) is not None}
    broken = _violations(tables, [row for draft in drafts.values() for row in draft.rows])
    for draft in drafts.values():
        draft.shown = _shown(draft, found.peers, broken)
        draft.broken = {
            spot: len(broken.get(spot, ())) + (row["rule"] is not None)
            for row in draft.rows
            if (spot := spot_of(row)) in broken or row["rule"] is not None
        }
    return drafts


@dataclass
class _Found:
    """Everything that was read."""

    rows: Rows
    pairs: dict[Pair, list[dict[str, Any]]]
    peers: dict[str, Peers]
    exchanges: dict[str, Exchange]
    transactions: dict[str, Transaction]


def _wants(one: Id, exchanges: Mapping[str, Exchange]) -> list[Want]:
    match one:
        case ConnectionId(focus=None):
            return [Ends(one.connection, WHOLE, HEAD, TAIL)]
        case ConnectionId(focus=Spot() as spot):
            return [Around(spot, BEFORE, AFTER)]
        case ExchangeId() if one.id in exchanges:
            return list(exchanges[one.id].around())
        case _:
            return []


def _draft(one: Id, found: _Found) -> Draft | None:
    match one:
        case ConnectionId():
            return _connection(one, found)
        case ExchangeId() if one.id in found.exchanges:
            return _exchange(one.id, found.exchanges[one.id], found)
        case TransactionId() if one.id in found.transactions:
            return _transaction(one.id, found.transactions[one.id], found)
        case _:
            return None


def _connection(one: ConnectionId, found: _Found) -> Draft | None:
    (want,) = _wants(one, {})
    listed = found.rows.around(want)
    if not listed:
        return None
    peers = found.peers.get(one.connection, UNKNOWN)
    names = [
        name or address for name, address in ((peers.client_name, peers.client), (peers.server_name, peers.server))
    ]
    title = f"{peers.protocol or 'unknown protocol'}: {names[0] or 'client'} → {names[1] or 'server'}"
    if one.focus is not None:
        title += f", around byte {one.focus.offset} {one.focus.direction.replace('_', ' ')}"
    focus = {one.focus} if one.focus is not None else set()
    left = _left_out(listed, found.rows.sizes.get(one.connection, 0))
    return Draft(one.id, "connection", title, peers.protocol, listed, focus, left)


def _left_out(listed: Sequence[Mapping[str, Any]], size: int) -> tuple[int, int, int]:
    """Rows before the first that is shown, between those that are, and behind the last."""
    hidden = size - len(listed)
    lanes = {row["lane"] for row in listed}
    if hidden <= 0:
        return 0, 0, 0
    if len(lanes) > 1:  # without times, what is before and what is behind is known of each direction only
        return 0, hidden, 0
    first, last = listed[0]["place"], listed[-1]["place"]
    return first - 1, last - first + 1 - len(listed), size - last


def _exchange(id_: str, one: Exchange, found: _Found) -> Draft:
    row = one.row
    own = [message for want in one.around() for message in found.rows.around(want)]
    mine = found.pairs.get(one.own, []) if one.own else []
    own += [message for pair in one.pairs for message in found.pairs.get(pair, ())]
    outcome = f"{row['outcome']}" + (f" after {_duration(row['latency_us'])}" if row["latency_us"] is not None else "")
    title = f"{row['protocol']}: {row['message']} {cut(row['address'] or '', 120)}".rstrip() + f", {outcome}"
    focus = {*one.spots, *(spot_of(message) for message in mine)}
    left = max(0, mine[0]["size"] - len(mine)) if mine else 0
    return Draft(id_, "exchange", title, row["protocol"] or "", _in_order(own), focus, (0, 0, left))


def _transaction(id_: str, one: Transaction, found: _Found) -> Draft:
    listed = [message for pair in one.pairs() for message in found.pairs.get(pair, ())]
    labels = {name: peers.server_name or peers.server for name, peers in found.peers.items()}
    title = f"{one.protocol}: transaction {cut(one.gtrid, 40)}, {one.outcome.replace('_', ' ')}"
    return Draft(
        id_,
        "transaction",
        title,
        one.protocol,
        _in_order(listed),
        unanswered(one, found.pairs),
        (0, 0, max(0, one.size - len(one.requests))),
        branches(one, found.pairs, labels),
    )


def _in_order(listed: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each row once, by time and then as it stands in its stream; of the same moment, questions before answers."""
    once = {spot_of(row): row for row in listed}
    ordered = sorted(once.values(), key=_order)
    return ordered[:MOST_EVENTS]


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


# --- what the page gets


def _violations(
    tables: duckdb.DuckDBPyConnection, listed: Iterable[Mapping[str, Any]]
) -> dict[Spot, list[dict[str, Any]]]:
    """What is wrong with these messages, by message."""
    give(tables, "wanted_spots", _SPOTS, sorted({(r["connection"], r["direction"], r["offset"]) for r in listed}))
    found = rows(
        tables,
        """
select connection, direction, "offset", rule, detail
from gold_violations semi join wanted_spots using (connection, direction, "offset")
order by all""",
    )
    broken: dict[Spot, list[dict[str, Any]]] = {}
    for row in found:
        broken.setdefault(spot_of(row), []).append(row)
    return broken


def _shown(draft: Draft, peers: Mapping[str, Peers], broken: Mapping[Spot, list[dict[str, Any]]]) -> dict[str, Any]:
    lifelines = Lifelines(peers)
    events = [_event(row, lifelines, broken.get(spot_of(row)), spot_of(row) in draft.focus) for row in draft.rows]
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
        mark, rule = "violation", ", ".join(dict.fromkeys(one["rule"] for one in broken))
        detail = "; ".join(dict.fromkeys(one["detail"] for one in broken))
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


def _short(text: str | None, most: int) -> str | None:
    return None if text is None else cut(text, most)
