"""Windows: the rows around some places in connections, read without the rest of them.

A connection can have millions of messages, and a report wants a few dozen of them in hundreds of places. So each
connection is cut into slots of time with some dozens of rows on average. One query counts the rows of each slot, which
reads two columns; another reads only the slots with wanted rows. Both serve all connections at once.

A row is a message or a quarantined range: both have their place in the connection. Without times (raw streams) the
order of the two directions is unknown; each is then a *lane* of its own, and slots are ranges of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .conversation_ids import Spot
from .database import NUMBER, SPOT, TEXT, Row, Tables, register, rows

PER_SLOT = 64

KEYS = """coalesce(epoch_us(ts), "offset") as moment, case when ts is null then direction else '' end as lane"""


def shortened(column: str) -> str:
    """Return SQL that cuts the middle out of very long texts: nobody wants megabytes of a name."""
    return f"if(length({column}) > 1000, left({column}, 700) || '…' || right({column}, 200), {column}) as {column}"


MESSAGE = f"""sensor, connection, direction, "offset", epoch_us(ts) as ts, length::bigint as length, protocol, message,
        kind, {shortened("address")}, {shortened("status")}, correlation, null as rule, null as path, null as detail"""
"""The columns of a message as an event."""
STREAM = f"""
(select {MESSAGE}, {KEYS}
 from silver_messages
 union all
 select sensor, connection, direction, "offset", epoch_us(ts), length, protocol, null, null,
        null, null, null, rule, path, {shortened("detail")}, {KEYS}
 from silver_quarantine)
"""
ORDER = 'moment, direction desc, "offset", rule is not null'
LANES = f"""
create or replace temp table lanes as
select sensor, connection, lane, count(*) as size, min(moment) as low,
       sum(count(*)) over (partition by sensor, connection) as total,
       greatest((max(moment) - min(moment)) // greatest(count(*) // {PER_SLOT}, 1) + 1, 1) as width
from {STREAM}
semi join (select sensor, connection from wanted_around union select sensor, connection from wanted_ends)
using (sensor, connection)
group by sensor, connection, lane"""
"""Connections, or without times their directions; ``total`` is the number of rows of the connection."""
IN_SLOTS = f"""
(select stream.*, total, (moment - low) // width as slot
 from {STREAM} as stream join lanes using (sensor, connection, lane))
"""
SLOTS = f"""
create or replace temp table slots as
select sensor, connection, lane, slot,
       sum(size) over (partition by sensor, connection, lane order by slot)::bigint as "last",
       "last" - size + 1 as "first"
from (select sensor, connection, lane, slot, count(*) as size
      from {IN_SLOTS} group by sensor, connection, lane, slot)"""
"""Slots with the places of their first and last row, counted from 1."""
WINDOWS = f"""
with ends as (
    select number, sensor, connection, lane, 1 as "first", if(total <= whole, size, head) as "last"
    from wanted_ends join lanes using (sensor, connection)
    union all
    select number, sensor, connection, lane, greatest(head, size - tail) + 1, size
    from wanted_ends join lanes using (sensor, connection)
    where total > whole),
wanted_slots as materialized (
    select distinct number, sensor, connection, lane, slot, slots."first"
    from slots
    join (from ends
          union all
          select number, sensor, connection, lane, "first" - "before", "last" + "after"
          from {IN_SLOTS}
          join wanted_around using (sensor, connection, direction, "offset")
          join slots using (sensor, connection, lane, slot)) as near using (sensor, connection, lane)
    where near."first" <= slots."last" and near."last" >= slots."first"),
listed as materialized (
    select stream.*, "first" - 1 + row_number() over (partition by sensor, connection, lane, slot
                                                          order by {ORDER}) as place
    from {IN_SLOTS} as stream
    join (select distinct sensor, connection, lane, slot, "first" from wanted_slots)
    using (sensor, connection, lane, slot)),
windows as (
    from ends
    union all
    select number, sensor, connection, lane, min(place) - "before", min(place) + "after"
    from listed join wanted_around using (sensor, connection, direction, "offset")
    group by number, sensor, connection, lane, "before", "after")
select listed.*, number
from listed
join wanted_slots using (sensor, connection, lane, slot)
join windows using (sensor, connection, lane, number)
where place between windows."first" and windows."last"
order by number, lane = 'to_client', place"""
"""The rows of all windows. A slot is read if the window of any row in the slot of a wanted row could reach it."""


@dataclass(frozen=True)
class Around:
    """A row with some rows before and after it."""

    spot: Spot
    before: int
    after: int


@dataclass(frozen=True)
class Ends:
    """A whole connection if it is small, otherwise its first and last rows."""

    sensor: str
    connection: str
    whole: int
    head: int
    tail: int


Want = Around | Ends


def read_windows(tables: Tables, wants: Iterable[Want]) -> dict[Want, list[Row]]:
    """Return the rows of each window in order, each with its place in the connection and their total number."""
    windows: dict[Want, list[Row]] = {want: [] for want in wants}
    if not windows:
        return windows
    numbered = list(windows)
    around = [(i, *want.spot, want.before, want.after) for i, want in enumerate(numbered) if isinstance(want, Around)]
    ends = [
        (i, want.sensor, want.connection, want.whole, want.head, want.tail)
        for i, want in enumerate(numbered)
        if isinstance(want, Ends)
    ]
    register(tables, "wanted_around", {"number": NUMBER, **SPOT, "before": NUMBER, "after": NUMBER}, around)
    sizes = dict.fromkeys(("whole", "head", "tail"), NUMBER)
    register(tables, "wanted_ends", {"number": NUMBER, "sensor": TEXT, "connection": TEXT, **sizes}, ends)
    tables.execute(LANES)
    tables.execute(SLOTS)
    for row in rows(tables, WINDOWS):
        windows[numbered[row["number"]]].append(row)
    return windows
