"""One sensor in one step: its captures to bronze and silver, those to gold, and what is undecided to its carry.

Index tasks find where captures can be cut; decode tasks write bronze and silver meanwhile; gold tasks match requests
with replies and judge sequences, some buckets of connections each; then transactions and addresses, which need all
connections. No byte of a capture passes through here: only descriptions of files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ..capture.decode import CaptureRange
from ..capture.read import ResumePoint
from ..lake import Lake, StagedFile
from .groups import grouped
from .plan import NewCapture, Segment, SensorPlan, partition_bytes
from .report import Report
from .sensor_carry import STATE
from .stages import DECODE, GOLD, INDEX, TOTALS, Chain, Stages, Waiting
from .tasks import StepSettings
from .tasks import gold as gold_tasks
from .tasks import transactions as transaction_tasks
from .tasks.addresses import AddressesResult, Open, Sources, kept_of, minute_of
from .tasks.decode import DecodeResult, DecodeTask
from .tasks.gold import Bucket, GoldResult, GoldTask
from .tasks.index import CapturesEnd, IndexResult, IndexTask
from .tasks.transactions import Part, TransactionsResult, TransactionsTask

AHEAD = 4
"""How many partitions the index may be ahead of the decoding, for each core."""
MOST_PENDING_US = 3_600_000_000
"""How long transactions wait for pending bytes of a connection."""
Results = Generator[Waiting, list[Any], Any]


class SensorStep:
    """From the carry of a sensor and its new captures to files for the commit."""

    def __init__(
        self, lake: Lake, plan: SensorPlan, settings: StepSettings, stages: Stages, wanted_bytes: int | None
    ) -> None:
        self.plan = plan
        self.report = Report(sensors=1)
        self.files: list[StagedFile] = []
        self.removed: list[StagedFile] = []
        self.left_at: dict[str, ResumePoint] = {}
        self.latencies: list[pa.Table] = []
        """Of the requests of each hour that was counted."""
        self.watermark = plan.carry.sensor.watermark_us
        self._lake, self._stages, self._wanted_bytes = lake, stages, wanted_bytes
        self._settings = settings
        self._kept = [file for table in lake.tables() for file in lake.files(table) if file.sensor == plan.name]
        """Files of earlier commits that stay."""
        self._go_back()

    def _go_back(self) -> None:
        """What is open is replaced in any case; if an earlier carry is taken up again, so is all that came after it."""
        since = self.plan.since
        for file in list(self._kept):
            is_later = since is not None and file.commit > since and file.table != "gold/addresses"
            if is_later or _is_open(file):
                self._kept.remove(file)
                self.removed.append(file)

    def chain(self) -> Chain:
        """Run all segments; addresses are counted behind the last one."""
        for number, segment in enumerate(self.plan.segments):
            is_last = number == len(self.plan.segments) - 1
            prefix = f"{self._settings.prefix}.{number}" if number else self._settings.prefix
            settings = replace(self._settings, final=segment.final, prefix=prefix)
            known = {} if number else self.plan.carry.known
            self.plan.carry.next = {}
            decoded = yield from self._decode(settings, segment, known.get(STATE))
            gold = yield from self._gold(settings, decoded, known)
            yield from self._totals(settings, gold, known, is_last)
        self.report.captures = len(self.plan.captures)
        report = self.report
        report.bytes_in = report.bytes_decoded + report.bytes_quarantined + report.bytes_pending

    # --- captures -> silver

    def _decode(self, settings: StepSettings, segment: Segment, before: str | None) -> Results:
        ranges = tuple(self._piece(capture) for capture in segment.captures)
        total = sum(captured.size for captured in ranges)
        size = self._wanted_bytes or partition_bytes(total)
        if total <= size:
            decoded = yield from self._decode_only(settings, ranges, before)
        else:
            decoded = yield from self._index_and_decode(settings, ranges, before, size)
        for result in decoded:
            self._count(result)
        return decoded

    def _piece(self, capture: NewCapture) -> CaptureRange:
        """Return what to read of a capture; an earlier segment may have read a part of it."""
        point = self.left_at.get(capture.piece.path)
        return capture.piece if point is None else replace(capture.piece, start=point)

    def _decode_only(self, settings: StepSettings, ranges: tuple[CaptureRange, ...], before: str | None) -> Results:
        task = DecodeTask(settings, 0, ranges, before, is_last=settings.final, is_only=True)
        (result,) = yield [self._stages.submit(DECODE, task, task.size)]
        self._end(settings, result.end)
        return [result]

    def _index_and_decode(
        self, settings: StepSettings, ranges: tuple[CaptureRange, ...], before: str | None, size: int
    ) -> Results:
        """Index captures piece by piece; what is found is decoded while the next piece is indexed."""
        decoding: list[Future[Any]] = []
        most_ahead = AHEAD * self._stages.runner.parallelism
        number = 0
        while True:
            task = IndexTask(settings, number, ranges, before, size)
            indexing = self._stages.submit(INDEX, task)
            (found,) = yield [indexing]
            decoding += self._decode_tasks(settings, found, len(decoding))
            self.left_at |= found.end.resume_points
            self.report.notes += found.notes
            ranges, before, number = found.rest, found.end.state.staged, number + 1
            if not ranges:
                break
            while len(left := [future for future in decoding if not future.done()]) > most_ahead:
                yield left[: len(left) - most_ahead]
        if settings.final:
            decoding.append(self._stages.submit(DECODE, DecodeTask(settings, len(decoding), (), before, True)))
        self._end(settings, found.end)
        decoded = yield decoding
        return decoded

    def _decode_tasks(self, settings: StepSettings, found: IndexResult, first: int) -> list[Future[Any]]:
        tasks = [
            DecodeTask(settings, number, one.ranges, one.before) for number, one in enumerate(found.partitions, first)
        ]
        return [self._stages.submit(DECODE, task, task.size) for task in tasks]

    def _end(self, settings: StepSettings, end: CapturesEnd) -> None:
        """Carry on what is open at the end of the captures."""
        self.left_at |= end.resume_points
        if not settings.final:
            self.plan.carry.next[STATE] = end.state
            self.files += end.accounts
        self.report.bytes_pending = end.bytes_pending
        self.report.bytes_held, self.report.holes = end.bytes_held, end.holes

    def _count(self, decoded: DecodeResult) -> None:
        report = self.report
        self.files += decoded.files
        report.messages.update(decoded.messages)
        report.bytes_decoded += decoded.bytes_decoded
        report.bytes_quarantined += decoded.bytes_quarantined
        report.bytes_missing += decoded.bytes_missing
        report.bytes_foreign += decoded.foreign_bytes
        for name, counts in decoded.counts.items():
            report.count(name, counts)
        times = [time for time in (self.watermark, decoded.last_us) if time is not None]
        self.watermark = max(times, default=None)

    # --- silver -> gold

    def _gold(self, settings: StepSettings, decoded: list[DecodeResult], known: dict[str, str]) -> Results:
        buckets = []
        for number in range(settings.buckets):
            shares = tuple(share for one in decoded if (share := one.of_bucket(number)))
            carry = known.get(gold_tasks.carry_name(number))
            if shares or carry is not None:
                buckets.append(Bucket(number, shares, carry))
        tasks = [GoldTask(settings, tuple(group), self.watermark) for group in self._grouped(buckets)]
        gold: list[GoldResult] = yield self._stages.submit_all(GOLD, tasks, [task.rows for task in tasks])
        for result in gold:
            self.files += result.files
            self.plan.carry.next.update(result.carry)
            self.report.violations += result.violations
            self.report.outcomes.update(result.outcomes)
        return gold

    def _totals(self, settings: StepSettings, gold: list[GoldResult], known: dict[str, str], is_last: bool) -> Results:
        """Transactions and addresses need all connections, and not each other."""
        parts = list(self._parts(settings, gold, known))
        known_until = self._known_until(gold)
        still_open = Open(known_until, frozenset().union(*(result.open_minutes for result in gold)))
        following = [TransactionsTask(settings, tuple(group), known_until) for group in self._grouped(parts)]
        # Addresses of an hour are one task, the longest of all: the others run beside it.
        counting = self._count_addresses(settings, still_open) if is_last else []
        futures = self._stages.submit_all(TOTALS, following, [task.rows for task in following])
        done = yield [*futures, *counting]
        followed: list[TransactionsResult] = done[: len(futures)]
        for result in followed:
            self.files += result.files
            self.plan.carry.next.update(result.carry)
            self.report.transactions.update(result.outcomes)
        if is_last:
            self._take_counted(done[len(futures) :], settings, still_open)

    def _known_until(self, gold: list[GoldResult]) -> int | None:
        """Return until when all connections are known: one whose bytes are pending may take part in any transaction."""
        times = [result.known_until_us for result in gold if result.known_until_us is not None]
        if self.watermark is None or not times:
            return self.watermark
        return min(self.watermark, max(min(times), self.watermark - MOST_PENDING_US))

    def _parts(self, settings: StepSettings, gold: list[GoldResult], known: dict[str, str]) -> Iterable[Part]:
        for number in range(settings.buckets):
            calls = tuple(result.calls[number] for result in gold if number in result.calls)
            moves = tuple(result.moves[number] for result in gold if number in result.moves)
            carry = known.get(transaction_tasks.carry_name(number))
            if calls or moves or carry is not None:
                yield Part(number, calls, moves, carry)

    def _count_addresses(self, settings: StepSettings, still_open: Open) -> list[Future[Any]]:
        """Add what is new to the minutes that it is of."""
        sources = Sources(self.files, self.removed, self._kept, self._carried_minutes())
        tasks = sources.tasks(settings, still_open, self._stages.runner.parallelism)
        return self._stages.submit_all(TOTALS, tasks, [1] * len(tasks))

    def _carried_minutes(self) -> dict[int, str]:
        """Return the paths of what was counted. A rebuild replaces rows that it has, and counts anew."""
        if self.plan.since is not None:
            return {}
        found = ((minute_of(name), path) for name, path in self.plan.carry.known.items())
        return {minute: path for minute, path in found if minute is not None}

    def _take_counted(self, counted: Sequence[AddressesResult], settings: StepSettings, still_open: Open) -> None:
        made: dict[str, StagedFile] = {}
        carried = {} if settings.final else self._carried_minutes()
        for result in counted:
            self.files += result.files
            self.removed += result.removed
            self.latencies += result.latencies
            made |= result.carry
            carried = {minute: path for minute, path in carried.items() if minute not in result.counted}
        carried = {minute: path for minute, path in carried.items() if still_open.has(minute)}
        carry = self.plan.carry
        carry.staying, handed_on = kept_of(carried, made, self._lake.store)
        carry.next.update({name: made[name] for name in handed_on})

    def _grouped(self, units: Sequence[Any]) -> list[list[Any]]:
        return grouped(units, [unit.rows for unit in units], self._stages.runner.parallelism)


def _is_open(file: StagedFile) -> bool:
    """Tell whether a file says what is open: the next commit replaces it."""
    return file.table == "gold/open" or (file.table == "accounting" and "-open-" in file.name)
