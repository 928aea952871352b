"""Derive gold from one bucket of connections: exchanges, sessions, violations, and the steps of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..capture.quarantine import QUARANTINE
from ..gold import exchanges, sessions, time_order, violations
from ..gold.arrays import taken
from ..gold.connections import CONNECTIONS
from ..gold.exchanges import EXCHANGES, Exchanges
from ..gold.facts import FACTS, FED
from ..gold.open import OPEN
from ..gold.sessions import SESSIONS, Sessions
from ..gold.tables import ACCOUNTING
from ..gold.time_order import Held
from ..gold.transactions import EVENTS, WORK, branch_events, part_of
from ..gold.violations import VIOLATIONS, Violations
from ..lake import Attempt, StagedFile, Staging, read_ipc
from .carry import pack, read
from .declared import Declared
from .transactions_task import MOVES, part_name

SHARES = {"facts": FED, "connections": CONNECTIONS, "accounts": ACCOUNTING, "damage": QUARANTINE}
"""What goes from decoding to gold."""


@dataclass(frozen=True)
class GoldTask:
    """One bucket of connections: its files of each partition, in their order, and what was undecided before."""

    bucket: int
    staging: Staging
    shares: tuple[dict[str, StagedFile], ...]
    carry: str | None
    watermark_us: int | None
    final: bool
    parts: int
    """Into how many parts transactions are divided."""
    declared: tuple[Declared, ...] = ()

    def run(self) -> GoldResult:
        with self.staging.attempt(f"g{self.bucket:03d}") as attempt:
            return _Gold(self, attempt).run()


@dataclass
class GoldResult:
    files: list[StagedFile] = field(default_factory=list)
    carry: StagedFile | None = None
    events: dict[str, StagedFile] = field(default_factory=dict)
    open: StagedFile | None = None
    violations: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


@dataclass
class GoldCarry:
    """What is undecided in a bucket."""

    order: time_order.Carry | None = None
    exchanges: exchanges.Carry | None = None
    sessions: sessions.Carry | None = None
    violations: violations.Carry | None = None


class _Gold:
    """The steps of one bucket, fed together."""

    def __init__(self, task: GoldTask, attempt: Attempt) -> None:
        self.task = task
        self.attempt = attempt
        carry = read(task.staging.store, task.carry, GoldCarry) if task.carry is not None else GoldCarry()
        self.held = Held(carry.order)
        self.exchanges = Exchanges(carry.exchanges)
        self.sessions = Sessions(carry.sessions)
        protocols = [one.load() for one in task.declared]
        self.violations = Violations(carry.violations, {protocol.name: protocol for protocol in protocols})
        self.events: dict[str, Any] = {}
        self.result = GoldResult()

    def run(self) -> GoldResult:
        for shares in self.task.shares:
            self._feed(shares)
        if self.task.final:
            self._feed({}, final=True)
        self._settle()
        result, attempt = self.result, self.attempt
        opened = attempt.stream("open", OPEN)
        for rows in (*map(_as_open, self._open_requests()), self.sessions.open()):
            opened.write(rows)
        result.open = opened.close()
        if not self.task.final:
            result.carry = attempt.stage_bytes("carry", pack(self._carry()))
        result.files = attempt.close()
        result.events = {name: stream.close() for name, stream in self.events.items()}
        return result

    def _carry(self) -> GoldCarry:
        return GoldCarry(self.held.carry(), self.exchanges.carry(), self.sessions.carry(), self.violations.carry())

    def _feed(self, shares: dict[str, StagedFile], final: bool = False) -> None:
        """What one partition had for this bucket: all steps take it in turn."""
        given = {name: _table(self.task.staging, shares.get(name), schema) for name, schema in SHARES.items()}
        connections = _connections(given["connections"])
        accounts = _newest(given["accounts"], "connection", "direction")
        ended = connections.filter(pc.is_valid(connections.column("ended")))
        over = dict(zip(ended.column("connection").to_pylist(), ended.column("ended_us").to_pylist(), strict=True))
        ready = self.held.take(given["facts"], given["damage"], accounts, final, over)
        self._exchanged(self.exchanges.feed(ready.exchanged, ready.ended))
        found = self._violated(self.violations.feed(ready.facts, connections, ready.damage))
        self.sessions.feed(ready.facts, connections, accounts, ready.damage, found)
        self._branched(branch_events(ready.facts))

    def _branched(self, events: pa.Table) -> None:
        """Hands events to the parts that transactions are looked at in."""
        if not events.num_rows:
            return
        # Without a part, what moves transactions is -1.
        is_work = events.column("step").to_numpy() == WORK
        part = np.where(is_work, part_of(events, self.task.parts), -1)
        events = taken(events, np.argsort(part, kind="stable"))
        numbers, counts = np.unique(part, return_counts=True)
        start = 0
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            name = MOVES if number < 0 else part_name(number)
            if name not in self.events:
                self.events[name] = self.attempt.stream(name, EVENTS)
            self.events[name].write(events.slice(start, count))
            start += count

    def _violated(self, found: pa.Table) -> pa.Table:
        if found.num_rows:
            self.attempt.table("gold/violations", VIOLATIONS).write(found)
            self.result.violations += found.num_rows
        return found

    def _exchanged(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.attempt.table("gold/exchanges", EXCHANGES, dated_by="request_ts").write(rows)
            for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
                self.result.outcomes[outcome["values"]] = (
                    self.result.outcomes.get(outcome["values"], 0) + outcome["counts"]
                )

    def _open_requests(self) -> Iterator[pa.Table]:
        """Also those that wait for other connections: as far as is known they are open."""
        exchanges, waiting = self.exchanges, self.held.waiting
        if waiting.facts.num_rows:
            exchanges = Exchanges(exchanges.carry())
            exchanges.feed(waiting.facts, waiting.ended)
        return exchanges.open()

    def _settle(self) -> None:
        now, final = self.task.watermark_us, self.task.final
        found = self._violated(self.violations.settle(now or 0, final))
        for rows in self.exchanges.settle(now, final, self.held.known_until()):
            self._exchanged(rows)
        self.sessions.feed(FACTS.empty_table(), CONNECTIONS.empty_table(), violations=found)
        rows = self.sessions.settle(now or 0, final)
        if rows.num_rows:
            self.attempt.table("gold/sessions", SESSIONS, dated_by="first_ts").write(rows)


def _as_open(rows: pa.Table) -> pa.Table:
    """Open requests as rows of gold/open."""
    size = rows.num_rows
    made = {
        "kind": pa.repeat(pa.scalar("request"), size),
        "since_ts": rows.column("request_ts"),
        "detail": pa.repeat(pa.scalar("no reply yet"), size),
    }
    return pa.table([made[name] if name in made else rows.column(name) for name in OPEN.names], OPEN)


def _table(staging: Staging, file: StagedFile | None, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(read_ipc(staging, file) if file is not None else [], schema)


def _connections(rows: pa.Table) -> pa.Table:
    """The last row of each connection, with the capture in which it was seen first."""
    captures: dict[str, str] = {}
    for name, capture in zip(rows.column("connection").to_pylist(), rows.column("capture").to_pylist(), strict=True):
        captures.setdefault(name, capture)
    newest = _newest(rows, "connection")
    first = pa.array([captures[name] for name in newest.column("connection").to_pylist()], pa.string())
    return newest.set_column(newest.schema.get_field_index("capture"), "capture", first)


def _newest(rows: pa.Table, *key: str) -> pa.Table:
    """The last row of each key."""
    names = zip(*(rows.column(name).to_pylist() for name in key), strict=True)
    last = {name: row for row, name in enumerate(names)}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))
