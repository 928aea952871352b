"""The one matcher: which reply belongs to which request. Exchanges, violations and transactions only read its result.

A key is the connection, the asking side, the correlation and the declared reply; of a stream it is its number, and its
sides and lanes count for themselves. ``kernels.matching`` walks the rows of each key in the order of time:

- A reply belongs to the latest open request of its key: a peer refuses a duplicate before it replies to the original.
  Without a correlation it belongs to the oldest.
- A request is open until a reply ends it, or its requester closes it, or its window has passed: its limit, and as long
  again but at least a minute. Without a limit it is open as long as its connection.
- A reply without a request is *early* for EARLY_US, because captures may show packets out of order. If its request
  comes by then, they match.
- After that it is an ``unexpected_reply``; within LATE_US and RECENT replies of a request that has ended, a
  ``duplicate_reply``. After a close, replies may still be under way.
- A request repeated while it is open is a ``duplicate_request`` and counts for itself, unless the protocol allows it:
  then it continues the open one. Another request with the number of a stream ends the stream.
- An error under an id that nobody used belongs to the latest request without an id to the same place, for a minute.

All of this goes by the times of messages alone: any cut of the facts into feeds gives the same result. What is
remembered is bounded: a request until its window has passed, one that has ended for LATE_US and RECENT replies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernels import match_codes as codes
from ..spec.conduct import Conduct
from ..spec.conduct import Matching as MatchingConduct
from . import arrays, match_rows
from .arrays import FOR_EVER, Ints, Mask, integers, valid
from .declarations import Declarations
from .fact_groups import ProtocolFacts, by_protocol
from .facts import FED
from .indexed_rows import IndexedRows
from .match_rows import FactColumns, MatchRows, concatenated, walk
from .pieces import OPEN_GROUPS, Assembled, Assembler, PieceFaults

ANONYMOUS_REPLY = 4
"""Beside the faults of ``kernels.matching``: a reply that does not say which request it belongs to."""

_ADDED = {"number": pa.int64(), "part": pa.int8(), "request": pa.int64(), "bytes": pa.int64(), "at": pa.int64()}
_READ = (
    *("capture", "connection", "direction", "offset", "length", "ts", "order", "message", "protocol", "address"),
    *("correlation", "status", "lane", "wants_reply", "limit_us", "result", "place", "version", "payload_hash"),
    *("audit_id", "masked_id", "execution", "xid_format", "gtrid", "bqual", "flags", "resource"),
)
MATCHED = pa.schema([*(FED.field(name).remove_metadata() for name in _READ), *_ADDED.items()])
"""Facts of requests and their replies. ``number`` counts all facts of the bucket; ``part`` is what the row is (see
``kernels.match_codes``) to the request with the number ``request``, ``bytes`` the length of all pieces of a message,
``at`` the time at which it takes effect: for an early reply, that of its request."""


@dataclass
class Followed:
    """A connection. ``replies`` counts those seen so far, ``last_us`` is the time of its last fact."""

    number: int
    replies: int = 0
    last_us: int = 0
    ended_us: int | None = None


@dataclass
class MatchingCarry:
    connections: dict[str, Followed] = field(default_factory=dict)
    remembered: pa.Table = field(default_factory=lambda: arrays.empty(match_rows.REMEMBERED))
    early: pa.Table = field(default_factory=lambda: arrays.empty(MATCHED))
    pieces: pa.Table = field(default_factory=lambda: arrays.empty(OPEN_GROUPS))
    next_connection: int = 0
    next_number: int = 0


class Matched:
    """The facts of a feed with what was found out about them, by row."""

    def __init__(self, facts: pa.Table, first: int) -> None:
        size = facts.num_rows
        self.facts = facts
        self.parts: list[ProtocolFacts] = by_protocol(facts)
        self.first = first
        """The number of the first row."""
        self.part: NDArray[np.int8] = np.zeros(size, np.int8)
        self.request: Ints = np.full(size, -1, np.int64)
        self.bytes = integers(facts["length"]).copy()
        self.fault: NDArray[np.int8] = np.zeros(size, np.int8)
        self.us: Ints = np.zeros(size, np.int64)
        self.since: Ints = np.zeros(size, np.int64)
        self.pieces: dict[str, PieceFaults] = {}
        """By protocol; their rows are those of the protocol's facts."""
        self.late = arrays.empty(MATCHED)
        """Early replies of earlier feeds whose requests have come now."""

    def rows(self) -> pa.Table:
        """Return requests, replies that count, closes and audit copies, early replies of earlier feeds first."""
        keep = np.isin(self.part, (codes.OPENS, codes.REPLY, codes.LAST, codes.ENDS))
        found = self.table(keep | valid(self.facts["audit_id"]))
        late = arrays.where(self.late, integers(self.late["part"]) != codes.PIECE)
        return pa.concat_tables([late, found]) if len(late) else found

    def table(self, mask: Mask) -> pa.Table:
        """Return some rows as MATCHED."""
        number = self.first + np.arange(len(self.facts))
        added: tuple[NDArray[Any], ...] = (number, self.part, self.request, self.bytes, self._effective_us())
        columns = {name: pa.array(column[mask]) for name, column in zip(_ADDED, added, strict=True)}
        return arrays.table_of(MATCHED, columns, arrays.where(self.facts.select(_READ), mask))

    def _effective_us(self) -> Ints:
        at = integers(self.facts["ts"]).copy()
        early = np.flatnonzero(self.request > self.first + np.arange(len(at)))
        at[early] = at[self.request[early] - self.first]
        return at

    def take_pieces(self, facts: ProtocolFacts, assembled: Assembled) -> None:
        if assembled.faults is not None:
            self.pieces[facts.protocol] = assembled.faults
            self.bytes[facts.rows] = assembled.bytes

    def take(self, columns: FactColumns, found: MatchRows) -> None:
        """Take what a walk found about the rows of one protocol."""
        rows = columns.facts.rows
        self.part[rows], self.request[rows] = found.part, found.request
        self.part[rows[columns.is_request & ~columns.wants_reply]] = codes.OPENS
        fault = found.fault
        if fault.any():
            self.us[rows], self.since[rows] = found.us, found.since
            excused = ~columns.judged() | ((fault == codes.UNEXPECTED_REPLY) & columns.invented())
            self.fault[rows] = np.where(excused, codes.FINE, fault)
        anonymous = rows[columns.anonymous()]
        self.fault[anonymous[self.request[anonymous] < 0]] = ANONYMOUS_REPLY

    @property
    def withdrawn(self) -> Ints:
        """The numbers of earlier rows that turned out to be no violations."""
        return integers(self.late["number"])


class Matching:
    """The step. ``carry`` is what an earlier one gave by ``carry()``; feeding it in parts gives the same result."""

    def __init__(self, carry: MatchingCarry | None = None, protocols: Declarations | None = None) -> None:
        carry = carry if carry is not None else MatchingCarry()
        self._protocols = protocols or Declarations()
        self._connections = carry.connections
        self._remembered: IndexedRows[MatchRows] = IndexedRows(
            lambda rows, mask: rows.compress(mask), concatenated, self._is_needed
        )
        remembered = match_rows.from_table(carry.remembered)
        self._remembered.put(remembered, remembered.key)
        self._early = carry.early
        self._assembler = Assembler(carry.pieces)
        self._next_connection, self._next_number = carry.next_connection, carry.next_number

    def carry(self) -> MatchingCarry:
        self._forget()
        remembered = match_rows.to_table(concatenated(self._remembered.all()))
        pieces = self._assembler.carry()
        counts = (self._next_connection, self._next_number)
        return MatchingCarry(self._connections, remembered, self._early, pieces, *counts)

    def feed(self, facts: pa.Table, ended: Mapping[str, int | None] | None = None) -> Matched:
        """Match facts that are sorted by connection, ts, order; ``ended`` are connections with the times of their
        ends."""
        matched = Matched(facts, self._next_number)
        for part in matched.parts:
            self._feed_protocol(part, matched)
        self._next_number += facts.num_rows
        for name, at in (ended or {}).items():
            if name in self._connections:
                self._connections[name].ended_us = at or 0
        return matched

    def settle(
        self, watermark: int, final: bool = False, known_until: Callable[[str], int | None] | None = None
    ) -> None:
        """Forget what no later fact can be about; everything up to ``watermark`` (microseconds) was fed, of some
        connections only up to ``known_until``."""
        for name in list(self._connections):
            one = self._connections[name]
            known = known_until(name) if known_until is not None else None
            now = watermark if known is None else min(known, watermark)
            one.last_us = max(one.last_us, now)
            if final or (one.ended_us is not None and one.ended_us + codes.LATE_US < now):
                del self._connections[name]
        self._forget()
        self._early = self._still_early(self._early)
        self._assembler.forget({one.number: one.last_us for one in self._connections.values()})

    # --- one protocol's share of the facts

    def _feed_protocol(self, facts: ProtocolFacts, matched: Matched) -> None:
        conduct = self._protocols.conduct(facts.protocol)
        followed = [self._follow(name) for name in facts.runs.names]
        connection = facts.runs.spread([one.number for one in followed]).astype(np.int32)
        assembled = self._assembler.feed(facts, connection, conduct.pieces)
        matched.take_pieces(facts, assembled)
        columns = FactColumns(facts, conduct)
        ordinal = _ordinals(facts, columns.is_reply & ~columns.is_control, followed)
        if columns.step.any():
            rows = columns.rows(assembled.whole, connection, ordinal, matched.first + facts.rows)
            kept = self._match(columns, rows, conduct, matched)
        for one, end in zip(followed, facts.runs.starts[1:].tolist(), strict=True):
            one.replies, one.last_us = int(ordinal[end - 1]), int(facts.ts[end - 1])
        if columns.step.any():
            self._remember(kept)
            self._early = self._still_early(self._early)

    def _follow(self, name: str) -> Followed:
        known = self._connections.get(name)
        if known is None:
            known = self._connections[name] = Followed(self._next_connection)
            self._next_connection += 1
        return known

    def _match(self, columns: FactColumns, rows: MatchRows, conduct: Conduct, matched: Matched) -> MatchRows:
        """Write what is found into ``matched``; return what to remember."""
        before = self._recall(rows.key)
        found, kept = walk(before, rows, conduct.matching)
        placed: _Placed | None = None
        if columns.placed.any():
            placed = self._match_by_place(columns, rows)
            while placed.take(rows, found, len(before)):
                found, kept = walk(before, rows, conduct.matching)
            kept = concatenated([kept.compress(~np.isin(kept.number, placed.matched)), placed.kept])
        self._meet(before, found, matched)
        matched.take(columns, found[len(before) :])
        if placed is not None:
            placed.write(matched)
        early = kept.number[(kept.role == codes.EARLY) & (kept.number >= matched.first)] - matched.first
        if len(early):
            is_early = np.isin(np.arange(len(matched.facts)), early)
            self._early = pa.concat_tables([self._early, matched.table(is_early)])
        return kept

    def _match_by_place(self, columns: FactColumns, rows: MatchRows) -> _Placed:
        by_place = columns.by_place(rows, np.flatnonzero(columns.placed & (columns.is_request | columns.is_reply)))
        return _Placed(by_place, self._recall(by_place.key))

    def _meet(self, before: MatchRows, found: MatchRows, matched: Matched) -> None:
        """Find the early replies of earlier feeds whose requests have come."""
        old = len(before)
        met = np.flatnonzero((before.role == codes.EARLY) & (found.part[:old] != codes.UNMATCHED))
        if not len(met):
            return
        place = arrays.places(integers(self._early["number"]), before.number[met])
        at = integers(matched.facts["ts"])[found.request[met] - matched.first]
        columns = {"part": found.part[met].astype(np.int8), "request": found.request[met], "at": at}
        rows = self._early.take(pa.array(place))
        rows = arrays.replaced(rows, {name: pa.array(values) for name, values in columns.items()})
        matched.late = pa.concat_tables([matched.late, rows])
        left = np.ones(len(self._early), np.bool_)
        left[place] = False
        self._early = arrays.where(self._early, left)

    # --- what is remembered

    def _recall(self, keys: Ints) -> MatchRows:
        """Take out what is remembered of these keys, in the order of time."""
        recalled = concatenated(self._remembered.take(keys) if len(self._remembered) else [])
        return recalled.take(np.argsort(recalled.number))

    def _forget(self) -> None:
        rows = self._remembered.take_all()
        if self._connections:
            self._remember(concatenated(rows))

    def _remember(self, rows: MatchRows) -> None:
        needed = rows.compress(self._is_needed(rows))
        self._remembered.put(needed, needed.key)

    def _is_needed(self, rows: MatchRows) -> Mask:
        """Say which rows the next facts of their connections can still be about."""
        known = [(one.number, one.replies, one.last_us) for one in self._connections.values()]
        numbers, replies, last = np.array([*known, (-1, 0, FOR_EVER)], np.int64).T
        order = np.argsort(numbers)
        place = order[np.minimum(np.searchsorted(numbers[order], rows.connection), len(order) - 1)]
        has_ended = (rows.role == codes.ANSWERED) | (rows.role == codes.CLOSED)
        is_recent = (replies[place] - rows.ordinal < codes.RECENT) & (last[place] - rows.done_us <= codes.LATE_US)
        needed = np.where(has_ended, is_recent, rows.until >= last[place])
        return np.asarray(needed & (numbers[place] == rows.connection), np.bool_)

    def _still_early(self, rows: pa.Table) -> pa.Table:
        if not len(rows):
            return rows

        def last_us(name: str) -> int:
            return self._connections[name].last_us if name in self._connections else FOR_EVER

        now = arrays.by_text(rows["connection"], last_us)
        return arrays.where(rows, integers(rows["ts"]) >= now - codes.EARLY_US).combine_chunks()


class _Placed:
    """Requests without an id, and errors that may belong to them, matched by the place they are about."""

    def __init__(self, rows: MatchRows, before: MatchRows) -> None:
        self._rows, self._before = rows, before
        self.kept = concatenated([])
        self.matched: Ints = np.zeros(0, np.int64)
        """The numbers of the replies that found their requests."""
        self._requests: Ints = np.zeros(0, np.int64)

    def take(self, new: MatchRows, found: MatchRows, old: int) -> bool:
        """Match the replies that the first walk left over. A reply that finds its request here is no longer early:
        say whether the first walk has to be repeated because it took one for early."""
        is_early = found.request[old:] > new.number
        is_stray = (new.role == codes.REPLIES) & ((found.fault[old:] == codes.UNEXPECTED_REPLY) | is_early)
        candidates = np.isin(self._rows.number, new.number[is_stray]) | (self._rows.role == codes.ASKS)
        chosen = self._rows.compress(candidates)
        found_here, self.kept = walk(self._before, chosen, _PLAIN)
        done = found_here[len(self._before) :].part == codes.LAST
        self.matched, self._requests = chosen.number[done], found_here[len(self._before) :].request[done]
        again = is_early & np.isin(new.number, self.matched)
        new.until[again] = new.ts[again] - 1
        return bool(again.any())

    def write(self, matched: Matched) -> None:
        rows = self.matched - matched.first
        matched.part[rows], matched.request[rows], matched.fault[rows] = codes.LAST, self._requests, codes.FINE


_PLAIN = MatchingConduct()


def _ordinals(facts: ProtocolFacts, is_reply: Mask, followed: Iterable[Followed]) -> Ints:
    """Count the replies of each connection; a row that is none has the number of those before it."""
    counted = np.cumsum(is_reply)
    before = np.concatenate([[0], counted])[facts.runs.starts[:-1]]
    known = np.array([one.replies for one in followed], np.int64)
    return np.asarray(counted + facts.runs.spread(known - before), np.int64)
