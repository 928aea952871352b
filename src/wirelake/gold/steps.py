"""All steps of gold over one bucket of connections, fed together: facts in, rows of the gold tables out.

Facts are put in the order of time and matched once; exchanges, violations, sessions and transactions read the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from . import arrays
from .branch_events import BranchEvents, BranchEventsCarry
from .broker_order import BrokerOrder, BrokerOrderCarry
from .connections import CONNECTIONS
from .declarations import Declarations
from .exchanges import Exchanges, ExchangesCarry
from .facts import FED, fed
from .matching import Matching, MatchingCarry
from .open import open_requests
from .sessions import Sessions, SessionsCarry
from .time_order import TimeOrder, TimeOrderCarry
from .violations import Violations, ViolationsCarry


@dataclass
class GoldCarry:
    """What is undecided between two commits."""

    time_order: TimeOrderCarry = field(default_factory=TimeOrderCarry)
    matching: MatchingCarry = field(default_factory=MatchingCarry)
    broker_order: BrokerOrderCarry = field(default_factory=BrokerOrderCarry)
    exchanges: ExchangesCarry = field(default_factory=ExchangesCarry)
    violations: ViolationsCarry = field(default_factory=ViolationsCarry)
    sessions: SessionsCarry = field(default_factory=SessionsCarry)
    branch_events: BranchEventsCarry = field(default_factory=BranchEventsCarry)


class GoldRows(NamedTuple):
    """Decided rows of gold/exchanges and gold/violations, and the events that move transactions."""

    exchanges: pa.Table
    violations: pa.Table
    events: pa.Table


class GoldSteps:
    """The steps. ``carry`` is what earlier ones gave by ``carry()``; feeding them in parts gives the same rows."""

    def __init__(self, carry: GoldCarry | None = None, protocols: Declarations | None = None) -> None:
        carry = carry if carry is not None else GoldCarry()
        protocols = protocols or Declarations()
        self._time_order = TimeOrder(carry.time_order)
        self._matching = Matching(carry.matching, protocols)
        self._broker_order = BrokerOrder(carry.broker_order, protocols)
        self._exchanges = Exchanges(carry.exchanges)
        self._violations = Violations(carry.violations, protocols)
        self._sessions = Sessions(carry.sessions)
        self._branch_events = BranchEvents(carry.branch_events, protocols)

    def carry(self) -> GoldCarry:
        return GoldCarry(
            self._time_order.carry(),
            self._matching.carry(),
            self._broker_order.carry(),
            self._exchanges.carry(),
            self._violations.carry(),
            self._sessions.carry(),
            self._branch_events.carry(),
        )

    def feed(
        self, facts: pa.Table, connections: pa.Table, accounts: pa.Table, quarantined: pa.Table, final: bool = False
    ) -> GoldRows:
        """Take what one partition has: facts, CONNECTIONS that were seen, the newest accounts of streams that were
        touched, rows of silver/quarantine. ``final``: nothing more comes."""
        ready = self._time_order.take(fed(facts), quarantined, accounts, final)
        ended = _ends(connections)
        matched = self._matching.feed(ready.facts, ended)
        rows = matched.rows()
        events = self._branch_events.feed(rows, ended)
        exchanged, over = self._broker_order.take(rows, ended, accounts, self._time_order.undecided())
        violations = self._violations.feed(matched, connections, ready.quarantined)
        self._sessions.feed(ready.facts, connections, accounts, ready.quarantined, violations)
        return GoldRows(self._exchanges.feed(exchanged, over), violations, events)

    def known_until(self) -> int | None:
        """Return until when all connections are known; None: none has anything pending."""
        return min(self._time_order.undecided().values(), default=None)

    def settle_violations(self, watermark: int | None, final: bool = False) -> pa.Table:
        """Return the violations that are decided now that everything up to ``watermark`` (microseconds) was fed."""
        violations = self._violations.settle(watermark or 0, final)
        self._sessions.feed(arrays.empty(FED), arrays.empty(CONNECTIONS), violations=violations)
        return violations

    def settle_exchanges(self, watermark: int | None, final: bool = False) -> Iterator[pa.Table]:
        """Return, in parts, the requests that have waited long enough; forget what no later fact can be about."""
        undecided = self._time_order.undecided()
        self._matching.settle(watermark or 0, final, undecided.get)
        self._branch_events.settle(watermark or 0, undecided.get)
        return self._exchanges.settle(watermark, final, self._known_until)

    def settle_sessions(self, watermark: int | None, final: bool = False) -> pa.Table:
        """Return the sessions that have ended; settle violations first, because sessions count them."""
        return self._sessions.settle(watermark or 0, final)

    def open(self) -> Iterator[pa.Table]:
        """Return, in parts, the rows of gold/open: requests, then sessions. Requests that wait for other connections
        are open as far as is known."""
        exchanges, waiting = self._exchanges, self._broker_order.carry()
        if waiting.rows.num_rows:
            exchanges = Exchanges(exchanges.carry())
            exchanges.feed(waiting.rows, waiting.ended)
        yield from map(open_requests, exchanges.open())
        yield self._sessions.open()

    def _known_until(self, connection: str) -> int | None:
        times = (self._time_order.undecided().get(connection), self._broker_order.known_until(connection))
        return min((time for time in times if time is not None), default=None)


def _ends(connections: pa.Table) -> dict[str, int | None]:
    """Return the connections that ended, with the times of their ends."""
    ended = connections.filter(pc.is_valid(connections.column("ended")))
    return dict(zip(ended.column("connection").to_pylist(), ended.column("ended_us").to_pylist(), strict=True))
