"""Accounts: what became of every byte of a stream. They must add up."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from .chunks import DIRECTIONS, Ints
from .identify import Kind
from .stream_table import NO_READER, StreamTable

_COUNTS = ("bytes_in", "bytes_decoded", "bytes_quarantined", "bytes_pending", "bytes_missing", "messages")
_NAMES = [pa.field(name, pa.string()) for name in ("connection", "direction", "protocol")]
ACCOUNTS = pa.schema([*_NAMES[:2], *(pa.field(name, pa.int64()) for name in _COUNTS), _NAMES[2]])


class AccountsError(RuntimeError):
    """Bytes were lost or counted twice: a fault of this program, never of the capture."""


def account_rows(table: StreamTable, slots: Ints, protocols: list[str]) -> pa.RecordBatch:
    """Return the accounts of these connections; ``protocols`` are the names of the protocol readers by number.

    Foreign connections have none. A connection that was accounted for as pending before it turned out to be foreign
    gets one more row, which takes that back.
    """
    slots = _accountable(table, np.unique(slots))
    streams = np.stack([2 * slots, 2 * slots + 1], axis=1).reshape(-1)
    numbers = {name: values[streams] for name, values in table.numbers.items()}
    pending = table.bytes_pending(streams)
    _check(table, streams, numbers, pending)
    readers = np.repeat(table.reader[slots], 2).tolist()
    names = [protocols[reader] if reader != NO_READER else None for reader in readers]
    columns = {
        "connection": pa.array([table.ids[stream // 2] for stream in streams.tolist()], pa.string()),
        "direction": pa.array(DIRECTIONS).take(pa.array(streams % 2)),
        "bytes_pending": pa.array(pending),
        "protocol": pa.array(names, pa.string()),
    }
    arrays = [columns[f.name] if f.name in columns else pa.array(numbers[f.name]) for f in ACCOUNTS]
    return pa.RecordBatch.from_arrays(arrays, schema=ACCOUNTS)


def _accountable(table: StreamTable, slots: Ints) -> Ints:
    kinds = table.kind[slots]
    undecided, foreign = set(slots[kinds == Kind.UNDECIDED].tolist()), set(slots[kinds == Kind.FOREIGN].tolist())
    taken_back = table.accounted_undecided & foreign
    table.accounted_undecided = (table.accounted_undecided | undecided) - foreign
    return np.array([slot for slot in slots.tolist() if slot not in foreign or slot in taken_back], np.int64)


def _check(table: StreamTable, streams: Ints, numbers: dict[str, Ints], pending: Ints) -> None:
    wrong = numbers["bytes_in"] != numbers["bytes_decoded"] + numbers["bytes_quarantined"] + pending
    if wrong.any():
        i = int(np.argmax(wrong))
        counted = {name: int(values[i]) for name, values in numbers.items()}
        name = table.name(int(streams[i]))
        raise AccountsError(f"the bytes of {name} do not add up: {counted}, {int(pending[i])} pending")
