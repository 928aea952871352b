"""Conversations by their ids: their messages in order, between which peers, with violations. Bytes are added later.

However many conversations are wanted, each table is read once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .conversation_ids import ConnectionId, ExchangeId, Id, Spot, TransactionId, located, parse, sensor_hash
from .database import SPOT, Row, Tables, read_sensors, register, rows
from .exchanges import Exchange, Pair, read_exchanges, read_pairs
from .lifelines import Lifelines, Peers, SeenConnection, read_peers
from .page_values import cut
from .queries import MAX_WHOLE
from .transactions import Transaction, branches, read_transactions
from .windows import Around, Ends, Want, read_windows

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
    rows: list[Row]
    focus: set[Spot]
    left_out: tuple[int, int, int]
    branches: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    """The conversation as the page gets it."""
    broken: dict[Spot, int] = field(default_factory=dict)
    """Number of violations and quarantined ranges, by place."""


def read_conversations(tables: Tables, ids: Iterable[str]) -> dict[str, Draft]:
    """Return the conversations with these ids, in this order, as far as the lake has them."""
    sensors = {sensor_hash(name): name for name in read_sensors(tables)}
    parsed = [id_ for text in dict.fromkeys(ids) if (id_ := parse(text)) is not None]
    wanted = [one for id_ in parsed for one in located(id_, sensors)]
    read = _read(tables, wanted)
    drafts: dict[str, Draft] = {}
    for id_ in wanted:
        if id_.id not in drafts and (draft := _draft(id_, read)) is not None:
            draft.title += f", seen at {cut(id_.sensor, 60)}" if len(sensors) > 1 else ""
            drafts[id_.id] = draft
    violations = _violations(tables, (row for draft in drafts.values() for row in draft.rows))
    for draft in drafts.values():
        draft.shown = _shown(draft, read.peers, violations)
        broken = {Spot.of(row): len(violations.get(Spot.of(row), ())) + (row["rule"] is not None) for row in draft.rows}
        draft.broken = {spot: count for spot, count in broken.items() if count}
    return drafts


@dataclass(frozen=True)
class _Read:
    """Everything that was read from the lake."""

    exchanges: dict[ExchangeId, Exchange]
    transactions: dict[TransactionId, Transaction]
    windows: dict[Want, list[Row]]
    pairs: dict[Pair, list[Row]]
    peers: dict[SeenConnection, Peers]


def _read(tables: Tables, ids: Sequence[Id]) -> _Read:
    exchanges = read_exchanges(tables, [id_ for id_ in ids if isinstance(id_, ExchangeId)])
    transactions = read_transactions(tables, [id_ for id_ in ids if isinstance(id_, TransactionId)])
    wants = [_want(id_) for id_ in ids if isinstance(id_, ConnectionId)]
    windows = read_windows(tables, [*wants, *(want for exchange in exchanges.values() for want in exchange.around())])
    wanted = [pair for exchange in exchanges.values() for pair in exchange.pairs]
    wanted += [pair for transaction in transactions.values() for pair in transaction.pairs()]
    pairs = read_pairs(tables, wanted)
    connections = {_seen(row) for listed in (*windows.values(), *pairs.values()) for row in listed}
    return _Read(exchanges, transactions, windows, pairs, read_peers(tables, connections))


def _seen(row: Row) -> SeenConnection:
    return row["sensor"], row["connection"]


def _want(id_: ConnectionId) -> Want:
    if id_.focus is None:
        return Ends(id_.sensor, id_.connection, MAX_WHOLE, HEAD, TAIL)
    return Around(id_.focus, BEFORE, AFTER)


def _draft(id_: Id, read: _Read) -> Draft | None:
    match id_:
        case ConnectionId():
            return _connection(id_, read)
        case ExchangeId() if id_ in read.exchanges:
            return _exchange(id_.id, read.exchanges[id_], read)
        case TransactionId() if id_ in read.transactions:
            return _transaction(id_, read.transactions[id_], read)
        case _:
            return None


def _connection(id_: ConnectionId, read: _Read) -> Draft | None:
    listed = read.windows[_want(id_)]
    if not listed:
        return None
    peers = read.peers.get((id_.sensor, id_.connection), Peers())
    client, server = peers.client_name or peers.client or "client", peers.server_name or peers.server or "server"
    title = f"{peers.protocol or 'unknown protocol'}: {client} → {server}"
    focus = set()
    if id_.focus is not None:
        title += f", around byte {id_.focus.offset} {id_.focus.direction.replace('_', ' ')}"
        focus = {id_.focus}
    return Draft(id_.id, "connection", title, peers.protocol, listed, focus, _left_out(listed))


def _left_out(listed: Sequence[Row]) -> tuple[int, int, int]:
    """Return the number of hidden rows before the first row, between the rows, and after the last."""
    total = listed[0]["total"]
    if len({row["lane"] for row in listed}) > 1:  # without times, before and after are known per direction only
        return 0, total - len(listed), 0
    first, last = listed[0]["place"], listed[-1]["place"]
    return first - 1, last - first + 1 - len(listed), total - last


def _exchange(id_: str, exchange: Exchange, read: _Read) -> Draft:
    row = exchange.row
    listed = [message for want in exchange.around() for message in read.windows[want]]
    listed += [message for pair in exchange.pairs for message in read.pairs.get(pair, ())]
    own = read.pairs.get(exchange.own, []) if exchange.own else []
    title = f"{row['protocol']}: {row['message']} {cut(row['address'] or '', 120)}".rstrip() + f", {row['outcome']}"
    if row["latency_us"] is not None:
        title += f" after {_duration(row['latency_us'])}"
    focus = {*exchange.spots, *map(Spot.of, own)}
    left = max(0, own[0]["size"] - len(own)) if own else 0
    return Draft(id_, "exchange", title, row["protocol"] or "", _in_order(listed), focus, (0, 0, left))


def _transaction(id_: TransactionId, transaction: Transaction, read: _Read) -> Draft:
    listed = [message for pair in transaction.pairs() for message in read.pairs.get(pair, ())]
    outcome = transaction.outcome.replace("_", " ")
    title = f"{transaction.protocol}: transaction {cut(transaction.gtrid, 40)}, {outcome}"
    replied = transaction.with_replies(read.pairs)
    focus = {Spot.of(request) for request, reply in replied if reply is None}
    left = (0, 0, max(0, transaction.requests_left_out))
    names = {seen: peers.server_name or peers.server for seen, peers in read.peers.items()}
    labels = {connection: name for (sensor, connection), name in names.items() if sensor == id_.sensor}
    bars = branches(transaction, replied, labels)
    return Draft(id_.id, "transaction", title, transaction.protocol, _in_order(listed), focus, left, bars)


def _in_order(listed: Iterable[Row]) -> list[Row]:
    """Return each row once, by time and place in its stream; at the same time, requests before replies."""
    return sorted({Spot.of(row): row for row in listed}.values(), key=_order)[:MAX_EVENTS]


def _order(row: Row) -> tuple[Any, ...]:
    time = (row["ts"] is None, row["ts"] or 0)
    return *time, row["kind"] == "response", row["connection"], row["direction"] == "to_client", row["offset"]


def _duration(us: int) -> str:
    if us < 1000:
        return f"{us} µs"
    return f"{us / 1000:.1f} ms" if us < 1_000_000 else f"{us / 1_000_000:.2f} s"


# --- as the page gets them


def _violations(tables: Tables, listed: Iterable[Row]) -> dict[Spot, list[Row]]:
    """Return the violations of these messages, by message."""
    register(tables, "wanted_spots", SPOT, map(Spot.of, listed))
    violations = rows(
        tables,
        """
select sensor, connection, direction, "offset", rule, detail
from gold_violations semi join wanted_spots using (sensor, connection, direction, "offset")
order by all""",
    )
    by_spot: dict[Spot, list[Row]] = defaultdict(list)
    for row in violations:
        by_spot[Spot.of(row)].append(row)
    return by_spot


def _shown(draft: Draft, peers: Mapping[SeenConnection, Peers], violations: Mapping[Spot, list[Row]]) -> dict[str, Any]:
    lifelines = Lifelines(peers)
    events = [_event(row, lifelines, violations.get(Spot.of(row)), Spot.of(row) in draft.focus) for row in draft.rows]
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


def _event(row: Row, lifelines: Lifelines, violations: list[Row] | None, is_focus: bool) -> dict[str, Any]:
    start, end = lifelines.ends(_seen(row), row["direction"])
    mark, rule, detail = "focus" if is_focus else "", row["rule"], row["detail"]
    message = row["message"]
    if violations:
        mark, rule = "violation", ", ".join(dict.fromkeys(violation["rule"] for violation in violations))
        detail = "; ".join(dict.fromkeys(violation["detail"] for violation in violations))
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
        "sensor": row["sensor"],
        "connection": row["connection"],
        "mark": mark,
        "rule": rule,
        "detail": _short(detail, 400),
        "fields": None,
        "bytes": None,
    }


def _short(text: str | None, length: int) -> str | None:
    return None if text is None else cut(text, length)
