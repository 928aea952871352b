"""Exchanges: a request, its replies, and the messages that belong to them on other connections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .conversation_ids import ExchangeId, Spot
from .database import SPOT, TEXT, Row, Tables, register, rows
from .windows import MESSAGE, Around

MAX_CHAIN = 12
"""Requests of a chain of calls in a conversation."""
MAX_PER_PAIR = 24
"""Messages with one correlation in a conversation: streams have any number of replies."""
BESIDE_REQUEST, BESIDE_REPLY = 4, 3

Pair = tuple[str, str, str]
"""A sensor, a connection and a correlation."""

_PLACE = """{'ts': coalesce(epoch_us(ts), 9e18::bigint), 'is_reply': kind is not distinct from 'response',
                           'to_client': direction = 'to_client', 'offset': "offset", 'direction': direction}"""
"""The order of messages with one correlation. A stream may have millions of them: only the first are kept."""


@dataclass(frozen=True)
class Exchange:
    """One exchange, and where to look for what belongs to it."""

    row: Row
    spots: list[Spot]
    """The request, and the first reply if there is one."""
    own: Pair | None
    pairs: list[Pair]

    def around(self) -> list[Around]:
        beside = (BESIDE_REQUEST, BESIDE_REPLY)
        return [Around(spot, count, count) for spot, count in zip(self.spots, beside, strict=False)]


def read_exchanges(tables: Tables, ids: Sequence[ExchangeId]) -> dict[ExchangeId, Exchange]:
    """Return the exchanges with these ids, as far as the lake has them."""
    if not ids:
        return {}
    wanted = {exchange.request: exchange for exchange in ids}
    register(tables, "wanted_spots", SPOT, wanted)
    listed = rows(
        tables,
        """
select exchange.*, epoch_us(request_ts) as request_us
from gold_exchanges as exchange
semi join wanted_spots as spot on exchange.sensor = spot.sensor and exchange.connection = spot.connection
                              and exchange.direction = spot.direction and exchange.request_offset = spot."offset"
order by request_us, sensor, connection, direction, request_offset""",
    )
    chains = _chains(tables, {_chain(row) for row in listed if row["execution"]})
    exchanges = (_exchange(row, chains[_chain(row)]) for row in listed)
    return {wanted[exchange.spots[0]]: exchange for exchange in exchanges}


def _chain(row: Row) -> tuple[str, str]:
    return row["sensor"], row["execution"]


def _exchange(row: Row, chain: list[Pair]) -> Exchange:
    sensor, connection = row["sensor"], row["connection"]
    spots = [Spot(sensor, connection, row["direction"], row["request_offset"])]
    if row["reply_offset"] is not None:
        spots.append(Spot(sensor, connection, spots[0].other_direction, row["reply_offset"]))
    own = (sensor, connection, row["correlation"])
    pairs = [own, (sensor, row["other_connection"], row["other_correlation"]), *chain]
    return Exchange(row, spots, own if own[2] else None, [pair for pair in dict.fromkeys(pairs) if all(pair)])


def _chains(tables: Tables, executions: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[Pair]]:
    """Return the first requests of these chains of calls, by sensor and chain."""
    chains: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    register(tables, "wanted_executions", {"sensor": TEXT, "execution": TEXT}, executions)
    result = tables.execute(f"""
select sensor, execution, connection, correlation
from gold_exchanges semi join wanted_executions using (sensor, execution)
where correlation is not null
qualify row_number() over (partition by sensor, execution
                           order by request_ts, connection, direction, request_offset) <= {MAX_CHAIN}
order by sensor, execution, request_ts, connection, direction, request_offset""")
    for sensor, execution, connection, correlation in result.fetchall():
        chains[sensor, execution].append((sensor, connection, correlation))
    return chains


def read_pairs(tables: Tables, pairs: Iterable[Pair]) -> dict[Pair, list[Row]]:
    """Return the first messages with each of these correlations, in order; ``size`` is their number in the lake."""
    wanted = set(pairs)
    by_pair: dict[Pair, list[Row]] = defaultdict(list)
    if not wanted:
        return by_pair
    register(tables, "wanted_pairs", dict.fromkeys(("sensor", "connection", "correlation"), TEXT), wanted)
    listed = rows(
        tables,
        f"""
with firsts as (
    select count(*) as size, unnest(min({_PLACE}, {MAX_PER_PAIR})) as place, sensor, connection
    from silver_messages semi join wanted_pairs using (sensor, connection, correlation)
    group by sensor, connection, correlation)
select {MESSAGE}, size
from silver_messages
join (select size, sensor, connection, place.direction as direction, place."offset" as "offset" from firsts)
using (sensor, connection, direction, "offset")
order by {_PLACE}, sensor, connection""",
    )
    for row in listed:
        by_pair[row["sensor"], row["connection"], row["correlation"]].append(row)
    return by_pair
