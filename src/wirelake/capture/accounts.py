"""Accounts: what became of every byte of a stream. They must add up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .chunks import DIRECTIONS
from .stream_table import FOREIGN, NO_READER, UNDECIDED, StreamTable

Ints = NDArray[np.int64]

ACCOUNTS = pa.schema(
    [
        ("connection", pa.string()),
        ("direction", pa.string()),
        ("bytes_in", pa.int64()),
        ("bytes_decoded", pa.int64()),
        ("bytes_quarantined", pa.int64()),
        ("bytes_pending", pa.int64()),
        ("bytes_missing", pa.int64()),
        ("messages", pa.int64()),
        ("protocol", pa.string()),
    ]
)


class AccountsError(RuntimeError):
    """Bytes were lost or counted twice: a fault of this program, never of the capture."""


class Accounts:
    """The accounts of the streams of a table.

    Foreign connections have none. A connection that was accounted for as pending before it turned out to be foreign
    gets one more row, which takes that back.
    """

    def __init__(self, table: StreamTable) -> None:
        self._table = table
        self._undecided: set[int] = set()
        """Connections that were accounted for before it was known what they are."""

    def restore_undecided(self, slot: int) -> None:
        self._undecided.add(slot)

    def forget(self, slots: Iterable[int]) -> None:
        self._undecided.difference_update(slots)

    def rows(self, slots: Ints, protocols: list[str]) -> pa.RecordBatch:
        """Return the accounts of these connections; ``protocols`` are the names of the protocol readers by number."""
        table = self._table
        slots = self._accountable(np.unique(slots))
        streams = np.stack([2 * slots, 2 * slots + 1], axis=1).reshape(-1)
        numbers = {name: values[streams] for name, values in table.numbers.items()}
        pending = table.bytes_pending(streams)
        self._check(streams, numbers, pending)
        names = [table.ids[stream // 2] for stream in streams.tolist()]
        readers = np.repeat(table.reader[slots], 2).tolist()
        columns = {
            "connection": pa.array(names, pa.string()),
            "direction": pa.array(DIRECTIONS).take(pa.array(streams % 2)),
            "bytes_pending": pa.array(pending),
            "protocol": pa.array(
                [protocols[reader] if reader != NO_READER else None for reader in readers], pa.string()
            ),
        }
        arrays = [columns[f.name] if f.name in columns else pa.array(numbers[f.name]) for f in ACCOUNTS]
        return pa.RecordBatch.from_arrays(arrays, schema=ACCOUNTS)

    def _accountable(self, slots: Ints) -> Ints:
        kinds = self._table.kind[slots]
        undecided, foreign = set(slots[kinds == UNDECIDED].tolist()), set(slots[kinds == FOREIGN].tolist())
        taken_back = self._undecided & foreign
        self._undecided = (self._undecided | undecided) - foreign
        return np.array([slot for slot in slots.tolist() if slot not in foreign or slot in taken_back], np.int64)

    def _check(self, streams: Ints, numbers: dict[str, Ints], pending: Ints) -> None:
        wrong = numbers["bytes_in"] != numbers["bytes_decoded"] + numbers["bytes_quarantined"] + pending
        if wrong.any():
            i = int(np.argmax(wrong))
            counted = {name: int(values[i]) for name, values in numbers.items()}
            name = self._table.name(int(streams[i]))
            raise AccountsError(f"the bytes of {name} do not add up: {counted}, {int(pending[i])} pending")
