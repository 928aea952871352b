"""Follow one part of the transactions, over all connections."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...gold.branch_events import EVENTS
from ...gold.open import OPEN
from ...gold.transactions import TRANSACTIONS, Transactions, TransactionsCarry
from ...lake import Attempt, StagedFile, read_ipc, stage_ipc
from ..carry import pack, read
from . import StepSettings


@dataclass(frozen=True)
class TransactionsTask:
    """A part of the transactions: its calls, and what moves them."""

    settings: StepSettings
    part: int
    calls: tuple[StagedFile, ...]
    moves: tuple[StagedFile, ...]
    carry: str | None
    watermark_us: int | None

    def run(self) -> TransactionsResult:
        with self.settings.staging.attempt(f"t{self.part:03d}") as attempt:
            return _follow(self, attempt)


@dataclass
class TransactionsResult:
    files: list[StagedFile] = field(default_factory=list)
    carry: StagedFile | None = None
    open: StagedFile | None = None
    outcomes: Counter[str] = field(default_factory=Counter)


def _follow(task: TransactionsTask, attempt: Attempt) -> TransactionsResult:
    store, final = attempt.store, task.settings.final
    carry = read(store, task.carry, TransactionsCarry) if task.carry is not None else None
    step = Transactions(carry, task.settings.load_protocols())
    moves = pa.Table.from_batches(read_ipc(store, *task.moves), EVENTS)
    moved = moves.column("gtrid").combine_chunks()
    calls = [step.count(pa.Table.from_batches([batch], EVENTS), moved) for batch in read_ipc(store, *task.calls)]
    result = TransactionsResult()
    _write_transactions(attempt, step.feed(pa.concat_tables([moves, *calls])), result)
    _write_transactions(attempt, step.settle(task.watermark_us or 0, final), result)
    result.open = stage_ipc(attempt, "open", OPEN, [step.open()])
    if not final:
        result.carry = attempt.stage_bytes("carry", pack(step.carry()))
    result.files = attempt.close()
    return result


def _write_transactions(attempt: Attempt, rows: pa.Table, result: TransactionsResult) -> None:
    if rows.num_rows:
        attempt.table("gold/transactions", TRANSACTIONS, dated_by="first_ts").write(rows)
        count_outcomes(rows, result.outcomes)


def count_outcomes(rows: pa.Table, counts: Counter[str]) -> None:
    for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
        counts[outcome["values"]] += outcome["counts"]
