"""Captures -> the tables of a lake: one step, ``(carry, new captures) -> (rows, carry')``, and one commit.

    spark = wirelake.spark.session()
    ingest(spark, ["captures/"], "lake")

The driver plans (which captures are new, where they are cut, what is known at each cut), workers decode and write,
other workers pair and judge, the driver commits. Nothing is visible before, everything after; what is undecided is the
carry of the next step, so that captures may come one by one, or all at once, with the same result.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from ..capture.decode import CaptureDecoder
from ..capture.partitions import CaptureRange, Partition
from ..capture.plan import PARTITION_BYTES, Plan, plan
from ..capture.read.inputs import Peek, in_order, peek
from ..capture.settings import ReadSettings
from ..capture.state import State
from ..errors import CaptureError
from ..gold.open import OPEN
from ..gold.tables import ACCOUNTING
from ..ingest.addresses_task import HOUR_US, AddressesTask
from ..ingest.carry import unpacked
from ..ingest.declared import Declared
from ..ingest.decode_task import DecodeResult, DecodeTask
from ..ingest.gold_task import GoldResult, GoldTask
from ..ingest.listing import Listing, find
from ..ingest.transactions_task import MOVES, TransactionsResult, TransactionsTask, part_name
from ..lake import Input, Lake, Run, StagedFile, look, read_ipc
from ..protocols import BUILT_IN
from .runner import Jobs, Progress, run_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUCKETS = 8
SMALLEST_PARTITION = 16 << 20
SLOWEST = 5
"""Addresses that a report names."""


class Silent:
    def stage(self, name: str, total: int) -> None:
        pass

    def add(self, done: int) -> None:
        pass


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


def ingest(
    spark: SparkSession | Callable[[], SparkSession],
    inputs: Iterable[str],
    lake: str | Lake,
    *,
    reading: ReadSettings | None = None,
    kind: str | None = None,
    final: bool = False,
    keep_bytes: bool = False,
    partition_bytes: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Reads captures (files, directories, patterns, URIs) that the lake does not have yet, and commits their tables.

    ``spark`` may be a function that makes the session: it is called while the driver plans. ``final`` says that nothing
    more comes: what is open is decided. ``kind`` is that of captures whose bytes do not tell it (``raw``).
    """
    began = time.monotonic()
    captures, notes = _captures(list(inputs), kind)  # before there is a lake: what is refused leaves none
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, settings={"buckets": BUCKETS})
    with lake.writing() as run:
        step = _Step(run, reading or ReadSettings(), final, keep_bytes, progress or Silent())
        step.report.notes += notes
        chosen = _choose(step, captures)
        report = step.run(spark, chosen, partition_bytes)
    report.seconds = time.monotonic() - began
    return report


# --- which captures


@dataclass(frozen=True)
class Chosen:
    """A capture that is to be read, from its beginning or from where it was left."""

    piece: CaptureRange
    input: Input


def _captures(inputs: list[str], kind: str | None) -> tuple[list[Peek], list[str]]:
    """The captures among what was named, and notes on what else was found in directories and by patterns."""
    named = {one if "://" in one else os.path.abspath(one) for one in inputs}
    captures: list[Peek] = []
    notes: list[str] = []
    for found in find(Listing(paths=tuple(inputs), recursive=True)):
        try:
            if not found.is_file:
                raise CaptureError("it is not a file", path=found.path)
            captures.append(peek(found.path, kind))
        except CaptureError as error:
            if found.path in named:
                raise
            notes.append(f"{error}; left out")
    return captures, notes


def _choose(step: _Step, captures: list[Peek]) -> list[Chosen]:
    """The captures that are new, or have grown, in the order in which they were taken."""
    known = step.lake.inputs()
    by_content = {one.identity: one for one in known.values()}
    marks = step._old_marks()
    chosen: dict[str, Chosen] = {}
    peeks: list[Peek] = []
    for first in captures:
        path = first.path
        now, standing = look(path, known.get(path))
        before = known.get(path)
        if standing == "new" and first.kind != "raw" and now.identity in by_content:
            before = by_content[now.identity]
            standing = "grown" if now.size > before.size else "same"
        mark = marks.get(before.path) if before is not None and standing == "grown" else None
        if standing == "same" or (standing == "grown" and mark is None):
            step.report.skipped += 1
            continue
        size = now.size - before.size if mark is not None and before is not None else now.size
        chosen[path] = Chosen(CaptureRange(path, path, first.kind, mark, is_growing=not step.final, size=size), now)
        peeks.append(first)
    return [chosen[one.path] for one in in_order(peeks)]


class _Step:
    """One step: from what the lake knows and the new captures to one commit."""

    def __init__(self, run: Run, reading: ReadSettings, final: bool, keep_bytes: bool, progress: Progress) -> None:
        self.run_ = run
        self.lake = run.lake
        declared = {name: Declared.named(name) for name in reading.protocols if name not in BUILT_IN}
        self.declared = tuple(declared.values())
        self.reading = _known_to_workers(reading, declared)
        self.final = final
        self.keep_bytes = keep_bytes
        self.progress = progress
        self.buckets = int(self.lake.settings.get("buckets", BUCKETS))
        self.report = Report()
        self.carry = self.lake.carry()
        self.files: list[StagedFile] = []
        self.removed: list[StagedFile] = []
        self.new_carry: dict[str, StagedFile | None] = {}

    def run(
        self, spark: SparkSession | Callable[[], SparkSession], found: Sequence[Chosen], partition_bytes: int | None
    ) -> Report:
        is_open = bool(self.carry.keys() - {"marks"})
        if not found and not (self.final and is_open):
            return self.report
        jobs = Jobs("decode", self.progress)
        with _Starting(spark) as starting:
            try:
                planned = self._plan(found, partition_bytes, jobs, starting)
                self.spark = starting.session()
                decoded = self._decode(planned, jobs)
            except BaseException:
                jobs.cancel()
                raise
        self._keep_state(planned, decoded)
        watermark = self._watermark(decoded)
        gilded = self._gold(decoded, watermark)
        opened = self._transactions_and_addresses(gilded, watermark)
        self._replace_open(opened)
        self._commit(found, planned, watermark)
        return self.report

    # --- captures -> silver

    def _plan(self, found: Sequence[Chosen], partition_bytes: int | None, jobs: Jobs, starting: _Starting) -> Plan:
        """Finds partitions; they are decoded from when there is a session, while others are looked for."""
        pieces = [one.piece for one in found]
        total = sum(piece.size for piece in pieces)
        self.progress.stage("index", total)

        def decode(partition: Partition) -> None:
            staging = self.run_.staging
            task = DecodeTask(partition, self.reading, staging, self.buckets, self.keep_bytes, self.declared)
            jobs.add(task, partition.size)
            if starting.is_done:
                jobs.start(starting.session().sparkContext)

        return plan(
            pieces,
            self.reading,
            before=self._state(),
            partition_bytes=partition_bytes or _partition_bytes(total),
            is_last=self.final,
            progress=self.progress.add,
            found=decode,
        )

    def _state(self) -> State:
        path = self.carry.get("state")
        return unpacked(self.lake.store, path, State.unpack) if path is not None else State()

    def _decode(self, planned: Plan, jobs: Jobs) -> list[DecodeResult]:
        self.progress.stage("decode", sum(partition.size for partition in planned.partitions))
        jobs.start(self.spark.sparkContext)
        decoded: list[DecodeResult] = jobs.results()
        report = self.report
        for one in decoded:
            self.files += one.files
            report.messages = dict(Counter(report.messages) + Counter(one.messages))
            report.bytes_decoded += one.bytes_decoded
            report.bytes_quarantined += one.bytes_quarantined
            report.bytes_missing += one.bytes_missing
            report.bytes_foreign += one.foreign_bytes
            report.notes += [f"{name}: {counts.broken}" for name, counts in one.counts.items() if counts.broken]
        return decoded

    def _keep_state(self, planned: Plan, decoded: list[DecodeResult]) -> None:
        """What is open behind the captures: carried on, and its accounts told."""
        if self.final:
            self.new_carry["state"] = None
            return
        if planned.after is not None:
            state, packed = planned.after, self._stage("state", planned.after.pack())
        else:
            (only,) = decoded
            assert only.state is not None
            state, packed = State.unpack(self.lake.read_bytes(only.state)), only.state
            planned.marks.update(only.marks)
        self.new_carry["state"] = packed
        accounts = CaptureDecoder(self.reading, state).streams.accounts()
        self.report.bytes_pending = sum(accounts.column("bytes_pending").to_pylist())
        with self.run_.staging.attempt("open") as attempt:
            attempt.table("accounting", ACCOUNTING, dated_by=None).write(accounts)
            self.files += attempt.close()

    def _stage(self, name: str, data: bytes) -> StagedFile:
        return self.run_.staging.stage_bytes(f"driver-{name}", name, data)

    def _watermark(self, decoded: list[DecodeResult]) -> int | None:
        """The latest time that was seen: what has waited until then in vain is over."""
        known = [one.last_us for one in decoded if one.last_us is not None]
        before = self.lake.labels().get("watermark_us")
        return max([*known, *([before] if before is not None else [])], default=None)

    # --- silver -> gold

    def _gold(self, decoded: list[DecodeResult], watermark: int | None) -> list[GoldResult]:
        tasks = []
        for bucket in range(self.buckets):
            shares = tuple(_of_bucket(one, bucket) for one in decoded)
            carry = self.carry.get(f"gold-{bucket:03d}")
            if any(shares) or carry is not None:
                task = GoldTask(
                    bucket, self.run_.staging, shares, carry, watermark, self.final, self.buckets, self.declared
                )
                tasks.append(task)
        rows = [1 + sum(file.rows for share in task.shares for file in share.values()) for task in tasks]
        gilded: list[GoldResult] = self._map("gold", tasks, rows)
        for task, one in zip(tasks, gilded, strict=True):
            self.files += one.files
            self.new_carry[f"gold-{task.bucket:03d}"] = one.carry
            self.report.violations += one.violations
            self.report.outcomes = dict(Counter(self.report.outcomes) + Counter(one.outcomes))
        return gilded

    def _transactions_and_addresses(self, gilded: list[GoldResult], watermark: int | None) -> list[StagedFile]:
        """Both need all connections, and not each other. Gives the files with what is open."""
        hours = sorted({hour for file in self.files for hour in _hours(file)})
        minutes, moving = self._address_tasks(hours), self._transaction_tasks(gilded, watermark)
        made = self._map("totals", [*minutes, *moving])
        followed: list[TransactionsResult] = made[len(minutes) :]
        self.files += [file for result in made for file in result.files]
        for task, one in zip(moving, followed, strict=True):
            self.new_carry[f"transactions-{task.part:03d}"] = one.carry
            self.report.transactions = dict(Counter(self.report.transactions) + Counter(one.outcomes))
        self.report.slowest = self._slowest()
        again = {f"-a{hour:08d}-" for hour in hours}
        self.removed += [file for file in self.lake.files("gold/addresses") if any(part in file.name for part in again)]
        return [file for file in (*(one.open for one in gilded), *(one.open for one in followed)) if file is not None]

    def _transaction_tasks(self, gilded: list[GoldResult], watermark: int | None) -> list[TransactionsTask]:
        moves = tuple(one.events[MOVES] for one in gilded if MOVES in one.events)
        tasks = []
        for part in range(self.buckets):
            name = part_name(part)
            work = tuple(one.events[name] for one in gilded if name in one.events)
            carry = self.carry.get(f"transactions-{part:03d}")
            if work or moves or carry is not None:
                task = TransactionsTask(
                    part, self.buckets, self.run_.staging, work, moves, carry, watermark, self.final
                )
                tasks.append(task)
        return tasks

    def _address_tasks(self, hours: list[int]) -> list[AddressesTask]:
        """The minutes of an hour are made anew when something new is known of it."""
        messages, exchanges = self._by_hour("silver/messages"), self._by_hour("gold/exchanges")
        share = max(1, -(-len(hours) // (4 * self.spark.sparkContext.defaultParallelism)))
        return [
            AddressesTask(
                self.run_.staging,
                tuple((hour, messages.get(hour, ()), exchanges.get(hour, ())) for hour in hours[at : at + share]),
            )
            for at in range(0, len(hours), share)
        ]

    def _replace_open(self, opened: list[StagedFile]) -> None:
        """What is open now replaces what was open before."""
        self.removed += self.lake.files("gold/open")
        self.removed += [file for file in self.lake.files("accounting") if "-open-" in file.name]
        with self.run_.staging.attempt("open-gold") as attempt:
            writer = attempt.table("gold/open", OPEN, dated_by=None)
            for file in opened:
                for batch in read_ipc(self.lake, file):
                    writer.write(batch)
            self.files += attempt.close()

    def _slowest(self) -> list[dict[str, Any]]:
        """The addresses with the slowest minutes among those that were made now."""
        columns = ["protocol", "address", "requests", "p50_us", "p95_us"]
        paths = [self.lake.store.full(file.staged) for file in self.files if file.table == "gold/addresses"]
        if not paths:
            return []
        rows = ds.dataset(paths, format="parquet", filesystem=self.lake.store.files).to_table(columns=columns)
        worst = rows.filter(pc.is_valid(rows.column("p95_us"))).group_by(["protocol", "address"])
        found = worst.aggregate([("requests", "sum"), ("p50_us", "max"), ("p95_us", "max")])
        found = found.sort_by([("p95_us_max", "descending"), ("address", "ascending")]).slice(0, SLOWEST)
        names = {"requests_sum": "requests", "p50_us_max": "p50_us", "p95_us_max": "p95_us"}
        return list(found.rename_columns(names).to_pylist())

    def _by_hour(self, table: str) -> dict[int, tuple[str, ...]]:
        places: dict[int, list[str]] = {}
        committed = [(file, file.path) for file in self.lake.files(table)]
        for file, path in [*committed, *((file, file.staged) for file in self.files if file.table == table)]:
            for hour in _hours(file):
                places.setdefault(hour, []).append(path)
        return {hour: tuple(paths) for hour, paths in places.items()}

    # --- the end

    def _commit(self, found: Sequence[Chosen], planned: Plan, watermark: int | None) -> None:
        report = self.report
        report.captures = len(found)
        report.bytes_in = report.bytes_decoded + report.bytes_quarantined
        marks = planned.marks
        inputs = [one.input.read_to(getattr(marks.get(one.piece.path), "position", 0)) for one in found]
        self.new_carry["marks"] = self._stage("marks", pickle.dumps(self._old_marks() | marks, protocol=5))
        facts = {
            "captures": len(found),
            "messages": sum(report.messages.values()),
            "violations": report.violations,
            "bytes_decoded": report.bytes_decoded,
            "bytes_quarantined": report.bytes_quarantined,
        }
        report.commit = self.run_.commit(
            self.files,
            removed=self.removed,
            inputs=inputs,
            carry=self.new_carry,
            facts=facts,
            labels={"watermark_us": watermark},
        )

    def _old_marks(self) -> dict[str, Any]:
        path = self.carry.get("marks")
        return dict(unpacked(self.lake.store, path)) if path is not None else {}

    # --- Spark

    def _map(self, name: str, tasks: Sequence[Any], sizes: Iterable[int] = ()) -> list[Any]:
        return run_all(self.spark.sparkContext, name, tasks, self.progress, sizes)


class _Starting:
    """A session that is started, if it is to be, while something else is done."""

    def __init__(self, spark: SparkSession | Callable[[], SparkSession]) -> None:
        self._made: Any = None
        self._error: BaseException | None = None
        self._thread: Thread | None = None
        if callable(spark):
            self._thread = Thread(target=self._start, args=(spark,))
        else:
            self._made = spark

    def __enter__(self) -> _Starting:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.join()

    def _start(self, start: Callable[[], SparkSession]) -> None:
        try:
            self._made = start()
        except BaseException as error:
            self._error = error

    @property
    def is_done(self) -> bool:
        return self._thread is None or not self._thread.is_alive()

    def session(self) -> SparkSession:
        """The session; waits for it."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        session: SparkSession = self._made
        return session


def _known_to_workers(reading: ReadSettings, declared: Mapping[str, Declared]) -> ReadSettings:
    """The reading with names by which workers, too, can load the protocols of users."""
    if not declared:
        return reading

    def known(name: str) -> str:
        return declared[name].here if name in declared else name

    def renamed(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return None if given is None else {known(name): value for name, value in given.items()}

    return replace(
        reading,
        protocol=reading.protocol and known(reading.protocol),
        protocols=tuple(map(known, reading.protocols)),
        ports={port: known(name) for port, name in reading.ports.items()},
        options=renamed(reading.options) or {},
        fallbacks=renamed(reading.fallbacks),
        columns=renamed(reading.columns),
    )


def _partition_bytes(total: int) -> int:
    """Big enough that a task is worth its cost, small enough that there are some for every core."""
    return min(PARTITION_BYTES, max(SMALLEST_PARTITION, total // 16))


def _of_bucket(decoded: DecodeResult, bucket: int) -> dict[str, StagedFile]:
    return {name: shares[bucket] for name, shares in decoded.shares.items() if bucket in shares}


def _hours(file: StagedFile) -> range:
    """The hours that a file of messages or exchanges has rows of."""
    if file.table not in ("silver/messages", "gold/exchanges") or file.min_ts is None or file.max_ts is None:
        return range(0)
    return range(file.min_ts // HOUR_US, file.max_ts // HOUR_US + 1)
