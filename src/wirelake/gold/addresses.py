"""gold/addresses: what happened at each topic, service, path or queue in each minute.

A pure function of the messages and exchanges of whole minutes. Messages count in the minute of their ``ts``, exchanges
in that of their ``request_ts``. What was counted of a minute can be kept (``MinuteCarry``) and counted on: the rows are
those that counting everything at once gives, percentiles included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..columnar.schema import TIMESTAMP, documented
from . import arrays
from .arrays import FOR_EVER, Ints, coded, integers, valid

MINUTE_US = 60_000_000

ADDRESSES = documented(
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
"""The schema of gold/addresses."""

MESSAGE_COLUMNS = ("protocol", "address", "ts", "length", "connection")
EXCHANGE_COLUMNS = ("protocol", "address", "request_ts", "outcome", "latency_us")
TEXTS = ("protocol", "address", "connection", "outcome")
"""Those of them that may come as dictionaries."""
_RANKS = {"p50_us": 50, "p95_us": 95, "p99_us": 99, "max_us": 100}
_OUTCOMES = {"errors": "error", "timeouts": "timeout"}
_MINUTE_BITS = 32
"""Enough for the minutes of the next 8000 years."""
_MINUTE_MASK = (1 << _MINUTE_BITS) - 1
DENSE = 4
"""Numbers that may occur, for each that does: if there are more, they are looked up by hash."""


@dataclass
class MinuteCarry:
    """All that was counted of one minute: enough to go on counting, and for exact percentiles."""

    minute: int
    """Since 1970."""
    names: pa.Table
    """``protocol`` and ``address``; ``place`` below is the number of a row of it."""
    connections: list[str]
    outcomes: list[str]
    messages: pa.Table
    """TALLY by address and connection: ``sum`` is that of the bytes."""
    exchanges: pa.Table
    """TALLY by address and outcome."""
    latencies: pa.Table
    """LATENCY of each exchange that has one, sorted."""

    def __post_init__(self) -> None:
        """Refuse numbers that lead nowhere: a carry may come from a stranger."""
        if not 0 <= self.minute < 1 << _MINUTE_BITS or self.names.schema.names != ["protocol", "address"]:
            raise ValueError("it is not of a minute")
        kinds = {"messages": (TALLY, self.connections), "exchanges": (TALLY, self.outcomes), "latencies": (LATENCY, ())}
        for name, (schema, known) in kinds.items():
            table = getattr(self, name)
            limits = {"place": self.names.num_rows, "kind": len(known)}
            if table.schema != schema or any(table.column(column).null_count for column in schema.names):
                raise ValueError(f"it has no {name}")
            for column in limits.keys() & set(schema.names):
                values = integers(table.column(column))
                if len(values) and not 0 <= values.min() <= values.max() < limits[column]:
                    raise ValueError(f"its {name} have a {column} that is not there")


TALLY = pa.schema([("place", pa.int32()), ("kind", pa.int32()), ("rows", pa.int64()), ("sum", pa.int64())])
LATENCY = pa.schema([("place", pa.int32()), ("latency_us", pa.int64())])


# --- latencies of all minutes

LATENCIES = pa.schema(
    [("protocol", pa.string()), ("address", pa.string()), ("band", pa.int32()), ("requests", pa.int64())]
)
"""Bands of latencies: below 256 us each value is one, above there are 128 between a power of two and the next.
``NO_LATENCY`` are requests without a reply."""
NO_LATENCY = -1
_SUB_BITS = 7
MOST_ADDRESSES = 10_000
"""Addresses that are looked at together; if there are more, those with the most requests."""


def slowest(latencies: Iterable[pa.Table], most: int) -> list[dict[str, Any]]:
    """Return the addresses with the largest 95th percentile of all their requests, that first.

    Percentiles are those of bands: the nearest rank, and less than 0.4 % from a latency that occurred.
    """
    table = pa.concat_tables([arrays.empty(LATENCIES), *latencies]).group_by(["protocol", "address", "band"])
    table = table.aggregate([("requests", "sum")]).sort_by([(name, "ascending") for name in LATENCIES.names[:3]])
    starts = arrays.run_starts(*(coded(table[name])[1] for name in ("protocol", "address")))
    bands, counts = integers(table["band"]), integers(table["requests_sum"])
    found = []
    for start, stop in pairwise(starts.tolist()):
        first = start + (bands[start] == NO_LATENCY)
        if first < stop:
            ranks = _at_ranks(bands[first:stop], counts[first:stop], (50, 95))
            found.append((ranks[1], start, ranks[0], int(counts[start:stop].sum())))
    found.sort(key=lambda one: (-one[0], one[1]))
    chosen = table.select(["protocol", "address"]).take(pa.array([start for _, start, *_ in found[:most]], pa.int64()))
    return [
        {**name, "requests": requests, "p50_us": usual, "p95_us": slow}
        for name, (slow, _, usual, requests) in zip(chosen.to_pylist(), found, strict=False)
    ]


def _at_ranks(bands: Ints, counts: Ints, percents: Iterable[int]) -> list[int]:
    total = np.cumsum(counts)
    places = [int(np.searchsorted(total, -(-total[-1] * percent // 100))) for percent in percents]
    return [_middle(int(bands[place])) for place in places]


def _bands(latencies: Ints) -> Ints:
    shift = np.maximum(np.frexp(latencies.astype(np.float64))[1] - (_SUB_BITS + 1), 0)
    return np.asarray((shift << _SUB_BITS) + (latencies >> shift), np.int64)


def _middle(band: int) -> int:
    shift = max((band >> _SUB_BITS) - 1, 0)
    return ((band - (shift << _SUB_BITS)) << shift) + ((1 << shift) >> 1)


class _Places:
    """Numbers for addresses, which are known by their hashes: only new ones are looked at as texts.

    They are hashes of 64 bits: that two addresses of a million are taken for one happens once in 10 million times.
    """

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self._hashes = np.zeros(0, np.int64)
        self._numbers: Ints = np.zeros(0, np.int64)

    def numbers(self, hashes: Ints, names: Callable[[Ints], list[tuple[str, str]]]) -> Ints:
        """Return the numbers of addresses with these hashes, all different; ``names`` names them by place."""
        places = np.searchsorted(self._hashes, hashes)
        known = np.append(self._hashes, 0)[places] == hashes
        known &= places < len(self._hashes)
        new = np.flatnonzero(~known)
        if len(new):
            numbers = np.concatenate([self._numbers, len(self.names) + np.arange(len(new))])
            all_hashes = np.concatenate([self._hashes, hashes[new]])
            order = np.argsort(all_hashes)
            self._hashes, self._numbers = all_hashes[order], numbers[order]
            self.names += names(new)
            places = np.searchsorted(self._hashes, hashes)
        return self._numbers[places]


def _numbered(values: pa.Array, known: dict[str, int]) -> Ints:
    """Return values as numbers; ``known`` has those given so far, and gets the new ones."""
    return np.array([known.setdefault(value, len(known)) for value in values.to_pylist()], np.int64)


class _Cells(NamedTuple):
    """The rows of a batch that have an address and a time, and their cells: those of the batch have numbers of their
    own, below ``size``."""

    used: Ints
    cell: Ints
    size: int
    numbers: Ints
    """Of the addresses."""
    minute: int
    minutes: int

    def known_as(self, cell: Ints) -> Ints:
        """Return cells of the batch by the numbers of addresses and minutes."""
        return (self.numbers[cell // self.minutes] << _MINUTE_BITS) + self.minute + cell % self.minutes


class AddressCounts:
    """Counts messages and exchanges by address and minute, batch by batch.

    A cell is an address in a minute: the number of the address, then that of the minute.
    """

    def __init__(self) -> None:
        self._places = _Places()
        self._connections: dict[str, int] = {}
        self._outcomes: dict[str, int] = {one: number for number, one in enumerate(_OUTCOMES.values())}
        self._spoken, self._asked = _Sums(), _Sums()
        self._latencies = _Latencies()

    def add_messages(self, batch: pa.RecordBatch) -> None:
        """Take a batch of silver/messages; only ``MESSAGE_COLUMNS`` are read."""
        cells = self._cells(batch, "ts")
        self._spoken.add(_total(cells, batch.column("connection"), self._connections, batch.column("length")))

    def add_exchanges(self, batch: pa.RecordBatch) -> None:
        """Take a batch of gold/exchanges; only ``EXCHANGE_COLUMNS`` are read."""
        cells = self._cells(batch, "request_ts")
        self._asked.add(_total(cells, batch.column("outcome"), self._outcomes))
        latency = batch.column("latency_us")
        if latency.null_count < len(latency):
            timed = valid(latency)[cells.used]
            self._latencies.add(cells.known_as(cells.cell[timed]), integers(latency)[cells.used][timed])

    def add_carry(self, carry: MinuteCarry) -> None:
        """Take what was counted of a minute before."""
        protocols, protocol = coded(carry.names.column("protocol"))
        texts = arrays.joined(carry.names.column("address"))
        numbers = np.zeros(len(texts), np.int64)
        for said in range(len(protocols)):
            there = np.flatnonzero(protocol == said)
            numbers[there] = self._numbers(protocols[said].as_py(), texts.take(pa.array(there)))
        cells = (numbers << _MINUTE_BITS) + carry.minute
        for sums, tally, names, known in (
            (self._spoken, carry.messages, carry.connections, self._connections),
            (self._asked, carry.exchanges, carry.outcomes, self._outcomes),
        ):
            place, kind, rows, total = (integers(column) for column in tally.columns)
            sums.add(_Total(cells[place], _numbered(pa.array(names, pa.string()), known)[kind], rows, total))
        place, latency = (integers(column) for column in carry.latencies.columns)
        self._latencies.add(cells[place], latency)

    def minutes(self) -> list[int]:
        """Return the minutes that have something, since 1970."""
        cells = np.concatenate([self._spoken.total().cells, self._asked.total().cells])
        return [int(minute) for minute in np.unique(cells & _MINUTE_MASK)]

    def carry(self, minute: int) -> MinuteCarry:
        """Return what was counted of a minute."""
        spoken, asked = (_of_minute(sums.total(), minute) for sums in (self._spoken, self._asked))
        cells, latency, counts = self._latencies.total()
        here = np.flatnonzero(cells & _MINUTE_MASK == minute)
        here = np.repeat(here, counts[here])
        used = np.unique(np.concatenate([spoken.cells, asked.cells]))
        names = [self._places.names[number] for number in (used >> _MINUTE_BITS).tolist()]
        columns = [[one[column] for one in names] for column in (0, 1)]
        connections, messages = _tally(spoken, used, self._connections)
        outcomes, exchanges = _tally(asked, used, self._outcomes)
        made = {
            "place": pa.array(np.searchsorted(used, cells[here])),
            "latency_us": pa.array(latency[here].astype(np.int64)),
        }
        return MinuteCarry(
            minute,
            pa.table([pa.array(texts, pa.string()) for texts in columns], ["protocol", "address"]),
            connections,
            outcomes,
            messages,
            exchanges,
            arrays.table_of(LATENCY, made),
        )

    def _cells(self, batch: pa.RecordBatch, time: str) -> _Cells:
        protocols, protocol = coded(batch.column("protocol"))
        texts, text = coded(batch.column("address"))
        times = batch.column(time)
        used = np.flatnonzero((text >= 0) & valid(times))
        protocol, text = protocol[used], text[used]
        numbers = np.zeros((len(protocols), len(texts)), np.int64)
        for said in range(len(protocols)):
            there = np.flatnonzero(np.bincount(text[protocol == said], minlength=len(texts)))
            numbers[said, there] = self._numbers(protocols[said].as_py(), texts.take(pa.array(there)))
        minute = integers(times)[used] // MINUTE_US
        first = int(minute.min(initial=FOR_EVER))
        minutes = int(minute.max(initial=first)) - first + 1
        cell = (protocol * len(texts) + text) * minutes + minute - first
        return _Cells(used, cell, numbers.size * minutes, numbers.ravel(), first, minutes)

    def _numbers(self, protocol: str, texts: pa.Array) -> Ints:
        hashes = arrays.mixed(arrays.hashed(texts), arrays.hashed(pa.array([protocol])))
        return self._places.numbers(
            hashes, lambda new: [(protocol, text) for text in texts.take(pa.array(new)).to_pylist()]
        )

    def rows(self) -> pa.Table:
        """Return ADDRESSES of all minutes, sorted by minute, protocol and address."""
        spoken, asked = self._spoken.total(), self._asked.total()
        cells = np.union1d(spoken.cells, asked.cells)

        def by_cell(sums: _Total, values: NDArray[Any], which: Any = slice(None)) -> pa.Array:
            there = np.searchsorted(cells, sums.cells[which])
            return pa.array(np.bincount(there, values[which], len(cells)).astype(np.int64))

        names = [self._places.names[one] for one in (cells >> _MINUTE_BITS).tolist()]
        found: dict[str, Any] = {
            "protocol": pa.array([protocol for protocol, _ in names], pa.string()),
            "address": pa.array([address for _, address in names], pa.string()),
            "minute": pa.array((cells & _MINUTE_MASK) * MINUTE_US),
            "messages": by_cell(spoken, spoken.rows),
            "bytes": by_cell(spoken, spoken.sums),
            "fan_out": by_cell(spoken, np.ones(len(spoken.cells))),
            "requests": by_cell(asked, asked.rows),
        }
        for name, outcome in _OUTCOMES.items():
            found[name] = by_cell(asked, asked.rows, asked.kinds == self._outcomes[outcome])
        failed = pc.add(found["errors"], found["timeouts"]).cast(pa.float64())
        requests = pc.if_else(pc.greater(found["requests"], 0), found["requests"], None).cast(pa.float64())
        found["error_rate"] = pc.divide(failed, requests)
        table = arrays.table_of(ADDRESSES, found | self._percentiles(cells))
        return table.sort_by([(name, "ascending") for name in ("minute", "protocol", "address")])

    def latencies(self) -> pa.Table:
        """Return LATENCIES of all minutes together."""
        asked = self._asked.total()
        requests = np.bincount(asked.cells >> _MINUTE_BITS, asked.rows, len(self._places.names)).astype(np.int64)
        pairs, counts = self._latencies.bands()
        silent = requests - np.bincount(pairs >> 32, counts, len(requests)).astype(np.int64)
        some = np.flatnonzero(silent)
        address = np.concatenate([pairs >> 32, some])
        made = {
            "band": np.concatenate([pairs & 0xFFFFFFFF, np.full(len(some), NO_LATENCY)]),
            "requests": np.concatenate([counts, silent[some]]),
        }
        kept = np.isin(address, np.argsort(-requests, kind="stable")[:MOST_ADDRESSES])
        names = [self._places.names[one] for one in address[kept].tolist()]
        columns: dict[str, Any] = {name: pa.array(values[kept]) for name, values in made.items()}
        for place, name in enumerate(("protocol", "address")):
            columns[name] = pa.array([one[place] for one in names], pa.string())
        return arrays.table_of(LATENCIES, columns)

    def _percentiles(self, cells: Ints) -> dict[str, pa.Array]:
        """Return exact percentiles: of the sorted latencies of a cell, the value at the nearest rank."""
        timed, latency, many = self._latencies.total()
        counts = np.bincount(np.searchsorted(cells, timed), many, len(cells)).astype(np.int64)
        starts, ends = np.cumsum(counts) - counts, np.cumsum(many)
        there = counts > 0
        found = {}
        for name, percent in _RANKS.items():
            rank = -(-counts * percent // 100)
            at = np.searchsorted(ends, (starts + rank)[there])
            values = np.zeros(len(cells), np.int64)
            values[there] = latency[at]
            found[name] = pa.array(values, mask=~there)
        return found


class _Total(NamedTuple):
    """One entry for each cell and kind that occurred together."""

    cells: Ints
    kinds: Ints
    rows: Ints
    sums: Ints


def _total(cells: _Cells, kinds: pa.Array, known: dict[str, int], values: pa.Array | None = None) -> _Total:
    """Count the rows of a batch, and add up a number of each, by cell and kind."""
    names, kind = coded(kinds)
    wide = max(len(names), 1)
    pairs, which = _renumbered(cells.cell * wide + kind[cells.used], cells.size * wide)
    rows = sums = np.bincount(which, minlength=len(pairs))
    if values is not None:
        sums = np.bincount(which, integers(values)[cells.used], len(pairs)).astype(np.int64)
    return _Total(cells.known_as(pairs // wide), _numbered(names, known)[pairs % wide], rows, sums)


def _of_minute(total: _Total, minute: int) -> _Total:
    here = np.flatnonzero(total.cells & _MINUTE_MASK == minute)
    return _Total(*(column[here] for column in total))


def _tally(total: _Total, cells: Ints, known: dict[str, int]) -> tuple[list[str], pa.Table]:
    """Return the kinds that occur, and TALLY with places among these cells and those kinds."""
    kinds = np.unique(total.kinds)
    names = list(known)
    made = {
        "place": pa.array(np.searchsorted(cells, total.cells)),
        "kind": pa.array(np.searchsorted(kinds, total.kinds)),
        "rows": pa.array(total.rows),
        "sum": pa.array(total.sums),
    }
    return [names[kind] for kind in kinds.tolist()], arrays.table_of(TALLY, made)


def _renumbered(numbers: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the different numbers, all below ``size``, and the place of each row's among them."""
    if size > DENSE * len(numbers):
        return arrays.numbered(numbers)
    there = np.bincount(numbers, minlength=size) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


class _Sums:
    """Adds up what was counted of batches. Many are added up at once."""

    AT_ONCE = 1 << 20

    def __init__(self) -> None:
        self._sum: _Total | None = None
        self._parts: list[_Total] = []
        self._waiting = 0

    def add(self, counted: _Total) -> None:
        self._parts.append(counted)
        self._waiting += len(counted.cells)
        if self._waiting > self.AT_ONCE:
            self.total()

    def total(self) -> _Total:
        if self._parts or self._sum is None:
            self._sum = _added([*([] if self._sum is None else [self._sum]), *self._parts])
            self._parts, self._waiting = [], 0
        return self._sum


class _Latencies:
    """How many exchanges of each cell took how long, sorted by both. Many take equally long, so an hour needs little
    memory even if it has millions; those that do not have small numbers.
    """

    AT_ONCE = 1 << 20

    def __init__(self) -> None:
        self._columns: list[list[Ints]] = [[], [], []]
        """Cells, latencies and counts, in parts. The first part is sorted, and so are the others."""
        self._waiting = 0

    def add(self, cells: Ints, latency: Ints) -> None:
        self._take(_counted([cells, latency, np.ones(len(cells), np.int32)]))
        self._waiting += len(self._columns[0][-1])
        # A longer total is made anew less often.
        if self._waiting > max(self.AT_ONCE, len(self._columns[0][0])):
            self.total()

    def total(self) -> tuple[Ints, Ints, Ints]:
        """Return cells, latencies and counts."""
        if len(self._columns[0]) != 1:
            columns = []
            for parts in self._columns:  # one by one: together they would be in memory twice
                columns.append(np.concatenate(parts or [np.zeros(0, np.int64)]))
                parts.clear()
            self._take(_counted(columns))
        self._waiting = 0
        cells, latency, counts = (parts[0] for parts in self._columns)
        return cells, latency, counts

    def bands(self) -> tuple[Ints, Ints]:
        """Return how many exchanges of each address are in each band: the number of the address above that of the band,
        and counts.
        """
        columns = self.total()
        pairs: Ints = np.zeros(0, np.int64)
        counts: Ints = np.zeros(0, np.int64)
        for start in range(0, len(columns[0]), self.AT_ONCE):
            cells, latency, many = (column[start : start + self.AT_ONCE] for column in columns)
            pairs = np.append(pairs, (cells >> _MINUTE_BITS << 32) + _bands(latency))
            counts = np.append(counts, many)
            pairs, place = np.unique(pairs, return_inverse=True)
            counts = np.bincount(place, counts).astype(np.int64)
        return pairs, counts

    def _take(self, columns: tuple[Ints, Ints, Ints]) -> None:
        for parts, column in zip(self._columns, columns, strict=True):
            parts.append(column)


def _counted(columns: list[Ints]) -> tuple[Ints, Ints, Ints]:
    """Return the different pairs of cell and latency, sorted, with the sums of their counts. ``columns`` is emptied:
    memory is given back as soon as it can be.
    """
    counts, latency, cells = columns.pop(), columns.pop(), columns.pop()
    if not len(cells):
        return cells, latency, counts
    low, least = int(cells.min()), int(latency.min())
    span = int(latency.max()) - least + 1
    if (int(cells.max()) - low + 1) * span < 1 << 62:
        keys = cells - low
        del cells
        keys *= span
        keys += latency
        keys -= least
        del latency
        order = np.argsort(keys)
        keys, counts = keys[order], counts[order]
        del order
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        keys = keys[first]
        return keys // span + low, _narrow(keys % span + least), np.add.reduceat(counts, first)
    order = np.lexsort((latency, cells))
    cells, latency, counts = cells[order], latency[order], counts[order]
    first = np.flatnonzero(np.append(True, (cells[1:] != cells[:-1]) | (latency[1:] != latency[:-1])))
    return cells[first], _narrow(latency[first]), np.add.reduceat(counts, first)


def _narrow(values: Ints) -> Ints:
    return values.astype(np.int32) if int(values.max(initial=0)) < 1 << 31 > -int(values.min(initial=0)) else values


def _added(parts: list[_Total]) -> _Total:
    if not parts:
        return _Total(*(np.zeros(0, np.int64) for _ in _Total._fields))
    cells, kinds, rows, sums = (np.concatenate(column) for column in zip(*parts, strict=True))
    wide = int(kinds.max(initial=0)) + 1
    cell, place = arrays.numbered(cells)
    pairs, which = arrays.numbered(place * wide + kinds)
    rows, sums = (np.bincount(which, one, len(pairs)).astype(np.int64) for one in (rows, sums))
    return _Total(cell[pairs // wide], pairs % wide, rows, sums)
