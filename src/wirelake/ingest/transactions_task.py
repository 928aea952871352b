"""Follow one part of the transactions, over all connections."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..gold.arrays import where
from ..gold.transactions import EVENTS, REQUESTS, TRANSACTIONS, Key, Transaction, Transactions, part_of
from ..lake import Attempt, StagedFile, Staging, read_ipc
from .carry import pack, read

MOVES = "moves"
"""The file with the events that move transactions; calls are in files by the part that they belong to."""


@dataclass(frozen=True)
class TransactionsTask:
    """A part of the transactions: its calls, and what moves any of them. An answer tells by its correlation alone to
    which it belongs, so what moves them cannot be parted before.
    """

    part: int
    parts: int
    staging: Staging
    work: tuple[StagedFile, ...]
    moves: tuple[StagedFile, ...]
    carry: str | None
    watermark_us: int | None
    final: bool

    def run(self) -> TransactionsResult:
        with self.staging.attempt(f"t{self.part:03d}") as attempt:
            return _follow(self, attempt)


@dataclass
class TransactionsResult:
    files: list[StagedFile] = field(default_factory=list)
    carry: StagedFile | None = None
    open: StagedFile | None = None
    outcomes: dict[str, int] = field(default_factory=dict)


@dataclass
class TransactionsCarry:
    """Transactions that are not over, and the calls of those of which nothing else is known."""

    known: dict[Key, Transaction] = field(default_factory=dict)
    counted: pa.Table | None = None


def part_name(part: int) -> str:
    return f"work-{part:03d}"


def _follow(task: TransactionsTask, attempt: Attempt) -> TransactionsResult:
    carry = read(task.staging.store, task.carry, TransactionsCarry) if task.carry is not None else TransactionsCarry()
    step = Transactions((carry.known, carry.counted))
    moves = _moves(task, step)
    moved = moves.column("gtrid").combine_chunks().drop_null()
    batches = (batch for file in task.work for batch in read_ipc(task.staging, file))
    work = [step.count(pa.Table.from_batches([batch], EVENTS), moved) for batch in batches]
    result = TransactionsResult()
    _write_transactions(attempt, step.feed(pa.concat_tables([moves, *work])), result)
    _write_transactions(attempt, step.settle(task.watermark_us or 0, task.final), result)
    result.open = _stage_table(attempt, "open", step.open())
    if not task.final:
        result.carry = attempt.stage_bytes("carry", pack(TransactionsCarry(*step.carry())))
    result.files = attempt.close()
    return result


def _stage_table(attempt: Attempt, name: str, table: pa.Table) -> StagedFile:
    stream = attempt.stream(name, table.schema)
    stream.write(table)
    file: StagedFile = stream.close()
    return file


def _moves(task: TransactionsTask, step: Transactions) -> pa.Table:
    """What moves the transactions of this part."""
    requests, answers = [EVENTS.empty_table()], [EVENTS.empty_table()]
    for file in task.moves:
        for batch in read_ipc(task.staging, file):
            table = pa.Table.from_batches([batch], EVENTS)
            asks = np.isin(table.column("step").to_numpy(), REQUESTS)
            mine = asks & (part_of(table, task.parts) == task.part)
            requests.append(where(table, mine))
            answers.append(where(table, ~asks))
    asked = pa.concat_tables(requests)
    return pa.concat_tables([asked, step.concerned(pa.concat_tables(answers), asked)])


def _write_transactions(attempt: Attempt, rows: pa.Table, result: TransactionsResult) -> None:
    if rows.num_rows:
        attempt.table("gold/transactions", TRANSACTIONS, dated_by="first_ts").write(rows)
        for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
            result.outcomes[outcome["values"]] = result.outcomes.get(outcome["values"], 0) + outcome["counts"]
