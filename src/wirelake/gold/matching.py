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
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..kernels.match_codes import (
    ANSWERED,
    ASKS,
    CLOSED,
    EARLY,
    EARLY_US,
    ENDS,
    FINE,
    LAST,
    LATE_US,
    NOBODY,
    OPENS,
    PIECE,
    RECENT,
    REPLIES,
    REPLY,
    UNEXPECTED_REPLY,
    UNMATCHED,
)
from ..spec.conduct import Conduct
from ..spec.conduct import Matching as MatchingConduct
from . import arrays
from .by_connection import integers
from .declarations import Declarations
from .facts import FED
from .indexed_rows import IndexedRows
from .losses import FOR_EVER
from .match_rows import NOTHING, REMEMBERED, FactColumns, Ints, Mask, Matches, MatchRows, walk
from .pieces import OPEN_GROUPS, Assembled, Assembler, PieceFaults
from .protocol_facts import ProtocolFacts, by_protocol

ANONYMOUS_REPLY = 4
"""Beside the faults of ``kernels.matching``: a reply that does not say which request it belongs to."""

_ADDED = (
    ("number", pa.int64()),
    ("part", pa.int8()),
    ("request", pa.int64()),
    ("bytes", pa.int64()),
    ("at", pa.int64()),
)
_READ = (
    *("capture", "connection", "direction", "offset", "length", "ts", "order", "message", "protocol", "address"),
    *("correlation", "status", "lane", "wants_reply", "limit_us", "result", "place", "version", "payload_hash"),
    *("audit_id", "masked_id", "execution", "xid_format", "gtrid", "bqual", "flags", "resource"),
)
MATCHED = pa.schema([*(FED.field(name).remove_metadata() for name in _READ), *_ADDED])
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
    remembered: pa.Table = field(default_factory=REMEMBERED.empty_table)
    early: pa.Table = field(default_factory=MATCHED.empty_table)
    pieces: pa.Table = field(default_factory=OPEN_GROUPS.empty_table)
    next_connection: int = 0
    next_number: int = 0


@dataclass
class Matched:
    """The facts of a feed with what was found out about them, by row."""

    facts: pa.Table
    parts: list[ProtocolFacts]
    first: int
    """The number of the first row."""
    part: NDArray[np.int8]
    request: Ints
    bytes: Ints
    fault: NDArray[np.int8]
    us: Ints
    since: Ints
    pieces: dict[str, PieceFaults]
    """By protocol; their rows are those of the protocol's facts."""
    late: pa.Table
    """Early replies of earlier feeds whose requests have come now."""

    def rows(self) -> pa.Table:
        """Return requests, replies that count, closes and audit copies, early replies of earlier feeds first."""
        keep = np.isin(self.part, (OPENS, REPLY, LAST, ENDS))
        keep |= arrays.flags(arrays.joined(pc.is_valid(self.facts.column("audit_id"))), len(self.facts))
        found = self.table(keep)
        late = arrays.where(self.late, integers(self.late, "part") != PIECE)
        return pa.concat_tables([late, found]) if len(late) else found

    def table(self, mask: Mask) -> pa.Table:
        """Return some rows as MATCHED."""
        added: dict[str, NDArray[Any]] = {
            "number": self.first + np.arange(len(self.facts)),
            "part": self.part,
            "request": self.request,
            "bytes": self.bytes,
            "at": self._effective_us(),
        }
        picked = arrays.where(self.facts.select(_READ), mask)
        columns = [*picked.columns, *(pa.array(added[name][mask], kind) for name, kind in _ADDED)]
        return pa.table(columns, MATCHED)

    def _effective_us(self) -> Ints:
        at = integers(self.facts, "ts").copy()
        early = np.flatnonzero(self.request > self.first + np.arange(len(at)))
        at[early] = at[self.request[early] - self.first]
        return at

    def take_pieces(self, facts: ProtocolFacts, assembled: Assembled) -> None:
        if assembled.faults is not None:
            self.pieces[facts.protocol] = assembled.faults
            self.bytes[facts.rows] = assembled.bytes

    def take(self, columns: FactColumns, used: Ints, found: Matches, old: int) -> None:
        """Take what a walk found about the used rows of one protocol; remembered rows come first in it."""
        rows = columns.facts.rows
        at = rows[used]
        self.part[rows[columns.is_request]] = OPENS
        self.part[at], self.request[at] = found.part[old:], found.request[old:]
        self.us[at], self.since[at] = found.us[old:], found.since[old:]
        fault = found.fault[old:]
        if fault.any():
            excused = ~columns.judged()[used] | ((fault == UNEXPECTED_REPLY) & columns.invented()[used])
            self.fault[at] = np.where(excused, FINE, fault)
        anonymous = rows[columns.anonymous()]
        self.fault[anonymous[self.request[anonymous] < 0]] = ANONYMOUS_REPLY

    @property
    def withdrawn(self) -> Ints:
        """The numbers of earlier rows that turned out to be no violations."""
        return integers(self.late, "number")


class Matching:
    """The step. ``carry`` is what an earlier one gave by ``carry()``; feeding it in parts gives the same result."""

    def __init__(self, carry: MatchingCarry | None = None, protocols: Declarations | None = None) -> None:
        carry = carry if carry is not None else MatchingCarry()
        self._protocols = protocols or Declarations()
        self._connections = carry.connections
        self._remembered: IndexedRows[MatchRows] = IndexedRows(MatchRows.where, MatchRows.joined, self._is_needed)
        remembered = MatchRows.from_table(carry.remembered)
        self._remembered.put(remembered, remembered.key)
        self._early = carry.early
        self._assembler = Assembler(carry.pieces)
        self._next_connection, self._next_number = carry.next_connection, carry.next_number

    def carry(self) -> MatchingCarry:
        self._remember(MatchRows.joined([NOTHING, *self._remembered.take_all()]))
        remembered = MatchRows.joined([NOTHING, *self._remembered.all()])
        pieces = self._assembler.carry()
        counts = (self._next_connection, self._next_number)
        return MatchingCarry(self._connections, remembered.to_table(), self._early, pieces, *counts)

    def feed(self, facts: pa.Table, ended: Mapping[str, int | None] | None = None) -> Matched:
        """Match facts that are sorted by connection, ts, order; ``ended`` are connections with the times of their
        ends."""
        size = facts.num_rows
        matched = Matched(
            facts,
            by_protocol(facts),
            self._next_number,
            np.zeros(size, np.int8),
            np.full(size, -1, np.int64),
            integers(facts, "length").copy(),
            np.zeros(size, np.int8),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            {},
            MATCHED.empty_table(),
        )
        for part in matched.parts:
            self._feed_protocol(part, matched)
        self._next_number += size
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
            if final or (one.ended_us is not None and one.ended_us + LATE_US < now):
                del self._connections[name]
        self._remember(MatchRows.joined([NOTHING, *self._remembered.take_all()]))
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
        used = np.flatnonzero(rows.role != NOBODY)
        new = rows.where(used)
        before = self._recall(new.key)
        found, kept = walk(before, new, conduct.matching)
        placed: _Placed | None = None
        if columns.placed.any():
            placed = self._match_by_place(columns, rows)
            while placed.take(new, found, len(before)):
                found, kept = walk(before, new, conduct.matching)
            kept = MatchRows.joined([kept.where(~np.isin(kept.number, placed.matched)), placed.kept])
        self._meet(before, found, matched)
        matched.take(columns, used, found, len(before))
        if placed is not None:
            placed.write(matched)
        early = kept.number[(kept.role == EARLY) & (kept.number >= matched.first)] - matched.first
        if len(early):
            self._early = pa.concat_tables([self._early, matched.table(_mask(matched, early))])
        return kept

    def _match_by_place(self, columns: FactColumns, rows: MatchRows) -> _Placed:
        by_place = columns.by_place(rows, np.flatnonzero(columns.placed & (columns.is_request | columns.is_reply)))
        return _Placed(columns, by_place, self._recall(by_place.key))

    def _meet(self, before: MatchRows, found: Matches, matched: Matched) -> None:
        """Find the early replies of earlier feeds whose requests have come."""
        old = len(before)
        met = np.flatnonzero((before.role == EARLY) & (found.part[:old] != UNMATCHED))
        if not len(met):
            return
        numbers = integers(self._early, "number")
        order = np.argsort(numbers)
        place = order[np.searchsorted(numbers, before.number[met], sorter=order)]
        rows = self._early.take(pa.array(place))
        at = integers(matched.facts, "ts")[found.request[met] - matched.first]
        for name, values in (("part", found.part[met]), ("request", found.request[met]), ("at", at)):
            one = rows.schema.field(name)
            rows = rows.set_column(rows.schema.get_field_index(name), one, pa.array(values, one.type))
        matched.late = pa.concat_tables([matched.late, rows])
        left = np.ones(len(self._early), np.bool_)
        left[place] = False
        self._early = arrays.where(self._early, left)

    # --- what is remembered

    def _recall(self, keys: Ints) -> MatchRows:
        """Take out what is remembered of these keys, in the order of time."""
        parts = self._remembered.take(keys) if len(self._remembered) else []
        recalled = MatchRows.joined([NOTHING, *parts])
        return recalled.where(np.argsort(recalled.number))

    def _remember(self, rows: MatchRows) -> None:
        needed = rows.where(self._is_needed(rows))
        self._remembered.put(needed, needed.key)

    def _is_needed(self, rows: MatchRows) -> Mask:
        """Say which rows the next facts of their connections can still be about."""
        known = [(one.number, one.replies, one.last_us) for one in self._connections.values()]
        numbers, replies, last = np.array([*known, (-1, 0, FOR_EVER)], np.int64).T
        order = np.argsort(numbers)
        place = order[np.minimum(np.searchsorted(numbers[order], rows.connection), len(order) - 1)]
        has_ended = np.isin(rows.role, (ANSWERED, CLOSED))
        is_recent = (replies[place] - rows.ordinal < RECENT) & (last[place] - rows.done_us <= LATE_US)
        needed = np.where(has_ended, is_recent, rows.until >= last[place])
        return np.asarray(needed & (numbers[place] == rows.connection), np.bool_)

    def _still_early(self, rows: pa.Table) -> pa.Table:
        if not len(rows):
            return rows
        names = arrays.joined(rows["connection"]).dictionary_encode()
        followed = [self._connections.get(name) for name in names.dictionary.to_pylist()]
        last = np.array([FOR_EVER if one is None else one.last_us for one in followed], np.int64)
        now = last[arrays.integers(names.indices)]
        return arrays.where(rows, integers(rows, "ts") >= now - EARLY_US).combine_chunks()


class _Placed:
    """Requests without an id, and errors that may belong to them, matched by the place they are about."""

    def __init__(self, columns: FactColumns, rows: MatchRows, before: MatchRows) -> None:
        self._columns, self._rows, self._before = columns, rows, before
        self._found: Matches | None = None
        self.kept = NOTHING
        self.matched: Ints = np.zeros(0, np.int64)
        """The numbers of the replies that found their requests."""

    def take(self, new: MatchRows, found: Matches, old: int) -> bool:
        """Match the replies that the first walk left over. A reply that finds its request here is no longer early:
        say whether the first walk has to be repeated because it took one for early."""
        is_early = found.request[old:] > new.number
        is_stray = (new.role == REPLIES) & ((found.fault[old:] == UNEXPECTED_REPLY) | is_early)
        candidates = np.isin(self._rows.number, new.number[is_stray]) | (self._rows.role == ASKS)
        self._chosen = self._rows.where(candidates)
        self._found, self.kept = walk(self._before, self._chosen, _PLAIN)
        self.matched = self._chosen.number[self._found.part[len(self._before) :] == LAST]
        again = is_early & np.isin(new.number, self.matched)
        new.until[again] = new.ts[again] - 1
        return bool(again.any())

    def write(self, matched: Matched) -> None:
        assert self._found is not None
        old = len(self._before)
        done = np.flatnonzero(self._found.part[old:] == LAST)
        rows = self._chosen.number[done] - matched.first
        matched.part[rows], matched.request[rows], matched.fault[rows] = LAST, self._found.request[old + done], FINE


_PLAIN = MatchingConduct()


def _mask(matched: Matched, rows: Ints) -> Mask:
    mask = np.zeros(len(matched.facts), np.bool_)
    mask[rows] = True
    return mask


def _ordinals(facts: ProtocolFacts, is_reply: Mask, followed: Iterable[Followed]) -> Ints:
    """Count the replies of each connection; a row that is none has the number of those before it."""
    counted = np.cumsum(is_reply)
    before = np.concatenate([[0], counted])[facts.runs.starts[:-1]]
    known = np.array([one.replies for one in followed], np.int64)
    return np.asarray(counted + facts.runs.spread(known - before), np.int64)
