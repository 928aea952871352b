"""Derive gold from one bucket of connections: exchanges, sessions, violations, and the steps of transactions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...capture.quarantine import QUARANTINE
from ...gold.arrays import taken
from ...gold.branch_events import EVENTS, WORK, part_of
from ...gold.by_connection import CONNECTIONS
from ...gold.declarations import Declarations
from ...gold.exchanges import EXCHANGES
from ...gold.facts import FED
from ...gold.open import OPEN
from ...gold.sessions import SESSIONS
from ...gold.steps import GoldCarry, GoldSteps
from ...gold.tables import ACCOUNTING
from ...gold.violations import VIOLATIONS
from ...lake import Attempt, StagedFile, Staging, read_ipc
from ..carry import pack, read
from ..declared import Declared
from .transactions import calls_name, moves_name

SHARES = {"facts": FED, "connections": CONNECTIONS, "accounts": ACCOUNTING, "quarantine": QUARANTINE}
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


class _Gold:
    """The steps of one bucket, and the files that they fill."""

    def __init__(self, task: GoldTask, attempt: Attempt) -> None:
        self.task = task
        self.attempt = attempt
        protocols = {protocol.name: protocol for protocol in (declared.load() for declared in task.declared)}
        carry = read(task.staging.store, task.carry, GoldCarry) if task.carry is not None else None
        self.steps = GoldSteps(carry, Declarations(protocols))
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
        for rows in self.steps.open():
            opened.write(rows)
        result.open = opened.close()
        if not self.task.final:
            result.carry = attempt.stage_bytes("carry", pack(self.steps.carry()))
        result.files = attempt.close()
        result.events = {name: stream.close() for name, stream in self.events.items()}
        return result

    def _feed(self, shares: dict[str, StagedFile], final: bool = False) -> None:
        """Take what one partition has for this bucket."""
        given = {name: _table(self.task.staging, shares.get(name), schema) for name, schema in SHARES.items()}
        accounts = _newest(given["accounts"], "connection", "direction")
        rows = self.steps.feed(given["facts"], _connections(given["connections"]), accounts, given["quarantine"], final)
        self._write_exchanges(rows.exchanges)
        self._write_violations(rows.violations)
        self._write_events(rows.events)

    def _settle(self) -> None:
        now, final = self.task.watermark_us, self.task.final
        self._write_violations(self.steps.settle_violations(now, final))
        for rows in self.steps.settle_exchanges(now, final):
            self._write_exchanges(rows)
        rows = self.steps.settle_sessions(now, final)
        if rows.num_rows:
            self.attempt.table("gold/sessions", SESSIONS, dated_by="first_ts").write(rows)

    def _write_events(self, events: pa.Table) -> None:
        """Hand events to the parts that transactions are looked at in, calls and what moves them apart."""
        if not events.num_rows:
            return
        is_call = events.column("step").to_numpy() == WORK
        place = 2 * part_of(events, self.task.parts) + is_call
        events = taken(events, np.argsort(place, kind="stable"))
        start = 0
        for number, count in zip(*(values.tolist() for values in np.unique(place, return_counts=True)), strict=True):
            name = calls_name(number // 2) if number % 2 else moves_name(number // 2)
            if name not in self.events:
                self.events[name] = self.attempt.stream(name, EVENTS)
            self.events[name].write(events.slice(start, count))
            start += count

    def _write_violations(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.attempt.table("gold/violations", VIOLATIONS).write(rows)
            self.result.violations += rows.num_rows

    def _write_exchanges(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.attempt.table("gold/exchanges", EXCHANGES, dated_by="request_ts").write(rows)
            for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
                self.result.outcomes[outcome["values"]] = (
                    self.result.outcomes.get(outcome["values"], 0) + outcome["counts"]
                )


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
