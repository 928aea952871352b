"""Exchanges: a request, its answers, and what belongs to them on other connections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from .conversation_ids import ExchangeId, Spot
from .views import rows
from .windows import MESSAGE, Around, give

CHAIN = 12
"""Requests of a chain of calls that are shown."""
PER_PAIR = 24
"""Messages with one correlation that are shown: streams have any number of answers."""
BESIDE_REQUEST, BESIDE_REPLY = 4, 3

Pair = tuple[str, str]
"""A connection and a correlation."""

_PLACE = """{'ts': coalesce(epoch_us(ts), 9e18::bigint), 'is_answer': kind is not distinct from 'response',
                           'to_client': direction = 'to_client', 'offset': "offset", 'direction': direction}"""
"""What messages of one correlation are ordered by. A stream may have millions of them: only the first are kept."""
_SPOTS = pa.schema([("connection", pa.string()), ("direction", pa.string()), ("offset", pa.int64())])
_PAIRS = pa.schema([("connection", pa.string()), ("correlation", pa.string())])
_EXECUTIONS = pa.schema([("execution", pa.string())])


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
    """The exchanges with these ids; those that the lake does not have are left out."""
    if not ids:
        return {}
    wanted = {one.request: one.id for one in ids}
    give(tables, "wanted_spots", _SPOTS, [(s.connection, s.direction, s.offset) for s in sorted(wanted)])
    found = rows(
        tables,
        """
select exchange.*, epoch_us(request_ts) as request_us
from gold_exchanges as exchange
semi join wanted_spots as spot on exchange.connection = spot.connection and exchange.direction = spot.direction
                              and exchange.request_offset = spot."offset"
order by request_us, connection, direction, request_offset""",
    )
    made = {wanted[_request(row)]: _exchange(row) for row in found}
    chains = _chains(tables, {row["execution"] for row in found if row["execution"]})
    for one in made.values():
        one.pairs += [pair for pair in chains.get(one.row["execution"], ()) if pair not in one.pairs]
    return made


def _request(row: dict[str, Any]) -> Spot:
    return Spot(row["connection"], row["direction"], row["request_offset"])


def _exchange(row: dict[str, Any]) -> Exchange:
    request = _request(row)
    own = (row["connection"], row["correlation"]) if row["correlation"] else None
    made = Exchange(row, own, [own] if own else [], [request])
    if row["reply_offset"] is not None:
        made.spots.append(Spot(request.connection, request.other, row["reply_offset"]))
    if row["other_connection"] and row["other_correlation"]:
        made.pairs.append((row["other_connection"], row["other_correlation"]))
    return made


def _chains(tables: duckdb.DuckDBPyConnection, executions: set[str]) -> dict[str, list[Pair]]:
    """The first requests of these chains of calls, by chain."""
    chains: dict[str, list[Pair]] = defaultdict(list)
    if not executions:
        return chains
    give(tables, "wanted_executions", _EXECUTIONS, [(name,) for name in sorted(executions)])
    found = tables.execute(f"""
select execution, connection, correlation
from gold_exchanges semi join wanted_executions using (execution)
where correlation is not null
qualify row_number() over (partition by execution order by request_ts, connection, direction, request_offset) <= {CHAIN}
order by execution, request_ts, connection, direction, request_offset""")
    for execution, connection, correlation in found.fetchall():
        chains[execution].append((connection, correlation))
    return chains


def read_pairs(tables: duckdb.DuckDBPyConnection, pairs: Iterable[Pair]) -> dict[Pair, list[dict[str, Any]]]:
    """The messages with these correlations, the first ones of each, in order; ``size`` tells how many there are."""
    wanted = sorted(set(pairs))
    by_pair: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    if not wanted:
        return by_pair
    give(tables, "wanted_pairs", _PAIRS, wanted)
    found = rows(
        tables,
        f"""
with firsts as (
    select count(*) as size, unnest(min({_PLACE}, {PER_PAIR})) as place, connection
    from silver_messages semi join wanted_pairs using (connection, correlation)
    group by connection, correlation)
select {MESSAGE}, size
from silver_messages
join (select size, connection, place.direction as direction, place."offset" as "offset" from firsts)
using (connection, direction, "offset")
order by {_PLACE}, connection""",
    )
    for row in found:
        by_pair[row["connection"], row["correlation"]].append(row)
    return by_pair
