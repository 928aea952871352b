"""What workers do. A task reads its share, writes files on the side and tells the driver about them: rows never pass
through the JVM, and what a failed or repeated attempt wrote is named by nobody.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..capture.chunks import Counts
from ..capture.partitions import Partition, decode
from ..capture.streams import QUARANTINE, Output, Reading
from ..gold.addresses import ADDRESSES, addresses
from ..gold.connections import CONNECTIONS, connection_rows
from ..gold.exchanges import EXCHANGES, Exchanges
from ..gold.facts import FACTS, MESSAGES, facts, needed_columns
from ..gold.sessions import SESSIONS, Sessions
from ..gold.transactions import EVENTS, TRANSACTIONS, Transactions, branch_events
from ..gold.violations import VIOLATIONS, Violations
from ..lake import Attempt, Staging, StagedFile, read_ipc
from .session import warm
from .tables import ACCOUNTING, CHUNK_BYTES, CHUNKS, chunk_rows, silver_schema, times

FEED_ROWS = 200_000
"""Facts that gold takes at a time: enough that the cost of a step is shared, few enough for its memory."""
DAMAGE = pa.schema([(name, QUARANTINE.field(name).type) for name in ("connection", "direction", "offset", "length", "ts", "rule")])


# --- captures -> bronze, silver, facts


@dataclass(frozen=True)
class DecodeTask:
    partition: Partition
    reading: Reading
    staging: Staging
    buckets: int
    keep_bytes: bool = False
    keeps_state: bool = False
    """Whether to hand on what is known behind the partition: asked of the only one."""


@dataclass
class Decoded:
    """What a decode task tells. ``shares`` are the files for gold: name -> bucket -> file."""

    files: list[StagedFile] = field(default_factory=list)
    shares: dict[str, dict[int, StagedFile]] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    messages: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, int] = field(default_factory=dict)
    bytes_in: int = 0
    foreign_bytes: int = 0
    last_us: int | None = None
    state: StagedFile | None = None
    marks: dict[str, Any] = field(default_factory=dict)


def run_decode(task: DecodeTask) -> Decoded:
    warm()
    with task.staging.attempt(f"d{task.partition.number:05d}") as attempt:
        return _Decode(task, attempt).run()


class _Decode:
    def __init__(self, task: DecodeTask, attempt: Attempt) -> None:
        self.task = task
        self.attempt = attempt
        self.told = Decoded()
        self.schemas: dict[str, pa.Schema] = {}

    def run(self) -> Decoded:
        machine, windows = decode(self.task.partition, self.task.reading)
        for seen in windows:
            capture = seen.piece.capture if seen.piece is not None else ""
            self._bronze(seen.chunks, capture)
            self._silver(seen.output)
            self._connections(seen, capture)
        told, attempt = self.told, self.attempt
        if self.task.keeps_state:
            told.state = attempt.stage_bytes("state", machine.state().pack())
            told.marks = machine.marks
        told.counts = machine.counts
        told.files = attempt.close()
        for name, shares in self.streams.items():
            told.shares[name] = {bucket: stream.close() for bucket, stream in shares.items()}
        return told
