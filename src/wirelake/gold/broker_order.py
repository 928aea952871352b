"""What was matched, in an order of time that all connections with a broker share.

Over a broker an exchange has a leg on another connection. So exchanges are looked at only up to the time until which
all connections with that server are decided, their ends included. Connections of other protocols do not wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..capture.chunks import server_of
from . import arrays
from .arrays import FOR_EVER, Mask, integers, valid
from .declarations import Declarations
from .matching import MATCHED

QUIET_US = 300_000_000
"""A connection that has been silent for so long may never go on: the others with its server do not wait for it."""
MOST_WAITING = 1 << 20
"""If more rows than these would wait for another connection, they do not: memory is bounded."""

Ended = dict[str, int | None]
"""Connections that ended, with the time of their end; None: not known."""


@dataclass
class BrokerOrderCarry:
    """What waits for other connections with the same server."""

    rows: pa.Table = field(default_factory=lambda: arrays.empty(MATCHED))
    ended: dict[str, int | None] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    """When the undecided connections with brokers were last heard of."""
    limits: dict[str, int] = field(default_factory=dict)
    """The times before which everything is known of servers that have such connections."""
    now: int = -1


class BrokerOrder:
    """The step between matching and exchanges. ``carry`` is what an earlier one gave by ``carry()``."""

    def __init__(self, carry: BrokerOrderCarry | None = None, protocols: Declarations | None = None) -> None:
        self._carry = carry if carry is not None else BrokerOrderCarry()
        self._protocols = protocols or Declarations()

    def carry(self) -> BrokerOrderCarry:
        return self._carry

    def take(
        self, matched: pa.Table, ended: Mapping[str, int | None], accounts: pa.Table, undecided: Mapping[str, int]
    ) -> tuple[pa.Table, Ended]:
        """Return the rows (MATCHED) and ends that no connection with the same server can precede.

        ``accounts`` are those of the streams that were touched; ``undecided`` says until when connections are known
        that have bytes pending. What is at the very time of a limit waits too: what is undecided may have the same
        time, and an earlier place.
        """
        before = self._carry
        rows = pa.concat_tables([before.rows, matched]) if before.rows.num_rows else matched
        over = before.ended | dict(ended)
        now = max(before.now, int(integers(matched["at"]).max(initial=-1)))
        heard = {name: time for name, time in before.heard.items() if name in undecided}
        heard |= dict.fromkeys(self._brokered(accounts) & undecided.keys(), now)
        limits: dict[str, int] = {}
        for name, time in heard.items():
            if now - time <= QUIET_US:
                server = server_of(name)
                limits[server] = min(undecided[name], limits.get(server, undecided[name]))
        late = self._waits(rows, limits)
        if not limits or int(late.sum()) > MOST_WAITING:
            self._carry = BrokerOrderCarry(heard=heard, now=now)
            return rows, over
        waiting = {name: at for name, at in over.items() if _is_late(at, limits.get(server_of(name)))}
        self._carry = BrokerOrderCarry(arrays.where(rows, late), waiting, heard, limits, now)
        return arrays.where(rows, ~late), {name: at for name, at in over.items() if name not in waiting}

    def known_until(self, connection: str) -> int | None:
        """Return until when exchanges of a connection are known; None: as far as anything is."""
        return self._carry.limits.get(server_of(connection))

    def _brokered(self, accounts: pa.Table) -> set[str]:
        return set(accounts.column("connection").filter(self._over_broker(accounts)).to_pylist())

    def _over_broker(self, table: pa.Table) -> pa.ChunkedArray:
        names = pc.unique(table.column("protocol").drop_null()).to_pylist()
        brokered = [name for name in names if self._protocols.conduct(name).brokered]
        return pc.is_in(table.column("protocol"), value_set=pa.array(brokered, pa.string()))

    def _waits(self, rows: pa.Table, limits: Mapping[str, int]) -> Mask:
        """Say which rows are not before the limit of their server. Without times nobody waits."""
        if not limits or not rows.num_rows:
            return np.zeros(rows.num_rows, np.bool_)
        limit = arrays.by_text(rows["connection"], lambda name: limits.get(server_of(name), FOR_EVER))
        late = integers(rows["at"]) >= limit
        return np.asarray(late & valid(rows["ts"]) & self._over_broker(rows).to_numpy(), np.bool_)


def _is_late(time: int | None, limit: int | None) -> bool:
    return limit is not None and time is not None and time >= limit
