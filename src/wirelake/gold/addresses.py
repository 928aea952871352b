"""gold/addresses: what happened at each topic, service, path or queue in each minute.

A pure function of the messages and exchanges of whole minutes: a minute that gets more rows is made anew from all of
them. Messages count in the minute of their ``ts``, exchanges in that of their ``request_ts``.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from . import arrays
from .facts import TIMESTAMP

MINUTE_US = 60_000_000

_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("protocol", pa.string(), "which protocol"),
    ("address", pa.string(), "topic, service, path or queue"),
    ("minute", TIMESTAMP, "beginning of the minute"),
    ("messages", pa.int64(), "messages to the address: requests, events"),
    ("bytes", pa.int64(), "bytes of their frames"),
    ("requests", pa.int64(), "exchanges that began in this minute"),
    ("errors", pa.int64(), "of these, answered with an error"),
    ("timeouts", pa.int64(), "of these, not answered within their limit"),
    ("error_rate", pa.float64(), "errors and time-outs by requests; null without requests"),
    ("fan_out", pa.int64(), "different connections that messages to the address went over"),
    ("p50_us", pa.int64(), "median latency: the value at the nearest rank, so one that occurred"),
    ("p95_us", pa.int64(), "95 % were not slower"),
    ("p99_us", pa.int64(), "99 % were not slower"),
    ("max_us", pa.int64(), "the slowest"),
)
ADDRESSES = pa.schema([pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _COLUMNS])
"""The schema of gold/addresses."""

_KEY = ["protocol", "address", "minute"]
_RANKS = {"p50_us": 50, "p95_us": 95, "p99_us": 99, "max_us": 100}
MESSAGE_COLUMNS = ("protocol", "address", "ts", "length", "connection")
EXCHANGE_COLUMNS = ("protocol", "address", "request_ts", "outcome", "latency_us")


def addresses(messages: pa.Table, exchanges: pa.Table) -> pa.Table:
    """One row per address and minute. Only ``MESSAGE_COLUMNS`` and ``EXCHANGE_COLUMNS`` are read."""
    spoken = _by_minute(messages.select(MESSAGE_COLUMNS), "ts")
    asked = _by_minute(exchanges.select(EXCHANGE_COLUMNS), "request_ts")
    joined = _counts(spoken).join(_outcomes(asked), _KEY, join_type="full outer").join(_latencies(asked), _KEY)
    joined = joined.sort_by([(name, "ascending") for name in ("minute", "protocol", "address")])
    for name in ("messages", "bytes", "requests", "errors", "timeouts", "fan_out"):
        joined = _set(joined, name, pc.fill_null(joined[name], 0))
    failed = pc.add(joined["errors"], joined["timeouts"]).cast(pa.float64())
    requests = pc.if_else(pc.greater(joined["requests"], 0), joined["requests"], None).cast(pa.float64())
    joined = joined.append_column("error_rate", pc.divide(failed, requests))
    return pa.table([joined[field.name].cast(field.type).combine_chunks() for field in ADDRESSES], schema=ADDRESSES)


def _set(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, column)


def _by_minute(table: pa.Table, time: str) -> pa.Table:
    """Rows that have an address and a time, with their minute as a number."""
    table = table.filter(pc.and_(pc.is_valid(table["address"]), pc.is_valid(table[time])))
    us = arrays.integers(table[time].cast(pa.int64()).combine_chunks())
    return table.append_column("minute", pa.array(us - us % MINUTE_US))


def _counts(spoken: pa.Table) -> pa.Table:
    """Messages, bytes, and over how many connections they went."""
    grouped = spoken.group_by(_KEY).aggregate([([], "count_all"), ("length", "sum"), ("connection", "count_distinct")])
    return grouped.rename_columns(
        {"count_all": "messages", "length_sum": "bytes", "connection_count_distinct": "fan_out"}
    )


def _outcomes(asked: pa.Table) -> pa.Table:
    for name, outcome in (("errors", "error"), ("timeouts", "timeout")):
        asked = asked.append_column(name, pc.equal(asked["outcome"], outcome).cast(pa.int64()))
    grouped = asked.group_by(_KEY).aggregate([([], "count_all"), ("errors", "sum"), ("timeouts", "sum")])
    return grouped.rename_columns({"count_all": "requests", "errors_sum": "errors", "timeouts_sum": "timeouts"})


def _latencies(asked: pa.Table) -> pa.Table:
    """Percentiles, exact: latencies of a group are sorted and the value at the nearest rank is taken."""
    timed = asked.filter(pc.is_valid(asked["latency_us"]))
    timed = timed.sort_by([(name, "ascending") for name in (*_KEY, "latency_us")]).combine_chunks()
    starts = _starts(timed)
    counts = np.diff(np.append(starts, len(timed)))
    latency = arrays.integers(timed["latency_us"].combine_chunks())
    found = timed.select(_KEY).take(pa.array(starts))
    for name, percent in _RANKS.items():
        rank = -(-counts * percent // 100)
        found = found.append_column(name, pa.array(latency[starts + rank - 1]))
    return found


def _starts(table: pa.Table) -> NDArray[np.int64]:
    """Where in a sorted table the key changes."""
    change = np.zeros(len(table), np.bool_)
    change[:1] = True
    for name in _KEY:
        column = table[name].combine_chunks()
        codes = arrays.integers(column.dictionary_encode().indices)
        change[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(change)
