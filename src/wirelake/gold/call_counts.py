"""Calls that do work in transactions of which nothing else is known yet: counted, as columns.

Until a prepare, commit or rollback comes, the order of such calls says nothing: a branch is in doubt, however many
there were. So they are kept as one row per branch and chain of calls, and there may be millions of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from . import arrays
from .arrays import Ints, coded, flags, integers, joined

MAX_EXECUTIONS = 100
"""Chains of calls that are named of a transaction: the first ones."""
IN_DOUBT = "in_doubt"

CALLS = pa.schema(
    [
        ("protocol", pa.string()),
        ("xid_format", pa.int64()),
        ("gtrid", pa.binary()),
        ("bqual", pa.binary()),
        ("connection", pa.string()),
        ("execution", pa.string()),
        *((name, pa.int64()) for name in ("first", "last", "order", "calls")),
    ]
)
_KEY = CALLS.names[:6]
_SUMMED = [("first", "min"), ("last", "max"), ("order", "min"), ("calls", "sum")]
_LOOSE_ROWS = 100_000
"""Rows that are kept as they came before they are counted together."""


class CallCounts:
    """What was counted. ``carry`` is what an earlier one gave by ``counted()``."""

    def __init__(self, carry: pa.Table | None = None) -> None:
        self._counted = arrays.empty(CALLS) if carry is None else carry
        self._loose: list[pa.Table] = []
        self._loose_rows = 0

    def __len__(self) -> int:
        return len(self._counted) + self._loose_rows

    def add(self, events: pa.Table) -> None:
        """Take events (``branch_events.EVENTS``) that are calls."""
        self._loose.append(_as_calls(events))
        self._loose_rows += len(events)
        if self._loose_rows > max(_LOOSE_ROWS, len(self._counted)):
            self.counted()

    def counted(self) -> pa.Table:
        """Return one row per branch and chain of calls."""
        if self._loose:
            both = pa.concat_tables([self._counted, *self._loose])
            grouped = both.group_by(_KEY, use_threads=False).aggregate(_SUMMED)
            columns = [grouped.column(name) for name in _KEY] + [grouped.column("_".join(one)) for one in _SUMMED]
            self._counted = pa.table(columns, schema=CALLS).combine_chunks()
            self._loose, self._loose_rows = [], 0
        return self._counted

    def take(self, gtrids: pa.Array) -> pa.Table:
        """Take out the calls of transactions with these ids, in the order of time."""
        if not len(gtrids) or not len(self):
            return arrays.empty(CALLS)
        table = self.counted()
        wanted = flags(pc.is_in(table["gtrid"], value_set=gtrids))
        self._counted = arrays.where(table, ~wanted)
        return arrays.where(table, wanted).sort_by([("first", "ascending"), ("order", "ascending")])

    def take_all(self) -> pa.Table:
        table, self._counted = self.counted(), arrays.empty(CALLS)
        return table


def _as_calls(events: pa.Table) -> pa.Table:
    made = {
        "bqual": pc.fill_null(events.column("bqual"), b""),
        "first": events.column("ts"),
        "last": events.column("ts"),
        "calls": pa.array(np.ones(len(events), np.int64)),
    }
    return arrays.table_of(CALLS, made, events)


def undecided(calls: pa.Table) -> dict[str, pa.Array]:
    """Return the columns, as far as they are not null, of transactions with nothing but calls, by first message."""
    which, size = _ids(calls, "protocol", "xid_format", "gtrid")
    by_id = _Groups(which, size)
    first = by_id.least(integers(calls["first"]))
    head = calls.take(pa.array(by_id.order[by_id.starts])).append_column("began", pa.array(first))
    rank = pc.sort_indices(head, [("began", "ascending"), ("gtrid", "ascending")]).to_numpy()
    place = np.empty(size, np.int64)
    place[rank] = np.arange(size)
    # From here on the number of a transaction is its place in the result.
    by_id = _Groups(place[which], size)
    head = head.take(pa.array(rank))
    branches = _branches(calls, place[which], size)
    peers, _ = _ids(calls.append_column("id", pa.array(place[which])), "id", "connection")
    _, one_of_each = np.unique(peers, return_index=True)
    return {
        "protocol": head.column("protocol"),
        "xid_format": head.column("xid_format"),
        "gtrid": arrays.hexed(joined(head["gtrid"])),
        "first_ts": head.column("began"),
        "last_ts": pa.array(by_id.most(integers(calls["last"]))),
        "outcome": pa.repeat(IN_DOUBT, size),
        "calls": pa.array(by_id.sum(integers(calls["calls"]))),
        "connections": pa.array(np.bincount(place[which][one_of_each], minlength=size).astype(np.int32)),
        "executions": _executions(calls, place[which], size),
        "branches": branches,
    }


def _branches(calls: pa.Table, which: Ints, size: int) -> pa.Array:
    """Return lists of the branches of each transaction, by first message."""
    table = calls.append_column("id", pa.array(which))
    branch, count = _ids(table, "id", "bqual", "connection")
    groups = _Groups(branch, count)
    rows = table.select(["id", "bqual", "connection"]).take(pa.array(groups.order[groups.starts]))
    rows = rows.append_column("first", pa.array(groups.least(integers(calls["first"]))))
    rows = rows.append_column("calls", pa.array(groups.sum(integers(calls["calls"]))))
    rows = rows.sort_by([(name, "ascending") for name in ("id", "first", "connection", "bqual")]).combine_chunks()
    nothing = pa.nulls(count, pa.int32())
    made = {
        "bqual": arrays.hexed(joined(rows["bqual"])),
        "connection": joined(rows["connection"]),
        "resource": nothing,
        "calls": joined(rows["calls"]),
        "vote": nothing,
        "decision": pa.nulls(count, pa.string()),
        "one_phase": pa.repeat(False, count),
        "result": nothing,
        "outcome": pa.repeat(IN_DOUBT, count),
    }
    return _lists(integers(rows["id"]), size, pa.StructArray.from_arrays(list(made.values()), list(made)))


def _executions(calls: pa.Table, which: Ints, size: int) -> pa.Array:
    """Return lists of the first chains of calls of each transaction."""
    table = calls.select(["execution", "first"]).append_column("id", pa.array(which))
    named = pc.and_(pc.is_valid(table.column("execution")), pc.not_equal(table.column("execution"), ""))
    table = arrays.where(table, flags(named))
    if not len(table):
        return _lists(np.zeros(0, np.int64), size, pa.array([], pa.string()))
    pair, count = _ids(table, "id", "execution")
    groups = _Groups(pair, count)
    rows = table.select(["id", "execution"]).take(pa.array(groups.order[groups.starts]))
    rows = rows.append_column("first", pa.array(groups.least(integers(table["first"]))))
    rows = rows.sort_by([(name, "ascending") for name in ("id", "first", "execution")]).combine_chunks()
    owner = integers(rows["id"])
    nth = np.arange(len(rows)) - np.searchsorted(owner, owner)
    kept = nth < MAX_EXECUTIONS
    return _lists(owner[kept], size, joined(rows["execution"]).filter(pa.array(kept)))


def _lists(owner: Ints, size: int, values: pa.Array) -> pa.Array:
    """Return values as lists by their owners, which are in order."""
    offsets = np.searchsorted(owner, np.arange(size + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _ids(table: pa.Table, *key: str) -> tuple[Ints, int]:
    """Return a number for each different key, from 0, and how many there are."""
    found = np.zeros(len(table), np.int64)
    for name in key:
        values, place = coded(table[name])
        _, found = arrays.numbered(found * (len(values) + 1) + place + 1)
    return found, int(found.max(initial=-1)) + 1


class _Groups:
    """Rows by the number of their group; no group is empty."""

    def __init__(self, which: Ints, size: int) -> None:
        self.order = np.argsort(which, kind="stable")
        self.starts = np.searchsorted(which[self.order], np.arange(size))

    def sum(self, values: Ints) -> Any:
        return np.add.reduceat(values[self.order], self.starts)

    def least(self, values: Ints) -> Any:
        return np.minimum.reduceat(values[self.order], self.starts)

    def most(self, values: Ints) -> Any:
        return np.maximum.reduceat(values[self.order], self.starts)
