"""Facts in the order of time, although one direction of a connection may be undecided for a while.

Where bytes cannot be read, a stream's next messages are known only when more bytes have come; they then have times that
lie before those of messages of the other direction which were known at once. A step that is fed in the order of time
would meet a reply before its request. So while a direction has bytes pending, what its connection has later than the
last decided message or quarantined range of that direction is held back. What ends a connection decides both
directions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import arrays
from .arrays import FOR_EVER, Ints, Mask, integers
from .fact_groups import runs_of, to_client
from .facts import FED

_ORDER = ("connection", "ts", "order")
_NUMBERS = ("ts", "order", "offset")

Stream = tuple[str, str]
"""Connection and direction."""


class Ready(NamedTuple):
    """What may be fed: facts sorted by connection, ts, order, and the quarantined ranges that go with them."""

    facts: pa.Table
    quarantined: pa.Table


@dataclass
class TimeOrderCarry:
    facts: pa.Table = field(default_factory=lambda: arrays.empty(FED))
    quarantined: pa.Table | None = None
    decided: dict[Stream, int] = field(default_factory=dict)
    """Until when the streams are known that have bytes pending."""


class TimeOrder:
    """The step before all others. ``carry`` is what an earlier one gave by ``carry()``."""

    def __init__(self, carry: TimeOrderCarry | None = None) -> None:
        self._carry = carry if carry is not None else TimeOrderCarry()

    def carry(self) -> TimeOrderCarry:
        return self._carry

    def take(self, facts: pa.Table, quarantined: pa.Table, accounts: pa.Table, final: bool = False) -> Ready:
        """Return what may be fed. ``quarantined`` are rows of silver/quarantine, ``accounts`` those of the streams that
        were touched."""
        before = self._carry
        if before.facts.num_rows:
            facts = pa.concat_tables([before.facts, facts])
        if before.quarantined is not None and before.quarantined.num_rows:
            quarantined = pa.concat_tables([before.quarantined, quarantined])
        facts = in_order(facts)
        decided = {} if final else _decided(dict(before.decided), facts, quarantined, accounts)
        self._carry = TimeOrderCarry()
        if decided:
            late, lost = _late(facts, decided), _late(quarantined, decided)
            self._carry = TimeOrderCarry(arrays.where(facts, late), arrays.where(quarantined, lost), decided)
            facts, quarantined = arrays.where(facts, ~late), arrays.where(quarantined, ~lost)
        return Ready(facts, quarantined)

    def undecided(self) -> dict[str, int]:
        """Return until when connections are known that have bytes pending."""
        return _until(self._carry.decided)


def in_order(facts: pa.Table) -> pa.Table:
    """Facts sorted by connection, ts, order, each direction as it was sent.

    What lay behind a hole has the time at which the hole was filled, but its own place in the capture, which may be
    before that of what filled it. So where a direction would not be in the order of its offsets, a message counts as
    being where the last one before it is.
    """
    facts = arrays.whole(_sorted(facts, _ORDER))
    runs, side, offset = runs_of(facts), to_client(facts), integers(facts["offset"])
    owner = runs.spread(np.arange(len(runs.names)))
    odd: set[int] = set()
    for way in (0, 1):
        rows = np.flatnonzero(side == way)
        back = (np.diff(offset[rows]) < 0) & (np.diff(owner[rows]) == 0)
        odd |= set(owner[rows[1:]][back].tolist())
    if not odd:
        return facts
    order = integers(facts["order"]).copy()
    for i in sorted(odd):
        for way in (0, 1):
            rows = np.arange(runs.starts[i], runs.starts[i + 1])[side[runs.starts[i] : runs.starts[i + 1]] == way]
            sent = rows[np.argsort(offset[rows], kind="stable")]
            order[sent] = np.maximum.accumulate(order[sent])
    facts = arrays.replaced(facts, {"order": pa.array(order)})
    return _sorted(facts, (*_ORDER, "direction", "offset"))


def _sorted(facts: pa.Table, order: Sequence[str]) -> pa.Table:
    if not facts.num_rows:
        return facts
    keys = [integers(facts[name], FOR_EVER) if name in _NUMBERS else _ranks(facts[name]) for name in order]
    return arrays.taken(facts, np.lexsort(keys[::-1]))


def _ranks(texts: pa.ChunkedArray) -> Ints:
    """Return numbers that sort as the texts do, of which there are few."""
    names, place = arrays.coded(texts)
    ranks = np.empty(len(names) + 1, np.int64)
    ranks[pc.sort_indices(names).to_numpy()] = np.arange(len(names))
    ranks[-1] = FOR_EVER
    return ranks[place]


def _decided(known: dict[Stream, int], facts: pa.Table, quarantined: pa.Table, accounts: pa.Table) -> dict[Stream, int]:
    streams = zip(accounts.column("connection").to_pylist(), accounts.column("direction").to_pylist(), strict=True)
    pending = pc.greater(accounts.column("bytes_pending"), 0).to_pylist()
    for stream, is_pending in zip(streams, pending, strict=True):
        if is_pending:
            known.setdefault(stream, -1)
        else:
            known.pop(stream, None)
    for table in (facts, quarantined) if known else ():
        for stream, last in _last(table, known):
            known[stream] = max(known[stream], last)
    return known


def _of(table: pa.Table, decided: dict[Stream, int]) -> Ints:
    """Return the rows of connections that have something pending."""
    names = pa.array(sorted({connection for connection, _ in decided}), pa.string())
    return np.flatnonzero(pc.is_in(table.column("connection"), value_set=names).to_numpy())


def _last(table: pa.Table, known: dict[Stream, int]) -> Iterator[tuple[Stream, int]]:
    rows = pa.array(_of(table, known))
    streams = (table.column(name).take(rows).to_pylist() for name in ("connection", "direction"))
    times = integers(table["ts"].take(rows)).tolist()
    for connection, direction, ts in zip(*streams, times, strict=True):
        if (connection, direction) in known:
            yield (connection, direction), ts


def _until(decided: dict[Stream, int]) -> dict[str, int]:
    """Until when connections are known that have something pending."""
    until: dict[str, int] = {}
    for (connection, _), ts in decided.items():
        until[connection] = min(ts, until.get(connection, ts))
    return until


def _late(table: pa.Table, decided: dict[Stream, int]) -> Mask:
    until = _until(decided)
    rows = _of(table, decided)
    limit = np.array([until[name] for name in table.column("connection").take(pa.array(rows)).to_pylist()], np.int64)
    late = np.zeros(table.num_rows, np.bool_)
    late[rows] = integers(table["ts"])[rows] > limit
    return late
