"""Follow one part of the transactions, over all connections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...gold.branch_events import EVENTS
from ...gold.declarations import Declarations
from ...gold.transactions import TRANSACTIONS, Transactions, TransactionsCarry
from ...lake import Attempt, StagedFile, Staging, read_ipc
from ..carry import pack, read
from ..declared import Declared


@dataclass(frozen=True)
class TransactionsTask:
    """A part of the transactions: its calls, and what moves them."""

    part: int
    staging: Staging
    calls: tuple[StagedFile, ...]
    moves: tuple[StagedFile, ...]
    carry: str | None
    watermark_us: int | None
    final: bool
    declared: tuple[Declared, ...] = ()

    def run(self) -> TransactionsResult:
        with self.staging.attempt(f"t{self.part:03d}") as attempt:
            return _follow(self, attempt)


@dataclass
class TransactionsResult:
    files: list[StagedFile] = field(default_factory=list)
    carry: StagedFile | None = None
    open: StagedFile | None = None
    outcomes: dict[str, int] = field(default_factory=dict)


def calls_name(part: int) -> str:
    return f"calls-{part:03d}"


def moves_name(part: int) -> str:
    return f"moves-{part:03d}"


def _follow(task: TransactionsTask, attempt: Attempt) -> TransactionsResult:
    protocols = {protocol.name: protocol for protocol in (declared.load() for declared in task.declared)}
    carry = read(task.staging.store, task.carry, TransactionsCarry) if task.carry is not None else None
    step = Transactions(carry, Declarations(protocols))
    moves = pa.Table.from_batches(_batches(task.staging, task.moves), EVENTS)
    moved = moves.column("gtrid").combine_chunks()
    calls = [step.count(pa.Table.from_batches([batch], EVENTS), moved) for batch in _batches(task.staging, task.calls)]
    result = TransactionsResult()
    _write_transactions(attempt, step.feed(pa.concat_tables([moves, *calls])), result)
    _write_transactions(attempt, step.settle(task.watermark_us or 0, task.final), result)
    result.open = _stage_table(attempt, "open", step.open())
    if not task.final:
        result.carry = attempt.stage_bytes("carry", pack(step.carry()))
    result.files = attempt.close()
    return result


def _stage_table(attempt: Attempt, name: str, table: pa.Table) -> StagedFile:
    stream = attempt.stream(name, table.schema)
    stream.write(table)
    file: StagedFile = stream.close()
    return file


def _batches(staging: Staging, files: tuple[StagedFile, ...]) -> Iterator[pa.RecordBatch]:
    return (batch for file in files for batch in read_ipc(staging, file))


def _write_transactions(attempt: Attempt, rows: pa.Table, result: TransactionsResult) -> None:
    if rows.num_rows:
        attempt.table("gold/transactions", TRANSACTIONS, dated_by="first_ts").write(rows)
        for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
            result.outcomes[outcome["values"]] = result.outcomes.get(outcome["values"], 0) + outcome["counts"]
