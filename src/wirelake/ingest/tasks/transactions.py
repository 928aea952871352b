"""Follow parts of the transactions, over all connections."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ...gold.branch_events import EVENTS
from ...gold.open import OPEN
from ...gold.transactions import TRANSACTIONS, Transactions, TransactionsCarry
from ...lake import Attempt, StagedFile, read_ipc
from ..carry import pack, read
from . import StepSettings


@dataclass(frozen=True)
class Part:
    """A part of the transactions: its calls, what moves them, and what was undecided before."""

    number: int
    calls: tuple[StagedFile, ...]
    moves: tuple[StagedFile, ...]
    carry: str | None

    @property
    def rows(self) -> int:
        return 1 + sum(file.rows for file in (*self.calls, *self.moves))


@dataclass(frozen=True)
class TransactionsTask:
    """Some parts, one after the other."""

    settings: StepSettings
    parts: tuple[Part, ...]
    watermark_us: int | None

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def run(self) -> TransactionsResult:
        with self.settings.attempt(f"t{self.parts[0].number:03d}") as attempt:
            result = TransactionsResult()
            for part in self.parts:
                _follow(self, part, attempt, result)
            result.files = attempt.close()
            return result


@dataclass
class TransactionsResult:
    files: list[StagedFile] = field(default_factory=list)
    carry: dict[str, StagedFile] = field(default_factory=dict)
    """By its name."""
    outcomes: Counter[str] = field(default_factory=Counter)


def carry_name(part: int) -> str:
    return f"transactions-{part:03d}"


def _follow(task: TransactionsTask, part: Part, attempt: Attempt, result: TransactionsResult) -> None:
    store, final = attempt.store, task.settings.final
    carry = read(store, part.carry, TransactionsCarry) if part.carry is not None else None
    step = Transactions(carry, task.settings.load_protocols())
    moves = pa.Table.from_batches(read_ipc(store, *part.moves), EVENTS)
    moved = moves.column("gtrid").combine_chunks()
    calls = [step.count(pa.Table.from_batches([batch], EVENTS), moved) for batch in read_ipc(store, *part.calls)]
    _write_transactions(attempt, step.feed(pa.concat_tables([moves, *calls])), result)
    _write_transactions(attempt, step.settle(task.watermark_us or 0, final), result)
    if not final:
        attempt.table("gold/open", OPEN, dated_by=None).write(step.open())
        name = carry_name(part.number)
        result.carry[name] = attempt.stage_bytes(name, pack(step.carry()))


def _write_transactions(attempt: Attempt, rows: pa.Table, result: TransactionsResult) -> None:
    if rows.num_rows:
        attempt.table("gold/transactions", TRANSACTIONS, dated_by="first_ts").write(rows)
        count_outcomes(rows, result.outcomes)


def count_outcomes(rows: pa.Table, counts: Counter[str]) -> None:
    for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
        counts[outcome["values"]] += outcome["counts"]
