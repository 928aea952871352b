"""What decoding gives: message batches by protocol, quarantined ranges, accounts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .envelope import times
from .quarantine import QUARANTINE, Row


@dataclass(slots=True)
class Output:
    """What a part of the captures held.

    ``messages`` are batches by protocol, the rows of each stream in order. ``accounts`` are cumulative, one row for
    each stream that was touched. ``foreign_bytes`` (of protocols that are not read) and ``envelope_bytes`` (of
    WebSocket) are counted by capture.
    """

    messages: dict[str, list[pa.RecordBatch]]
    quarantine: pa.RecordBatch
    accounts: pa.RecordBatch
    foreign_bytes: dict[str, int]
    envelope_bytes: dict[str, int]


class OutputBuilder:
    """Collects the parts of an output."""

    def __init__(self) -> None:
        self.messages: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self.quarantine: list[Row] = []
        self.foreign: Counter[str] = Counter()
        self.envelope: Counter[str] = Counter()

    def build(self, accounts: pa.RecordBatch) -> Output:
        columns = list(zip(*self.quarantine, strict=True)) or [()] * len(QUARANTINE)
        arrays = [
            times(np.array(values, np.int64)) if field.name == "ts" else pa.array(values, field.type)
            for values, field in zip(columns, QUARANTINE, strict=True)
        ]
        quarantine = pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE)
        return Output(dict(self.messages), quarantine, accounts, dict(self.foreign), dict(self.envelope))
