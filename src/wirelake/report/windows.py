"""Windows: the rows around some places in connections, read without the rest of them.

A connection can have millions of messages, and a report wants a few dozen of them in hundreds of places. So each
connection is cut into slots of time with some dozens of rows on average. One query counts the rows of each slot, which
reads two columns; another reads only the slots with wanted rows. Both serve all connections at once.

A row is a message or a quarantined range: both have their place in the connection. Without times (raw streams) the
order of the two directions is unknown; each is then a *lane* of its own, and slots are ranges of bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import duckdb
import pyarrow as pa

from .conversation_ids import Spot
from .database import SPOTS, register_rows, register_spots, register_texts, rows

PER_SLOT = 64

KEYS = """coalesce(epoch_us(ts), "offset") as moment, case when ts is null then direction else '' end as lane"""


def shortened(column: str) -> str:
    """Return SQL that cuts the middle out of very long texts: nobody wants megabytes of a name."""
    return f"if(length({column}) > 1000, left({column}, 700) || '…' || right({column}, 200), {column}) as {column}"


MESSAGE = f"""connection, direction, "offset", epoch_us(ts) as ts, length::bigint as length, protocol, message, kind,
        {shortened("address")}, {shortened("status")}, correlation, null as rule, null as path, null as detail"""
"""The columns of a message as an event."""
STREAM = f"""
(select {MESSAGE}, {KEYS}
 from silver_messages
 union all
 select connection, direction, "offset", epoch_us(ts), length, protocol, null, null,
        null, null, null, rule, path, {shortened("detail")}, {KEYS}
 from silver_quarantine)
"""
ORDER = 'moment, direction desc, "offset", rule is not null'
_SLOTS = pa.schema([("connection", pa.string()), ("lane", pa.string()), ("slot", pa.int64()), ("skipped", pa.int64())])
_WINDOWS = pa.schema([("connection", pa.string()), ("lane", pa.string()), ("first", pa.int64()), ("last", pa.int64())])


@dataclass(frozen=True)
class Around:
    """A row with some rows before and after it."""

    spot: Spot
    before: int
    after: int


@dataclass(frozen=True)
class Ends:
    """A whole connection if it is small, otherwise its first and last rows."""

    connection: str
    whole: int
    head: int
    tail: int


Want = Around | Ends


@dataclass
class Rows:
    """The rows of each connection by place, and how many it has in all."""

    by_connection: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[str, int] = field(default_factory=dict)
    """Rows of each connection."""
    places: dict[Spot, dict[str, Any]] = field(default_factory=dict)

    def add(self, row: dict[str, Any]) -> None:
        spot = Spot.of(row)
        self.by_connection[spot.connection].append(row)
        self.places[spot] = row

    def around(self, want: Want) -> list[dict[str, Any]]:
        """Return the rows of one window, in order."""
        if isinstance(want, Around):
            middle = self.places.get(want.spot)
            if middle is None:
                return []
            first, last, lane = middle["place"] - want.before, middle["place"] + want.after, middle["lane"]
            return [
                row
                for row in self.by_connection[want.spot.connection]
                if row["lane"] == lane and first <= row["place"] <= last
            ]
        listed = self.by_connection.get(want.connection, [])
        if self.sizes.get(want.connection, 0) <= want.whole:
            return listed
        return [row for row in listed if row["place"] <= want.head or row["place"] > row["size"] - want.tail]


@dataclass
class _Lane:
    """One connection (without times: one direction of it), cut into slots."""

    size: int
    low: int
    width: int
    slots: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Rows up to the end of each slot."""
    wanted: set[int] = field(default_factory=set)
    """Indices of slots."""

    def around(self, at: int, before: int, after: int) -> None:
        """Mark the slot of a row, and enough slots beside it to have so many rows before and after."""
        middle = bisect_left(self.slots, (at - self.low) // self.width)
        if middle == len(self.slots):
            return
        start = self.ends[middle] - self.counts[middle]
        first = bisect_right(self.ends, start - before) if start > before else 0
        last = bisect_left(self.ends, self.ends[middle] + after)
        self.wanted.update(range(first, min(last, len(self.slots) - 1) + 1))

    def places(self, first: int, last: int) -> None:
        """Mark the slots of these places, counted from 1."""
        low, high = bisect_left(self.ends, max(first, 1)), bisect_left(self.ends, last)
        self.wanted.update(range(low, min(high, len(self.slots) - 1) + 1))

    def skipped(self) -> list[tuple[int, int]]:
        """Return each wanted slot with the number of unwanted rows before it."""
        before, passed, slots = 0, -1, []
        for index in sorted(self.wanted):
            before += sum(self.counts[passed + 1 : index])
            slots.append((self.slots[index], before))
            passed = index
        return slots


def read_rows(tables: duckdb.DuckDBPyConnection, wants: Sequence[Want]) -> Rows:
    """Read the rows of all windows at once."""
    result = Rows()
    if not wants:
        return result
    lanes = _lanes(tables, {_connection(want) for want in wants})
    for (connection, _), lane in lanes.items():
        result.sizes[connection] = result.sizes.get(connection, 0) + lane.size
    windows = _mark(tables, lanes, wants, result.sizes)
    for row in _read(tables, lanes, wants, windows):
        result.add(row)
    for listed in result.by_connection.values():
        listed.sort(key=lambda row: (row["lane"] == "to_client", row["place"]))
    return result


def _connection(want: Want) -> str:
    return want.spot.connection if isinstance(want, Around) else want.connection


def _lanes(tables: duckdb.DuckDBPyConnection, connections: set[str]) -> dict[tuple[str, str], _Lane]:
    register_texts(tables, "wanted_connections", "connection", connections)
    lanes: dict[tuple[str, str], _Lane] = {}
    tables.execute(f"""
create or replace temp table lanes as
select connection, lane, count(*) as size, min(moment) as low,
       greatest((max(moment) - min(moment)) // greatest(count(*) // {PER_SLOT}, 1) + 1, 1) as width
from {STREAM} semi join wanted_connections using (connection)
group by all""")
    for row in rows(tables, "from lanes"):
        lanes[row["connection"], row["lane"]] = _Lane(row["size"], row["low"], row["width"])
    counted = tables.execute(f"""
select connection, lane, (moment - low) // width as slot, count(*) as "count"
from {STREAM} join lanes using (connection, lane)
group by all
order by all""")
    for connection, name, slot, count in counted.fetchall():
        lane = lanes[connection, name]
        lane.slots.append(slot)
        lane.counts.append(count)
    for lane in lanes.values():
        lane.ends = list(accumulate(lane.counts))
    return lanes


def _mark(
    tables: duckdb.DuckDBPyConnection, lanes: dict[tuple[str, str], _Lane], wants: Sequence[Want], sizes: dict[str, int]
) -> list[tuple[str, str, int, int]]:
    """Mark the wanted slots; return the windows whose places are known already."""
    windows: list[tuple[str, str, int, int]] = []
    at = _moments(tables, {want.spot for want in wants if isinstance(want, Around)})
    by_connection: dict[str, list[str]] = defaultdict(list)
    for connection, lane in lanes:
        by_connection[connection].append(lane)
    for want in wants:
        if isinstance(want, Around):
            if want.spot in at:
                when, lane = at[want.spot]
                lanes[want.spot.connection, lane].around(when, want.before, want.after)
            continue
        is_whole = sizes.get(want.connection, 0) <= want.whole
        for lane in by_connection[want.connection]:
            size = lanes[want.connection, lane].size
            parts = [(1, size)] if is_whole else [(1, want.head), (size - want.tail + 1, size)]
            for first, last in parts:
                lanes[want.connection, lane].places(first, last)
                windows.append((want.connection, lane, first, last))
    return windows


def _moments(tables: duckdb.DuckDBPyConnection, spots: set[Spot]) -> dict[Spot, tuple[int, str]]:
    """Return moment and lane of those rows that exist."""
    if not spots:
        return {}
    register_spots(tables, spots)
    result = tables.execute(f"""
select connection, direction, "offset", moment, lane
from {STREAM} semi join wanted_spots using (connection, direction, "offset")""")
    return {Spot(c, direction, offset): (at, lane) for c, direction, offset, at, lane in result.fetchall()}


def _read(
    tables: duckdb.DuckDBPyConnection,
    lanes: dict[tuple[str, str], _Lane],
    wants: Sequence[Want],
    windows: list[tuple[str, str, int, int]],
) -> list[dict[str, Any]]:
    slots = [(*key, slot, skipped) for key, lane in lanes.items() for slot, skipped in lane.skipped()]
    register_rows(tables, "wanted_slots", _SLOTS, slots)
    register_rows(tables, "wanted_windows", _WINDOWS, windows)
    around = [(want.spot, want.before, want.after) for want in wants if isinstance(want, Around)]
    register_rows(
        tables,
        "wanted_around",
        SPOTS.append(pa.field("before", pa.int64())).append(pa.field("after", pa.int64())),
        [(spot.connection, spot.direction, spot.offset, before, after) for spot, before, after in around],
    )
    return rows(
        tables,
        f"""
with near as materialized (
    select stream.*, size,
           skipped + row_number() over (partition by connection, lane order by {ORDER}) as place
    from {STREAM} as stream
    join lanes using (connection, lane)
    join wanted_slots using (connection, lane)
    where slot = (moment - low) // width),
wanted as (
    from wanted_windows
    union all
    select connection, lane, place - "before", place + "after"
    from near join wanted_around using (connection, direction, "offset"))
from near
where exists (from wanted where wanted.connection = near.connection and wanted.lane = near.lane
              and near.place between wanted."first" and wanted."last")
order by connection, lane, place""",
    )
