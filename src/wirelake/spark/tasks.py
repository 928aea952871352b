"""What workers do. A task reads its share, writes files on the side and tells the driver about them: rows never pass
through the JVM, and what a failed or repeated attempt wrote is named by nobody.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from ..capture.chunks import Counts
from ..capture.partitions import Partition, Seen, decode
from ..capture.reading import Reading
from ..capture.streams import QUARANTINE
from ..columnar.schema import table_schema
from ..errors import WireError
from ..gold.addresses import ADDRESSES, EXCHANGE_COLUMNS, MESSAGE_COLUMNS, TEXTS, addresses
from ..gold.arrays import taken, where
from ..gold.connections import CONNECTIONS, connection_rows
from ..gold.exchanges import EXCHANGES, Exchanges
from ..gold.facts import FACTS, FED, MESSAGES, facts
from ..gold.held import Held
from ..gold.legs import BROKERED
from ..gold.open import OPEN
from ..gold.sessions import SESSIONS, Sessions
from ..gold.tables import ACCOUNTING, CHUNK_BYTES, CHUNKS
from ..gold.transactions import EVENTS, REQUESTS, TRANSACTIONS, WORK, Transactions, branch_events, part_of
from ..gold.violations import VIOLATIONS, Violations
from ..lake import Attempt, LakeError, StagedFile, Staging, read_ipc
from ..lake.store import Store
from ..protocols import load
from .options import Declared
from .session import warm
from .tables import chunk_rows

HOUR_US = 3_600_000_000
MOVES = "moves"
"""The file with the events that move transactions; calls are in files by the part that they belong to."""
SHARES = {"facts": FED, "connections": CONNECTIONS, "accounts": ACCOUNTING, "damage": QUARANTINE}
"""What goes from decoding to gold."""


# --- captures -> bronze, silver, facts


@dataclass(frozen=True)
class DecodeTask:
    partition: Partition
    reading: Reading
    staging: Staging
    buckets: int
    keep_bytes: bool = False
    declared: tuple[Declared, ...] = ()
    """Protocols of users, which workers cannot load by themselves."""


@dataclass
class Decoded:
    """What a decode task tells. ``shares`` are the files for gold: name -> bucket -> file."""

    files: list[StagedFile] = field(default_factory=list)
    shares: dict[str, dict[int, StagedFile]] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    bytes_decoded: int = 0
    bytes_quarantined: int = 0
    bytes_missing: int = 0
    foreign_bytes: int = 0
    last_us: int | None = None
    state: StagedFile | None = None
    marks: dict[str, Any] = field(default_factory=dict)


def run_decode(task: DecodeTask) -> Decoded:
    warm()
    for one in task.declared:
        one.load()
    with task.staging.attempt(f"d{task.partition.number:05d}") as attempt:
        return _Decode(task, attempt).run()


class _Decode:
    """One partition: writes the rows of every window where they belong."""

    def __init__(self, task: DecodeTask, attempt: Attempt) -> None:
        self.task = task
        self.attempt = attempt
        self.told = Decoded()
        self.shares: dict[tuple[str, int], Any] = {}

    def run(self) -> Decoded:
        machine, windows = decode(self.task.partition, self.task.reading)
        for seen in windows:
            self._window(seen)
        told = self.told
        if self.task.partition.is_only:
            told.state = self.attempt.stage_bytes("state", machine.state().pack())
            told.marks = machine.marks
        told.counts = machine.counts
        told.files = self.attempt.close()
        for (name, bucket), stream in self.shares.items():
            told.shares.setdefault(name, {})[bucket] = stream.close()
        return told

    def _window(self, seen: Seen) -> None:
        capture = seen.piece.capture if seen.piece is not None else None
        output = seen.output
        if capture is not None and len(seen.chunks):
            kept = CHUNKS.append(CHUNK_BYTES) if self.task.keep_bytes else CHUNKS
            self.attempt.table("bronze/chunks", kept).write(chunk_rows(seen.chunks, capture, self.task.keep_bytes))
        for protocol, batches in output.messages.items():
            for batch in batches:
                self._messages(protocol, batch)
        if output.quarantine.num_rows:
            self._quarantine(output.quarantine)
        self._accounts(seen, capture)
        self.told.foreign_bytes += sum(output.foreign_bytes.values())

    def _accounts(self, seen: Seen, capture: str | None) -> None:
        """Accounts and connections go to gold when it is known what they are: only then they have a bucket."""
        accounts = seen.output.accounts
        if not accounts.num_rows:
            return
        names = accounts.column("connection").to_pylist()
        protocols = dict(zip(names, accounts.column("protocol").to_pylist(), strict=True))
        told = pc.greater(accounts.column("bytes_quarantined"), 0)
        settled = set(accounts.column("connection").filter(told).to_pylist())
        settled |= {name for name, protocol in protocols.items() if protocol is not None}
        known = [replace(one, protocol=protocols[one.id]) for one in seen.chunks.connections if one.id in settled]
        if known:
            self._share("connections", connection_rows(known, capture).combine_chunks(), protocols.get)
        rows = accounts.filter(pc.is_in(accounts.column("connection"), value_set=pa.array(settled, pa.string())))
        if rows.num_rows:
            self._share("accounts", rows, protocols.get)
        ended = {one.id for one in seen.chunks.connections if one.ended}
        over = rows if seen.is_end else rows.filter(pc.is_in(rows.column("connection"), pa.array(ended, pa.string())))
        if over.num_rows:
            self.attempt.table("accounting", ACCOUNTING, dated_by=None).write(over)

    def _messages(self, protocol: str, batch: pa.RecordBatch) -> None:
        name = self.task.reading.named(protocol) or protocol
        declared = load(name)
        self.attempt.table(f"silver/{protocol}", table_schema(declared)).write(batch)
        made = facts(declared, batch, **(self.task.reading.about(self.task.reading.options, name) or {}))
        self.attempt.table("silver/messages", MESSAGES).write(made)
        self._share("facts", made.select(FED.names), lambda _: protocol)
        told = self.told
        told.messages[protocol] = told.messages.get(protocol, 0) + batch.num_rows
        told.bytes_decoded += pc.sum(batch.column("length")).as_py() or 0
        last = pc.max(batch.column("ts").cast(pa.int64())).as_py()
        if last is not None:
            told.last_us = max(told.last_us or last, last)

    def _quarantine(self, rows: pa.RecordBatch) -> None:
        self.attempt.table("silver/quarantine", QUARANTINE).write(rows)
        slim = rows.set_column(rows.schema.get_field_index("bytes"), "bytes", pa.nulls(rows.num_rows, pa.binary()))
        protocols = dict(zip(rows.column("connection").to_pylist(), rows.column("protocol").to_pylist(), strict=True))
        self._share("damage", slim.cast(QUARANTINE), protocols.get)
        is_gap = pc.equal(rows.column("rule"), "gap")
        missing = pc.sum(rows.column("length").filter(is_gap)).as_py() or 0
        self.told.bytes_missing += missing
        self.told.bytes_quarantined += (pc.sum(rows.column("length")).as_py() or 0) - missing

    # --- shares

    def _share(self, name: str, rows: pa.RecordBatch | pa.Table, protocol_of: Callable[[str], str | None]) -> None:
        """Hands rows to the buckets of their connections."""
        column = rows.column("connection")
        encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
        known = encoded.dictionary.to_pylist()
        places = np.array([bucket_of(one, protocol_of(one), self.task.buckets) for one in known], np.int64)
        which = places[encoded.indices.to_numpy(zero_copy_only=False)]
        edges = np.flatnonzero(np.diff(which)) + 1
        if len(edges) >= 2 * self.task.buckets:
            order = np.argsort(which, kind="stable")
            rows, which = rows.take(pa.array(order)), which[order]
            edges = np.flatnonzero(np.diff(which)) + 1
        for start, stop in pairwise([0, *edges.tolist(), len(which)]):
            self._stream(name, int(which[start])).write(rows.slice(start, stop - start))

    def _stream(self, name: str, bucket: int) -> Any:
        stream = self.shares.get((name, bucket))
        if stream is None:
            stream = self.attempt.stream(f"{name}-{bucket:03d}", SHARES[name])
            self.shares[name, bucket] = stream
        return stream


def bucket_of(connection: str, protocol: str | None, buckets: int) -> int:
    """Where a connection is looked at. Over a broker an exchange has two legs, which need each other: there, all
    connections of a server are together.
    """
    digits = connection[:4] if protocol in BROKERED else connection[4:8]
    return int(digits, 16) % buckets


# --- facts -> exchanges, sessions, violations


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


@dataclass
class Gilded:
    files: list[StagedFile] = field(default_factory=list)
    carry: StagedFile | None = None
    events: dict[str, StagedFile] = field(default_factory=dict)
    open: StagedFile | None = None
    violations: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


def run_gold(task: GoldTask) -> Gilded:
    warm()
    with task.staging.attempt(f"g{task.bucket:03d}") as attempt:
        return _Gold(task, attempt).run()


class _Gold:
    """The steps of one bucket, fed together."""

    def __init__(self, task: GoldTask, attempt: Attempt) -> None:
        self.task = task
        self.attempt = attempt
        held, exchanges, sessions, violations = _carried(task.staging, task.carry) or (None, None, None, None)
        self.held = Held(held)
        self.exchanges = Exchanges(exchanges)
        self.sessions = Sessions(sessions)
        protocols = [one.load() for one in task.declared]
        self.violations = Violations(violations, {protocol.name: protocol for protocol in protocols})
        self.events: dict[str, Any] = {}
        self.told = Gilded()

    def run(self) -> Gilded:
        for shares in self.task.shares:
            self._feed(shares)
        if self.task.final:
            self._feed({}, final=True)
        self._settle()
        told, attempt = self.told, self.attempt
        opened = attempt.stream("open", OPEN)
        for rows in (*map(_as_open, self._open_requests()), self.sessions.open()):
            opened.write(rows)
        told.open = opened.close()
        if not self.task.final:
            kept = (self.held.carry(), self.exchanges.carry(), self.sessions.carry(), self.violations.carry())
            told.carry = attempt.stage_bytes("carry", pickle.dumps(kept, protocol=5))
        told.files = attempt.close()
        told.events = {name: stream.close() for name, stream in self.events.items()}
        return told

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
            self.told.violations += found.num_rows
        return found

    def _exchanged(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.attempt.table("gold/exchanges", EXCHANGES, dated_by="request_ts").write(rows)
            for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
                self.told.outcomes[outcome["values"]] = self.told.outcomes.get(outcome["values"], 0) + outcome["counts"]

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


def _carried(staging: Staging, path: str | None) -> Any:
    return unpacked(staging.store, path) if path is not None else None


def unpacked(store: Store, path: str, unpack: Callable[[bytes], Any] = pickle.loads) -> Any:
    """What an earlier run has put away in the lake. Only lakes that this program wrote are read here."""
    data = store.read(path)
    try:
        if not data:
            raise EOFError("it is empty")
        return unpack(data)
    except Exception as error:  # bytes that are not what they were may raise anything
        reason = str(error) or type(error).__name__
        raise LakeError(store.show(path), f"is damaged, or of another version of wirelake: {reason}") from error


def _stage_table(attempt: Attempt, name: str, table: pa.Table) -> StagedFile:
    stream = attempt.stream(name, table.schema)
    stream.write(table)
    file: StagedFile = stream.close()
    return file


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


# --- branches -> transactions


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


def part_name(part: int) -> str:
    return f"work-{part:03d}"


def run_transactions(task: TransactionsTask) -> Gilded:
    warm()
    with task.staging.attempt(f"t{task.part:03d}") as attempt:
        step = Transactions(_carried(task.staging, task.carry))
        moves = _moves(task, step)
        moved = moves.column("gtrid").combine_chunks().drop_null()
        batches = (batch for file in task.work for batch in read_ipc(task.staging, file))
        work = [step.count(pa.Table.from_batches([batch], EVENTS), moved) for batch in batches]
        told = Gilded()
        _write_transactions(attempt, step.feed(pa.concat_tables([moves, *work])), told)
        _write_transactions(attempt, step.settle(task.watermark_us or 0, task.final), told)
        told.open = _stage_table(attempt, "open", step.open())
        if not task.final:
            told.carry = attempt.stage_bytes("carry", pickle.dumps(step.carry(), protocol=5))
        told.files = attempt.close()
        return told


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


def _write_transactions(attempt: Attempt, rows: pa.Table, told: Gilded) -> None:
    if rows.num_rows:
        attempt.table("gold/transactions", TRANSACTIONS, dated_by="first_ts").write(rows)
        for outcome in pc.value_counts(rows.column("outcome")).to_pylist():
            told.outcomes[outcome["values"]] = told.outcomes.get(outcome["values"], 0) + outcome["counts"]


# --- messages and exchanges -> addresses by minute


@dataclass(frozen=True)
class AddressesTask:
    """Hours (since 1970) of which something new is known, each with the files that may have rows of it."""

    staging: Staging
    hours: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]


def run_addresses(task: AddressesTask) -> Gilded:
    warm()
    told = Gilded()
    for hour, messages, exchanges in task.hours:
        with task.staging.attempt(f"a{hour:08d}") as attempt:
            rows = addresses(
                _rows_of(task.staging, messages, MESSAGES, MESSAGE_COLUMNS, "ts", hour),
                _rows_of(task.staging, exchanges, EXCHANGES, EXCHANGE_COLUMNS, "request_ts", hour),
            )
            if rows.num_rows:
                attempt.table("gold/addresses", ADDRESSES, dated_by="minute").write(rows)
            told.files += attempt.close()
    return told


def _rows_of(
    staging: Staging, paths: tuple[str, ...], schema: pa.Schema, columns: Sequence[str], time: str, hour: int
) -> Iterator[pa.RecordBatch]:
    """The rows of an hour, in batches; row groups of other hours are not read."""
    if not paths:
        return iter(())
    store = staging.store
    coded = [
        field.with_type(pa.dictionary(pa.int32(), field.type)) if field.name in TEXTS else field
        for field in schema.remove_metadata()
    ]
    files = ds.ParquetFileFormat(dictionary_columns=set(TEXTS) & set(columns))
    source = ds.dataset([store.full(path) for path in paths], pa.schema(coded), files, store.files)
    start, stop = (pa.scalar(at * HOUR_US, pa.timestamp("us", "UTC")) for at in (hour, hour + 1))
    wanted = (ds.field(time) >= start) & (ds.field(time) < stop)
    batches: Iterator[pa.RecordBatch] = source.to_batches(
        columns=list(columns), filter=wanted, use_threads=False, batch_readahead=1, fragment_readahead=1
    )
    return batches


# --- errors


@dataclass(frozen=True)
class Failure:
    """An error that says all there is to say: it goes to the driver as a value, without Spark's traces around it."""

    text: str


_RUNS: dict[type, Callable[[Any], Any]] = {
    DecodeTask: run_decode,
    GoldTask: run_gold,
    TransactionsTask: run_transactions,
    AddressesTask: run_addresses,
}


def run_task(task: Any) -> Any:
    """Does any of these tasks; gives what it tells, or a ``Failure``."""
    try:
        return _RUNS[type(task)](task)
    except (WireError, LakeError, OSError) as error:
        return Failure(str(error))
