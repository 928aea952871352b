"""Exchanges: a request, its replies, and the messages that belong to them on other connections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from .conversation_ids import ExchangeId, Spot
from .database import register_rows, register_spots, register_texts, rows
from .windows import MESSAGE, Around

MAX_CHAIN = 12
"""Requests of a chain of calls in a conversation."""
MAX_PER_PAIR = 24
"""Messages with one correlation in a conversation: streams have any number of replies."""
BESIDE_REQUEST, BESIDE_REPLY = 4, 3

Pair = tuple[str, str]
"""A connection and a correlation."""

_PLACE = """{'ts': coalesce(epoch_us(ts), 9e18::bigint), 'is_reply': kind is not distinct from 'response',
                           'to_client': direction = 'to_client', 'offset': "offset", 'direction': direction}"""
"""The order of messages with one correlation. A stream may have millions of them: only the first are kept."""
_PAIRS = pa.schema([("connection", pa.string()), ("correlation", pa.string())])


@dataclass
class Exchange:
    """One exchange, and where to look for what belongs to it."""

    row: dict[str, Any]
    own: Pair | None
    pairs: list[Pair] = field(default_factory=list)
    spots: list[Spot] = field(default_factory=list)
    """The request, and the first reply if there is one."""

    def around(self) -> list[Around]:
        beside = (BESIDE_REQUEST, BESIDE_REPLY)
        return [Around(spot, count, count) for spot, count in zip(self.spots, beside, strict=False)]


def read_exchanges(tables: duckdb.DuckDBPyConnection, ids: Sequence[ExchangeId]) -> dict[str, Exchange]:
    """Return the exchanges with these ids, as far as the lake has them."""
    if not ids:
        return {}
    wanted = {exchange.request: exchange.id for exchange in ids}
    register_spots(tables, wanted)
    listed = rows(
        tables,
        """
select exchange.*, epoch_us(request_ts) as request_us
from gold_exchanges as exchange
semi join wanted_spots as spot on exchange.connection = spot.connection and exchange.direction = spot.direction
                              and exchange.request_offset = spot."offset"
order by request_us, connection, direction, request_offset""",
    )
    exchanges = {wanted[_request(row)]: _exchange(row) for row in listed}
    chains = _chains(tables, {row["execution"] for row in listed if row["execution"]})
    for exchange in exchanges.values():
        chain = chains.get(exchange.row["execution"], ())
        exchange.pairs += [pair for pair in chain if pair not in exchange.pairs]
    return exchanges


def _request(row: dict[str, Any]) -> Spot:
    return Spot(row["connection"], row["direction"], row["request_offset"])


def _exchange(row: dict[str, Any]) -> Exchange:
    request = _request(row)
    own = (row["connection"], row["correlation"]) if row["correlation"] else None
    exchange = Exchange(row, own, [own] if own else [], [request])
    if row["reply_offset"] is not None:
        exchange.spots.append(Spot(request.connection, request.other_direction, row["reply_offset"]))
    if row["other_connection"] and row["other_correlation"]:
        exchange.pairs.append((row["other_connection"], row["other_correlation"]))
    return exchange


def _chains(tables: duckdb.DuckDBPyConnection, executions: set[str]) -> dict[str, list[Pair]]:
    """Return the first requests of these chains of calls, by chain."""
    chains: dict[str, list[Pair]] = defaultdict(list)
    if not executions:
        return chains
    register_texts(tables, "wanted_executions", "execution", executions)
    result = tables.execute(f"""
select execution, connection, correlation
from gold_exchanges semi join wanted_executions using (execution)
where correlation is not null
qualify row_number() over (partition by execution
                           order by request_ts, connection, direction, request_offset) <= {MAX_CHAIN}
order by execution, request_ts, connection, direction, request_offset""")
    for execution, connection, correlation in result.fetchall():
        chains[execution].append((connection, correlation))
    return chains


def read_pairs(tables: duckdb.DuckDBPyConnection, pairs: Iterable[Pair]) -> dict[Pair, list[dict[str, Any]]]:
    """Return the first messages with each of these correlations, in order; ``size`` is their number in the lake."""
    wanted = sorted(set(pairs))
    by_pair: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    if not wanted:
        return by_pair
    register_rows(tables, "wanted_pairs", _PAIRS, wanted)
    listed = rows(
        tables,
        f"""
with firsts as (
    select count(*) as size, unnest(min({_PLACE}, {MAX_PER_PAIR})) as place, connection
    from silver_messages semi join wanted_pairs using (connection, correlation)
    group by connection, correlation)
select {MESSAGE}, size
from silver_messages
join (select size, connection, place.direction as direction, place."offset" as "offset" from firsts)
using (connection, direction, "offset")
order by {_PLACE}, connection""",
    )
    for row in listed:
        by_pair[row["connection"], row["correlation"]].append(row)
    return by_pair
