"""Decode one partition of the captures: rows of bronze and silver, and what gold needs of them, by bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...capture.chunks import DIRECTIONS, SERVER_DIGITS, Chunks, Counts, server_of
from ...capture.decode import CaptureRange, DecodedWindow
from ...capture.partitions import Partition, decode_partition
from ...capture.quarantine import QUARANTINE
from ...columnar.body_copies import without_copies
from ...columnar.schema import TIMESTAMP, table_schema
from ...gold.arrays import coded_spread, with_coded
from ...gold.connections import connection_rows, endpoint
from ...gold.facts import FED, MESSAGES, facts
from ...gold.tables import ACCOUNTING, CHUNK_BYTES, CHUNKS
from ...lake import Attempt, StagedFile, StreamWriter
from ...protocols import load
from . import StepSettings
from .gold import SHARES
from .index import CapturesEnd, end_of_captures, read_state

CODED_CHUNKS = with_coded(CHUNKS, ("capture", "connection", "direction", "client", "server"))
"""The chunks as ``chunk_rows`` makes them: texts that repeat are numbers."""


@dataclass(frozen=True)
class DecodeTask:
    """One partition of the captures.

    ``before`` is the path of what is known where it begins; ``is_only``: nobody has indexed it, so that this task
    returns what is known behind it.
    """

    settings: StepSettings
    number: int
    ranges: tuple[CaptureRange, ...]
    before: str | None
    is_last: bool = False
    is_only: bool = False

    @property
    def size(self) -> int:
        return sum(captured.size for captured in self.ranges)

    def run(self) -> DecodeResult:
        with self.settings.attempt(f"d{self.number:05d}") as attempt:
            before = read_state(attempt.store, self.before)
            partition = Partition(self.number, self.ranges, before, self.is_last, self.is_only)
            return _Decode(self.settings, attempt).run(partition)


@dataclass
class DecodeResult:
    """What a decode task returns. ``shares`` are the files for gold: name -> bucket -> file."""

    files: list[StagedFile] = field(default_factory=list)
    shares: dict[str, dict[int, StagedFile]] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    bytes_decoded: int = 0
    bytes_quarantined: int = 0
    bytes_missing: int = 0
    foreign_bytes: int = 0
    last_us: int | None = None
    end: CapturesEnd | None = None
    """What the captures leave open, if nobody has indexed them."""

    def of_bucket(self, bucket: int) -> dict[str, StagedFile]:
        return {name: files[bucket] for name, files in self.shares.items() if bucket in files}


class _Decode:
    """One partition: writes the rows of every window to their tables, and to the buckets of gold."""

    def __init__(self, settings: StepSettings, attempt: Attempt) -> None:
        self.settings = settings
        self.attempt = attempt
        self.result = DecodeResult()
        self.shares: dict[tuple[str, int], StreamWriter] = {}
        self.protocols = settings.load_protocols()

    def run(self, partition: Partition) -> DecodeResult:
        decoder, windows = decode_partition(partition, self.settings.reading)
        for window in windows:
            self._window(window)
        result = self.result
        if partition.is_only:
            result.end = end_of_captures(self.settings, self.attempt, decoder)
        result.counts = decoder.counts
        self._pass_time(counts.silent_until_us for counts in decoder.counts.values())
        result.files = self.attempt.close()
        for (name, bucket), stream in self.shares.items():
            result.shares.setdefault(name, {})[bucket] = stream.close()
        return result

    def _window(self, window: DecodedWindow) -> None:
        capture = window.range.capture if window.range is not None else None
        output = window.output
        if len(window.chunks) and not window.is_end:
            rows = chunk_rows(window.chunks, window.captures, self.settings.keep_bytes)
            schema = CHUNKS.append(CHUNK_BYTES) if self.settings.keep_bytes else CHUNKS
            self.attempt.table("bronze/chunks", schema).write(rows)
        for protocol, batches in output.messages.items():
            for batch in batches:
                self._messages(protocol, batch)
        if output.quarantine.num_rows:
            self._quarantine(output.quarantine)
        self._accounts(window, capture)
        self.result.foreign_bytes += output.foreign_bytes

    def _accounts(self, window: DecodedWindow, capture: str | None) -> None:
        """Hand accounts and connections to gold once their protocol is known: only then have they a bucket."""
        accounts = window.output.accounts
        if not accounts.num_rows:
            return
        names = accounts.column("connection").to_pylist()
        protocols = dict(zip(names, accounts.column("protocol").to_pylist(), strict=True))
        has_quarantine = pc.greater(accounts.column("bytes_quarantined"), 0)
        settled = set(accounts.column("connection").filter(has_quarantine).to_pylist())
        settled |= {name for name, protocol in protocols.items() if protocol is not None}
        known = [replace(one, protocol=protocols[one.id]) for one in window.chunks.connections if one.id in settled]
        if known:
            self._share("connections", connection_rows(known, capture).combine_chunks(), protocols.get)
        rows = accounts.filter(pc.is_in(accounts.column("connection"), value_set=pa.array(settled, pa.string())))
        if rows.num_rows:
            self._share("accounts", rows, protocols.get)
        ended = {one.id for one in window.chunks.connections if one.ended}
        over = rows if window.is_end else rows.filter(pc.is_in(rows.column("connection"), pa.array(ended, pa.string())))
        if over.num_rows:
            self.attempt.table("accounting", ACCOUNTING, dated_by=None).write(over)

    def _messages(self, protocol: str, batch: pa.RecordBatch) -> None:
        reading = self.settings.reading
        name = reading.named(protocol) or protocol
        declared = load(name)
        options = reading.about(reading.options, name) or {}
        self.attempt.table(f"silver/{protocol}", table_schema(declared)).write(
            without_copies(declared, batch, **options)
        )
        made = facts(declared, batch, **options)
        self.attempt.table("silver/messages", MESSAGES).write(made)
        self._share("facts", made.select(FED.names), lambda _: protocol)
        result = self.result
        result.messages[protocol] = result.messages.get(protocol, 0) + batch.num_rows
        result.bytes_decoded += pc.sum(batch.column("length")).as_py() or 0
        self._pass_time([pc.max(batch.column("ts").cast(pa.int64())).as_py()])

    def _pass_time(self, times: Iterable[int | None]) -> None:
        known = [time for time in (self.result.last_us, *times) if time is not None]
        self.result.last_us = max(known, default=None)

    def _quarantine(self, rows: pa.RecordBatch) -> None:
        self.attempt.table("silver/quarantine", QUARANTINE).write(rows)
        slim = rows.set_column(rows.schema.get_field_index("bytes"), "bytes", pa.nulls(rows.num_rows, pa.binary()))
        protocols = dict(zip(rows.column("connection").to_pylist(), rows.column("protocol").to_pylist(), strict=True))
        self._share("quarantine", slim.cast(QUARANTINE), protocols.get)
        is_gap = pc.equal(rows.column("rule"), "gap")
        missing = pc.sum(rows.column("length").filter(is_gap)).as_py() or 0
        self.result.bytes_missing += missing
        self.result.bytes_quarantined += (pc.sum(rows.column("length")).as_py() or 0) - missing

    def _share(self, name: str, rows: pa.RecordBatch | pa.Table, protocol_of: Callable[[str], str | None]) -> None:
        """Hand rows to the buckets of their connections."""
        column = rows.column("connection")
        encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
        known = encoded.dictionary.to_pylist()

        def is_brokered(connection: str) -> bool:
            return self.protocols.conduct(protocol_of(connection)).brokered

        places = np.array([bucket_of(one, is_brokered(one), self.settings.buckets) for one in known], np.int64)
        which = places[encoded.indices.to_numpy(zero_copy_only=False)]
        edges = np.flatnonzero(np.diff(which)) + 1
        if len(edges) >= 2 * self.settings.buckets:
            order = np.argsort(which, kind="stable")
            rows, which = rows.take(pa.array(order)), which[order]
            edges = np.flatnonzero(np.diff(which)) + 1
        for start, stop in pairwise([0, *edges.tolist(), len(which)]):
            bucket = int(which[start])
            stream = self.shares[name, bucket] = self.attempt.stream(f"{name}-{bucket:03d}", SHARES[name])
            stream.write(rows.slice(start, stop - start))


def bucket_of(connection: str, brokered: bool, buckets: int) -> int:
    """Return the bucket of a connection. Over a broker an exchange has two legs, which need each other: there, all
    connections of a server are together.
    """
    digits = server_of(connection) if brokered else connection[SERVER_DIGITS : SERVER_DIGITS + 4]
    return int(digits, 16) % buckets


def chunk_rows(chunks: Chunks, captures: list[str], keep_bytes: bool) -> pa.RecordBatch:
    """Return a window as rows of ``bronze/chunks``; ``captures`` has the capture of each connection.

    Gaps are not among them: they are in the quarantine.
    """
    rows = np.flatnonzero(chunks.start >= 0)
    which = chunks.connection[rows]
    connections = chunks.connections

    def spread(values: list[str]) -> pa.Array:
        return coded_spread(values, which)

    ts = chunks.ts[rows]
    arrays = [
        spread(captures),
        spread([one.id for one in connections]),
        coded_spread(DIRECTIONS, chunks.direction[rows]),
        pa.array(chunks.offset[rows]),
        pa.array(ts, mask=ts < 0).cast(TIMESTAMP),
        pa.array(chunks.length[rows]),
        pa.array(chunks.position[rows]),
        spread([endpoint(one.client, one.client_port) for one in connections]),
        spread([endpoint(one.server, one.server_port) for one in connections]),
    ]
    if not keep_bytes:
        return pa.RecordBatch.from_arrays(arrays, schema=CODED_CHUNKS)
    data = chunks.data
    spans = zip(chunks.start[rows].tolist(), chunks.length[rows].tolist(), strict=True)
    arrays.append(pa.array([data[start : start + length].tobytes() for start, length in spans], pa.binary()))
    return pa.RecordBatch.from_arrays(arrays, schema=CODED_CHUNKS.append(CHUNK_BYTES))
