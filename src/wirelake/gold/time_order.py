"""Facts in the order of time, although one direction of a connection may be undecided for a while.

Where bytes cannot be read, a stream's next messages are known only when more bytes have come; they then have times that
lie before those of messages of the other direction which were known at once. A step that is fed in the order of time
would meet an answer before its request. So while a direction has bytes pending, what its connection has later than the
last decided message or bad range of that direction is held back. What ends a connection decides both directions.

Over a broker an exchange has a leg on another connection. There, exchanges are looked at only up to the time until
which all connections with that server are decided, their ends included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from . import arrays
from .broker_legs import BROKERED, server_of
from .connections import integers, runs_of, to_client
from .facts import FACTS

QUIET_US = 300_000_000
"""A connection that has been silent for so long may never go on: the others with its server do not wait for it."""
MOST_WAITING = 1 << 20
"""If more facts than these would wait for another connection, they do not: memory is bounded."""
_NO_TIME, _NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_ORDER = [("connection", "ascending"), ("ts", "ascending"), ("order", "ascending")]

Stream = tuple[str, str]
"""Connection and direction."""


class Ready(NamedTuple):
    """What may be fed: facts sorted by connection, ts, order, and the bad ranges that go with them."""

    facts: pa.Table
    damage: pa.Table
    exchanged: pa.Table
    """The facts for exchanges: over a broker, only those that no connection with the same server can precede."""
    ended: dict[str, int | None]
    """The connections that ended, for exchanges likewise."""


@dataclass
class Waiting:
    """What waits for other connections with the same server."""

    facts: pa.Table = field(default_factory=FACTS.empty_table)
    ended: dict[str, int | None] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    """When the undecided connections with brokers were last heard of."""
    limits: dict[str, int] = field(default_factory=dict)
    """The times before which everything is known of servers that have such connections."""
    now: int = -1


@dataclass
class Carry:
    facts: pa.Table = field(default_factory=FACTS.empty_table)
    damage: pa.Table | None = None
    decided: dict[Stream, int] = field(default_factory=dict)
    """Until when the streams are known that have bytes pending."""
    waiting: Waiting = field(default_factory=Waiting)


class Held:
    """The step before all others. ``carry`` is what an earlier one gave by ``carry()``."""

    def __init__(self, carry: Carry | None = None) -> None:
        self._carry = carry if carry is not None else Carry()

    def carry(self) -> Carry:
        """What is held back, picklable."""
        return self._carry

    def take(
        self,
        facts: pa.Table,
        damage: pa.Table,
        accounts: pa.Table,
        final: bool = False,
        ended: Mapping[str, int | None] | None = None,
    ) -> Ready:
        """``damage`` are rows of silver/quarantine, ``accounts`` those of the streams that were touched; ``ended`` are
        connections with the time of their end (None: not known).
        """
        before = self._carry
        if before.facts.num_rows:
            facts = pa.concat_tables([before.facts, facts])
        if before.damage is not None and before.damage.num_rows:
            damage = pa.concat_tables([before.damage, damage])
        facts = in_order(facts)
        decided = {} if final else _decided(dict(before.decided), facts, damage, accounts)
        self._carry = Carry()
        if decided:
            late, lost = _late(facts, decided), _late(damage, decided)
            self._carry = Carry(arrays.where(facts, late), arrays.where(damage, lost), decided)
            facts, damage = arrays.where(facts, ~late), arrays.where(damage, ~lost)
        exchanged, over, self._carry.waiting = _together(before.waiting, facts, ended or {}, accounts, _until(decided))
        return Ready(facts, damage, exchanged, over)

    @property
    def waiting(self) -> Waiting:
        """What exchanges have not been given yet."""
        return self._carry.waiting

    def known_until(self) -> Callable[[str], int | None]:
        """Tells until when exchanges of a connection are known; None: as far as anything is."""
        until, limits = _until(self._carry.decided), self._carry.waiting.limits

        def known(connection: str) -> int | None:
            times = [time for time in (until.get(connection), limits.get(server_of(connection))) if time is not None]
            return min(times, default=None)

        return known


def _together(
    before: Waiting, facts: pa.Table, ended: Mapping[str, int | None], accounts: pa.Table, until: dict[str, int]
) -> tuple[pa.Table, dict[str, int | None], Waiting]:
    """Facts and ends in an order of time that all connections with a broker share, and what has to wait for that.

    What is at the very time of a limit waits too: what is undecided may have the same time, and an earlier place.
    """
    if before.facts.num_rows:
        facts = in_order(pa.concat_tables([before.facts, facts]))
    ended = before.ended | dict(ended)
    now = max(before.now, int(integers(facts, "ts").max(initial=-1)))
    heard = {name: time for name, time in before.heard.items() if name in until}
    heard |= dict.fromkeys(_brokered(accounts) & until.keys(), now)
    limits: dict[str, int] = {}
    for name, time in heard.items():
        if now - time <= QUIET_US:
            limits[server_of(name)] = min(until[name], limits.get(server_of(name), until[name]))
    late = _waits(facts, limits)
    if not limits or int(late.sum()) > MOST_WAITING:
        return facts, ended, Waiting(heard=heard, now=now)
    waits = {name: at for name, at in ended.items() if _is_late(at, limits.get(server_of(name)))}
    over = {name: at for name, at in ended.items() if name not in waits}
    return arrays.where(facts, ~late), over, Waiting(arrays.where(facts, late), waits, heard, limits, now)


def _brokered(accounts: pa.Table) -> set[str]:
    return set(accounts.column("connection").filter(_over_broker(accounts)).to_pylist())


def _over_broker(table: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(table.column("protocol"), value_set=pa.array(sorted(BROKERED)))


def _waits(facts: pa.Table, limits: dict[str, int]) -> NDArray[np.bool_]:
    """Which facts are not before the limit of their server."""
    if not limits or not facts.num_rows:
        return np.zeros(facts.num_rows, np.bool_)
    runs = runs_of(facts)
    limit = runs.spread([limits.get(server_of(name), _NEVER) for name in runs.names])
    late = integers(facts, "ts", _NO_TIME) >= limit
    return np.asarray(late & _over_broker(facts).to_numpy(), np.bool_)


def _is_late(time: int | None, limit: int | None) -> bool:
    """Without times nobody waits."""
    return limit is not None and time is not None and time >= limit


def in_order(facts: pa.Table) -> pa.Table:
    """Facts sorted by connection, ts, order, each direction as it was sent.

    What lay behind a hole has the time at which the hole was filled, but its own place in the capture, which may be
    before that of what filled it. So where a direction would not be in the order of its offsets, a message counts as
    being where the last one before it is.
    """
    facts = _sorted(facts, _ORDER)
    runs, side, offset = runs_of(facts), to_client(facts), integers(facts, "offset")
    owner = runs.spread(np.arange(len(runs.names)))
    odd: set[int] = set()
    for way in (0, 1):
        rows = np.flatnonzero(side == way)
        back = (np.diff(offset[rows]) < 0) & (np.diff(owner[rows]) == 0)
        odd |= set(owner[rows[1:]][back].tolist())
    if not odd:
        return facts
    order = integers(facts, "order").copy()
    for i in sorted(odd):
        for way in (0, 1):
            rows = np.arange(runs.starts[i], runs.starts[i + 1])[side[runs.starts[i] : runs.starts[i + 1]] == way]
            sent = rows[np.argsort(offset[rows], kind="stable")]
            order[sent] = np.maximum.accumulate(order[sent])
    place = facts.schema.get_field_index("order")
    facts = facts.set_column(place, facts.schema.field(place), pa.array(order))
    return _sorted(facts, [*_ORDER, ("direction", "ascending"), ("offset", "ascending")])


def _sorted(facts: pa.Table, order: list[tuple[str, str]]) -> pa.Table:
    by = facts.select([name for name, _ in order]).combine_chunks()
    return arrays.taken(facts, pc.sort_indices(by, order).to_numpy().astype(np.int64))


def _decided(known: dict[Stream, int], facts: pa.Table, damage: pa.Table, accounts: pa.Table) -> dict[Stream, int]:
    streams = zip(accounts.column("connection").to_pylist(), accounts.column("direction").to_pylist(), strict=True)
    pending = pc.greater(accounts.column("bytes_pending"), 0).to_pylist()
    for stream, is_pending in zip(streams, pending, strict=True):
        if is_pending:
            known.setdefault(stream, -1)
        else:
            known.pop(stream, None)
    for table in (facts, damage) if known else ():
        for stream, last in _last(table, known):
            known[stream] = max(known[stream], last)
    return known


def _of(table: pa.Table, decided: dict[Stream, int]) -> NDArray[np.int64]:
    """The rows of connections that have something pending."""
    names = pa.array(sorted({connection for connection, _ in decided}), pa.string())
    return np.flatnonzero(pc.is_in(table.column("connection"), value_set=names).to_numpy())


def _last(table: pa.Table, known: dict[Stream, int]) -> Iterator[tuple[Stream, int]]:
    rows = pa.array(_of(table, known))
    streams = (table.column(name).take(rows).to_pylist() for name in ("connection", "direction"))
    times = integers(table.select(["ts"]).take(rows), "ts").tolist()
    for connection, direction, ts in zip(*streams, times, strict=True):
        if (connection, direction) in known:
            yield (connection, direction), ts


def _until(decided: dict[Stream, int]) -> dict[str, int]:
    """Until when connections are known that have something pending."""
    until: dict[str, int] = {}
    for (connection, _), ts in decided.items():
        until[connection] = min(ts, until.get(connection, ts))
    return until


def _late(table: pa.Table, decided: dict[Stream, int]) -> NDArray[np.bool_]:
    until = _until(decided)
    rows = _of(table, decided)
    limit = np.array([until[name] for name in table.column("connection").take(pa.array(rows)).to_pylist()], np.int64)
    late = np.zeros(table.num_rows, np.bool_)
    late[rows] = integers(table, "ts")[rows] > limit
    return late
