"""What decoding gives: message batches by protocol, quarantined ranges, accounts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from .accounts import ACCOUNTS
from .envelope import times
from .quarantine import QUARANTINE


@dataclass(slots=True)
class Output:
    """What a piece of captures held.

    ``messages`` are batches by protocol, each stream's rows in order. ``accounts`` are cumulative, one row for each
    stream that was touched. ``foreign_bytes`` (of protocols that are not read) and ``envelope_bytes`` (of WebSocket)
    are counted by capture.
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
        self.quarantined: list[tuple[Any, ...]] = []
        self.accounts: list[pa.RecordBatch] = []
        self.foreign: Counter[str] = Counter()
        self.envelope: Counter[str] = Counter()

    def build(self) -> Output:
        columns = list(zip(*self.quarantined, strict=True)) or [()] * len(QUARANTINE)
        arrays = [
            times(np.array(values, np.int64)) if field.name == "ts" else pa.array(values, field.type)
            for values, field in zip(columns, QUARANTINE, strict=True)
        ]
        return Output(
            dict(self.messages),
            pa.RecordBatch.from_arrays(arrays, schema=QUARANTINE),
            _joined(self.accounts),
            dict(self.foreign),
            dict(self.envelope),
        )


def _joined(accounts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(accounts) == 1:
        return accounts[0]
    if not accounts:
        return pa.RecordBatch.from_pylist([], ACCOUNTS)
    return pa.concat_batches(accounts)
