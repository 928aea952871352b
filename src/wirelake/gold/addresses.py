"""gold/addresses: what happened at each topic, service, path or queue in each minute.

A pure function of the messages and exchanges of whole minutes: a minute that gets more rows is made anew from all of
them. Messages count in the minute of their ``ts``, exchanges in that of their ``request_ts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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

MESSAGE_COLUMNS = ("protocol", "address", "ts", "length", "connection")
EXCHANGE_COLUMNS = ("protocol", "address", "request_ts", "outcome", "latency_us")
TEXTS = ("protocol", "address", "connection", "outcome")
"""Those of them that may come as dictionaries."""
_RANKS = {"p50_us": 50, "p95_us": 95, "p99_us": 99, "max_us": 100}
_OUTCOMES = {"errors": "error", "timeouts": "timeout"}
_MINUTE_BITS = 32

Ints = NDArray[np.int64]


def addresses(messages: Iterable[pa.RecordBatch], exchanges: Iterable[pa.RecordBatch]) -> pa.Table:
    """One row per address and minute. Only ``MESSAGE_COLUMNS`` and ``EXCHANGE_COLUMNS`` are read, batch by batch."""
    counted = _Counted()
    for batch in messages:
        counted.add_messages(batch)
    for batch in exchanges:
        counted.add_exchanges(batch)
    return counted.rows()


class _Places:
    """Numbers for addresses, which are known by their hashes: only new ones are looked at as texts.

    They are hashes of 64 bits: that two addresses of a million are taken for one happens once in 10 million times.
    """

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self._hashes = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int64)

    def numbers(self, hashes: Ints, name: Callable[[int], tuple[str, str]]) -> Ints:
        """The numbers of addresses with these hashes, of which no two are the same; ``name`` tells them by place."""
        places = np.searchsorted(self._hashes, hashes)
        known = np.append(self._hashes, 0)[places] == hashes
        known &= places < len(self._hashes)
        new = np.flatnonzero(~known)
        if len(new):
            numbers = np.concatenate([self._numbers, len(self.names) + np.arange(len(new))])
            all_hashes = np.concatenate([self._hashes, hashes[new]])
            order = np.argsort(all_hashes)
            self._hashes, self._numbers = all_hashes[order], numbers[order]
            self.names += [name(place) for place in new.tolist()]
            places = np.searchsorted(self._hashes, hashes)
        found: Ints = self._numbers[places]
        return found


def _coded(column: pa.Array) -> tuple[pa.Array, Ints]:
    """Different values, and the place of each row's among them; null is -1."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return coded.dictionary, arrays.integers(coded.indices, -1)


def _different(numbers: Ints) -> tuple[Ints, Ints]:
    """Different numbers, and the place of each row's among them."""
    coded = pa.array(numbers).dictionary_encode()
    return arrays.integers(coded.dictionary), arrays.integers(coded.indices)


class _Counted:
    """A cell is an address in a minute: the number of the address, then that of the minute."""

    def __init__(self) -> None:
        self._places = _Places()
        self._connections: dict[str, int] = {}
        self._spoken = _Sums("messages", "bytes")
        self._asked = _Sums("requests", *_OUTCOMES)
        self._peers: list[Ints] = []
        self._latencies: list[tuple[Ints, Ints]] = []

    def add_messages(self, batch: pa.RecordBatch) -> None:
        used, cells = self._cells(batch, "ts")
        names, peer = _coded(batch.column("connection"))
        known = self._connections
        numbers = np.array([known.setdefault(name, len(known)) for name in names.to_pylist()], np.int64)
        cell, which = self._spoken.add(cells, arrays.integers(batch.column("length"))[used])
        pairs, _ = _different(which * len(numbers) + peer[used])
        self._peers.append(np.stack([cell[pairs // len(numbers)], numbers[pairs % len(numbers)]]))

    def add_exchanges(self, batch: pa.RecordBatch) -> None:
        used, cells = self._cells(batch, "request_ts")
        names, outcome = _coded(batch.column("outcome"))
        said = [np.array([name == one for name in names.to_pylist()])[outcome[used]] for one in _OUTCOMES.values()]
        self._asked.add(cells, *said)
        latency = batch.column("latency_us")
        timed = arrays.flags(latency.is_valid(), len(batch))[used]
        self._latencies.append((cells[timed], arrays.integers(latency)[used][timed]))

    def _cells(self, batch: pa.RecordBatch, time: str) -> tuple[Ints, Ints]:
        """The rows that have an address and a time, and their cells."""
        protocols, protocol = _coded(batch.column("protocol"))
        texts, text = _coded(batch.column("address"))
        times = batch.column(time)
        used = np.flatnonzero((text >= 0) & arrays.flags(times.is_valid(), len(batch)))
        pairs, which = _different(protocol[used] * len(texts) + text[used])
        said, place = pairs // max(len(texts), 1), pairs % max(len(texts), 1)
        hashes = arrays.mixed(arrays.hashed(texts)[place], arrays.hashed(protocols)[said])
        numbers = self._places.numbers(hashes, lambda i: (protocols[said[i]].as_py(), texts[place[i]].as_py()))
        minute = arrays.integers(times.cast(pa.int64()))[used] // MINUTE_US
        return used, (numbers[which] << _MINUTE_BITS) + minute

    def rows(self) -> pa.Table:
        spoken, asked = self._spoken.total(), self._asked.total()
        cells = np.union1d(spoken["cell"], asked["cell"])
        places = self._places.names
        which, minute = cells >> _MINUTE_BITS, (cells & ((1 << _MINUTE_BITS) - 1)) * MINUTE_US
        found: dict[str, Any] = {
            "protocol": pa.array([places[one][0] for one in which.tolist()], pa.string()),
            "address": pa.array([places[one][1] for one in which.tolist()], pa.string()),
            "minute": pa.array(minute),
            "fan_out": pa.array(self._fan_out(cells)),
        }
        for sums in (spoken, asked):
            for name, values in sums.items():
                column = np.zeros(len(cells), np.int64)
                column[np.searchsorted(cells, sums["cell"])] = values
                found[name] = pa.array(column)
        failed = pc.add(found["errors"], found["timeouts"]).cast(pa.float64())
        requests = pc.if_else(pc.greater(found["requests"], 0), found["requests"], None).cast(pa.float64())
        found["error_rate"] = pc.divide(failed, requests)
        found |= self._percentiles(cells)
        table = pa.table([found[field.name].cast(field.type) for field in ADDRESSES], schema=ADDRESSES)
        return table.sort_by([(name, "ascending") for name in ("minute", "protocol", "address")])

    def _fan_out(self, cells: Ints) -> Ints:
        """Over how many connections messages went."""
        if not self._peers:
            return np.zeros(len(cells), np.int64)
        cell, peer = np.concatenate(self._peers, axis=1)
        pairs = np.unique(np.searchsorted(cells, cell) * len(self._connections) + peer)
        return np.bincount(pairs // len(self._connections), minlength=len(cells))

    def _percentiles(self, cells: Ints) -> dict[str, pa.Array]:
        """Exact: the latencies of a cell are sorted and the value at the nearest rank is taken."""
        nothing: Ints = np.zeros(0, np.int64)
        where = np.searchsorted(cells, np.concatenate([nothing, *(one for one, _ in self._latencies)]))
        latency = np.concatenate([nothing, *(values for _, values in self._latencies)])
        order = np.lexsort((latency, where))
        counts = np.bincount(where, minlength=len(cells))
        starts = np.cumsum(counts) - counts
        there = counts > 0
        found = {}
        for name, percent in _RANKS.items():
            rank = -(-counts * percent // 100)
            at = order[(starts + rank - 1)[there]]
            values = np.zeros(len(cells), np.int64)
            values[there] = latency[at]
            found[name] = pa.array(values, mask=~there)
        return found


class _Sums:
    """Rows and sums by cell, added up batch by batch."""

    def __init__(self, *names: str) -> None:
        self._names = ("cell", *names)
        self._parts: list[Ints] = []

    def add(self, cells: Ints, *values: NDArray[Any]) -> tuple[Ints, Ints]:
        """Gives the different cells, and the place of each row's among them."""
        different, which = _different(cells)
        sums = [np.bincount(which, weights=one, minlength=len(different)).astype(np.int64) for one in values]
        self._parts.append(np.stack([different, np.bincount(which, minlength=len(different)), *sums]))
        return different, which

    def total(self) -> dict[str, Ints]:
        if not self._parts:
            return {name: np.zeros(0, np.int64) for name in self._names}
        cell, *columns = np.concatenate(self._parts, axis=1)
        different, which = np.unique(cell, return_inverse=True)
        sums = [np.bincount(which, weights=one).astype(np.int64) for one in columns]
        return dict(zip(self._names, (different, *sums), strict=True))
