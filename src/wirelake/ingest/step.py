"""One step: ``(carry, new captures) -> (rows, carry')``, and one commit.

The driver plans where captures are cut and what is known at each cut; decode tasks write bronze and silver; gold tasks
match requests with replies and judge sequences, a bucket of connections each; then transactions and addresses, which
need all connections. What is undecided goes into the carry. Nothing is visible before the commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from ..capture.decode import CaptureDecoder
from ..capture.partitions import Partition, Plan, plan
from ..capture.settings import ReadSettings
from ..capture.state import State
from ..gold.open import OPEN
from ..gold.tables import ACCOUNTING
from ..lake import Run, StagedFile, read_ipc
from ..protocols import BUILT_IN
from .carry import POSITIONS, STATE, Positions, StepCarry, read
from .declared import Declared, for_workers
from .known import Known, beside
from .plan import NewCapture, partition_bytes
from .runner import Runner
from .stages import Progress, Stages
from .tasks import StepSettings
from .tasks.addresses import address_tasks, hours_of, replaced_by
from .tasks.decode import DecodeResult, DecodeTask
from .tasks.gold import GoldResult, GoldTask
from .tasks.transactions import TransactionsResult, TransactionsTask

SLOWEST = 5
"""Addresses that a report names."""


@dataclass
class Report:
    """What an ingest did."""

    commit: int | None = None
    captures: int = 0
    skipped: int = 0
    messages: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    violations: int = 0
    bytes_in: int = 0
    bytes_decoded: int = 0
    bytes_quarantined: int = 0
    bytes_pending: int = 0
    bytes_missing: int = 0
    bytes_foreign: int = 0
    slowest: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": round(self.seconds, 3)}


class Step:
    """From the carry of the lake and the new captures to one commit."""

    def __init__(
        self, run: Run, runner: Runner, reading: ReadSettings, final: bool, keep_bytes: bool, progress: Progress
    ) -> None:
        self.lake = run.lake
        self.carry = StepCarry(run)
        self.report = Report()
        self._run = run
        declared = tuple(Declared.named(name) for name in reading.protocols if name not in BUILT_IN)
        buckets = int(self.lake.settings["buckets"])
        self._settings = StepSettings(run.staging, buckets, for_workers(reading, declared), declared, final, keep_bytes)
        self._stages = Stages(runner, progress)
        self._files: list[StagedFile] = []
        self._removed: list[StagedFile] = []

    def run(
        self, captures: Sequence[NewCapture], found: Sequence[Known] = (), wanted_bytes: int | None = None
    ) -> Report:
        """Read captures; ``found`` are those and all others that the inputs hold."""
        self._found = found
        if captures or (self._settings.final and self.carry.is_open):
            with self._stages:
                self._advance(captures, wanted_bytes)
        return self.report

    def _advance(self, captures: Sequence[NewCapture], wanted_bytes: int | None) -> None:
        decoding: list[Future[Any]] = []
        planned = self._plan(captures, wanted_bytes, decoding)
        decoded = self._decode(planned, decoding)
        self._keep_state(planned, decoded)
        watermark = self._watermark(decoded)
        gold = self._gold(decoded, watermark)
        undecided = self._transactions_and_addresses(gold, watermark)
        self._replace_open(undecided)
        self._commit(captures, planned, watermark)

    # --- captures -> silver

    def _plan(self, captures: Sequence[NewCapture], wanted_bytes: int | None, decoding: list[Future[Any]]) -> Plan:
        """Find partitions; each is handed to the runner at once, and decoded while the next ones are looked for."""
        ranges = [capture.piece for capture in captures]
        total = sum(one.size for one in ranges)
        self._stages.progress.stage("index", total)

        def decode(partition: Partition) -> None:
            decoding.append(self._stages.runner.submit(DecodeTask(self._settings, partition)))

        return plan(
            ranges,
            self._settings.reading,
            before=self.carry.get(STATE, State()),
            partition_bytes=wanted_bytes or partition_bytes(total),
            is_last=self._settings.final,
            progress=self._stages.progress.add,
            on_partition=decode,
        )

    def _decode(self, planned: Plan, decoding: list[Future[Any]]) -> list[DecodeResult]:
        decoded: list[DecodeResult] = self._stages.results("decode", decoding, [one.size for one in planned.partitions])
        report = self.report
        report.messages = _sum(one.messages for one in decoded)
        for one in decoded:
            self._files += one.files
            report.bytes_decoded += one.bytes_decoded
            report.bytes_quarantined += one.bytes_quarantined
            report.bytes_missing += one.bytes_missing
            report.bytes_foreign += one.foreign_bytes
            report.notes += [f"{name}: {counts.broken}" for name, counts in one.counts.items() if counts.broken]
        return decoded

    def _keep_state(self, planned: Plan, decoded: list[DecodeResult]) -> None:
        """Carry on what is open at the end of the captures, and account for it."""
        if self._settings.final:
            self.carry.next[STATE] = None
            return
        if planned.after is not None:
            state = planned.after
            self.carry.put(STATE, state)
        else:
            (only,) = decoded
            assert only.state is not None
            self.carry.next[STATE] = only.state
            state = read(self.lake.store, only.state.staged, State)
            planned.resume_points.update(only.resume_points)
        accounts = CaptureDecoder(self._settings.reading, state).streams.accounts()
        self.report.bytes_pending = sum(accounts.column("bytes_pending").to_pylist())
        with self._run.staging.attempt("open") as attempt:
            attempt.table("accounting", ACCOUNTING, dated_by=None).write(accounts)
            self._files += attempt.close()

    def _watermark(self, decoded: list[DecodeResult]) -> int | None:
        """The latest time seen so far: whatever waited until then in vain is over."""
        times = [one.last_us for one in decoded] + [self.lake.labels().get("watermark_us")]
        return max((time for time in times if time is not None), default=None)

    # --- silver -> gold

    def _gold(self, decoded: list[DecodeResult], watermark: int | None) -> list[GoldResult]:
        tasks = []
        for bucket in range(self._settings.buckets):
            shares = tuple(one.of_bucket(bucket) for one in decoded)
            carry = self.carry.known.get(f"gold-{bucket:03d}")
            if any(shares) or carry is not None:
                tasks.append(GoldTask(self._settings, bucket, shares, carry, watermark))
        rows = [1 + sum(file.rows for share in task.shares for file in share.values()) for task in tasks]
        gold: list[GoldResult] = self._stages.run("gold", tasks, rows)
        for task, result in zip(tasks, gold, strict=True):
            self._files += result.files
            self.carry.next[f"gold-{task.bucket:03d}"] = result.carry
        self.report.violations = sum(result.violations for result in gold)
        self.report.outcomes = _sum(result.outcomes for result in gold)
        return gold

    def _transactions_and_addresses(self, gold: list[GoldResult], watermark: int | None) -> list[StagedFile]:
        """Both need all connections, and not each other. Returns the files with undecided rows."""
        hours = hours_of(self._files)
        counting = address_tasks(self.lake, self._run.staging, self._files, hours, self._stages.runner.parallelism)
        following = self._transaction_tasks(gold, watermark)
        done = self._stages.run("totals", [*counting, *following])
        followed: list[TransactionsResult] = done[len(counting) :]
        self._files += [file for files in done[: len(counting)] for file in files]
        for task, result in zip(following, followed, strict=True):
            self._files += result.files
            self.carry.next[f"transactions-{task.part:03d}"] = result.carry
        self.report.transactions = _sum(result.outcomes for result in followed)
        self.report.slowest = self._slowest()
        self._removed += replaced_by(hours, self.lake)
        undecided = [*(result.open for result in gold), *(result.open for result in followed)]
        return [file for file in undecided if file is not None]

    def _transaction_tasks(self, gold: list[GoldResult], watermark: int | None) -> list[TransactionsTask]:
        tasks = []
        for part in range(self._settings.buckets):
            calls = tuple(result.calls[part] for result in gold if part in result.calls)
            moves = tuple(result.moves[part] for result in gold if part in result.moves)
            carry = self.carry.known.get(f"transactions-{part:03d}")
            if calls or moves or carry is not None:
                tasks.append(TransactionsTask(self._settings, part, calls, moves, carry, watermark))
        return tasks

    def _slowest(self) -> list[dict[str, Any]]:
        """The addresses with the slowest minutes among those that this step counted."""
        columns = ["protocol", "address", "requests", "p50_us", "p95_us"]
        paths = [self.lake.store.full(file.staged) for file in self._files if file.table == "gold/addresses"]
        if not paths:
            return []
        rows = ds.dataset(paths, format="parquet", filesystem=self.lake.store.files).to_table(columns=columns)
        grouped = rows.filter(pc.is_valid(rows.column("p95_us"))).group_by(["protocol", "address"])
        worst = grouped.aggregate([("requests", "sum"), ("p50_us", "max"), ("p95_us", "max")])
        worst = worst.sort_by([("p95_us_max", "descending"), ("address", "ascending")]).slice(0, SLOWEST)
        names = {"requests_sum": "requests", "p50_us_max": "p50_us", "p95_us_max": "p95_us"}
        return list(worst.rename_columns(names).to_pylist())

    # --- the end

    def _replace_open(self, undecided: list[StagedFile]) -> None:
        """What is open now replaces what was open before."""
        self._removed += self.lake.files("gold/open")
        self._removed += [file for file in self.lake.files("accounting") if "-open-" in file.name]
        with self._run.staging.attempt("open-gold") as attempt:
            writer = attempt.table("gold/open", OPEN, dated_by=None)
            for batch in read_ipc(self.lake.store, *undecided):
                writer.write(batch)
            self._files += attempt.close()

    def _commit(self, captures: Sequence[NewCapture], planned: Plan, watermark: int | None) -> None:
        report = self.report
        report.captures = len(captures)
        report.bytes_in = report.bytes_decoded + report.bytes_quarantined
        left_at = planned.resume_points
        inputs = [one.input.read_to(getattr(left_at.get(one.piece.path), "position", 0)) for one in captures]
        others, places = beside(self._found, self.carry.positions())
        self.carry.put(POSITIONS, Positions(self.carry.positions() | places | left_at))
        facts = {
            "captures": len(captures),
            "messages": sum(report.messages.values()),
            "violations": report.violations,
            "bytes_decoded": report.bytes_decoded,
            "bytes_quarantined": report.bytes_quarantined,
        }
        report.commit = self._run.commit(
            self._files,
            removed=self._removed,
            inputs=[*others, *inputs],
            carry=self.carry.next,
            facts=facts,
            labels={"watermark_us": watermark},
        )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for part in counts:
        total.update(part)
    return dict(total)
