"""Requests and answers at the wrong moment: an answer that nobody asked for, a second one, a request made twice.

Rows are sorted by their key, so that what may belong together is adjacent, in the order of time. A request with the
answers it may have, and nothing else, is found by array arithmetic; every other run of rows is walked through.

What is remembered is bounded by rules that depend on the messages alone, so that any cut of the traffic gives the same
result: a request until its limit, and as long again but at least LATE_US, has passed (without a limit, while its
connection lasts); one that has ended for LATE_US and for the next RECENT answers of its connection. An answer that
comes later than that is one that nobody asked for.

Captures may show packets out of their order. So an answer without a request is *early* for EARLY_US: if its request
comes by then, it is the answer to that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LATE_US = 60_000_000
RECENT = 1024
EARLY_US = 5_000_000
FOR_EVER = np.iinfo(np.int64).max

UNEXPECTED_REPLY, DUPLICATE_REQUEST, DUPLICATE_REPLY = "unexpected_reply", "duplicate_request", "duplicate_reply"

Ints = NDArray[np.int64]

# What a row is to its key. The last four are kept from before: requests that are open, that were ended by an answer, by
# the requester; and answers that are early.
NONE, ASKS, ANSWERS, ENDS, CLOSES, OPEN, ANSWERED, CLOSED, EARLY = range(9)

KEPT = np.dtype(
    [
        ("who", "i4"),
        ("key", "u8"),
        ("role", "i1"),
        ("code", "i4"),
        ("pair", "i4"),
        ("lane", "i1"),
        ("ts", "i8"),
        ("until", "i8"),
        ("done_us", "i8"),
        ("ordinal", "i8"),
    ]
)
"""A request that is remembered. ``who`` is the number of its connection; ``key`` has it, the asking side and the
correlation in it. ``ordinal`` counts the answers of its connection when it ended. Of an early answer, ``ordinal`` is
its number, ``until`` when it will be too late, and ``done_us`` is not 0 if it would end its request."""


@dataclass(frozen=True)
class Manners:
    """What is allowed where the declaration of a protocol cannot say it; codes of messages."""

    repeatable: frozenset[int] = frozenset()
    """Requests that may be made again while they are open: they go on with what they began."""
    shared: bool = False
    """Several open requests may have the same correlation."""
    inventing_side: int | None = None
    """The side whose error answers may carry an id that it made itself, so that they need not fit a request."""
    instead: frozenset[tuple[int, int]] = frozenset()
    """(declared answer, another message that known peers send in its place)."""


MANNERS = {
    "casual": Manners(instead=frozenset({(6201, 6101)})),
    "dsa": Manners(repeatable=frozenset({0x01, 0x03})),
    "mb": Manners(shared=True, inventing_side=1),
}
PLAIN = Manners()


class Finding(NamedTuple):
    row: int
    rule: str
    detail: str


class Checked(NamedTuple):
    findings: list[Finding]
    kept: NDArray[Any]
    met: list[int]
    """Numbers of early answers whose request has come."""


@dataclass
class Rows:
    """What is kept comes first, then the new rows in the order of time."""

    kept: NDArray[Any]
    key: NDArray[np.uint64]
    role: NDArray[np.int8]
    code: Ints
    pair: Ints
    lane: Ints
    ts: Ints
    until: Ints
    ordinal: Ints
    who: NDArray[np.int32]
    side: NDArray[np.int8]
    """Of the new rows only, as the next: who sent it."""
    invented: NDArray[np.bool_]
    """Its id may be made up by its sender."""
    number: Ints
    """Early answers are known by it, also after a cut."""

    @property
    def shift(self) -> int:
        return len(self.kept)


@dataclass
class Losses:
    """Spans of time in which bytes of one direction of a connection were missing or unreadable, in their order.

    ``from_start``: something was lost before anything that can be asked about, if only the beginning.
    """

    from_start: bool = False
    spans: list[tuple[int, int]] = field(default_factory=list)
    new: list[tuple[int, int]] = field(default_factory=list)
    """Those since the last feed."""

    def add(self, start: int, end: int) -> None:
        self.spans.append((start, max(start, end)))
        self.new.append(self.spans[-1])

    def covers(self, ts: int) -> bool:
        return self.between(ts - 1, ts)

    def before(self, ts: int) -> bool:
        return self.from_start or (bool(self.spans) and self.spans[0][0] <= ts)

    def between(self, start: int, end: int) -> bool:
        """Spans are in the order of their beginnings and of their ends."""
        last = bisect_right(self.spans, (end, FOR_EVER)) - 1
        return last >= 0 and self.spans[last][1] > start

    def forget(self) -> None:
        """All rows so far are judged: of the losses, that there were some and the last one still matter."""
        self.from_start = self.from_start or bool(self.spans)
        del self.spans[:-1], self.new[:]


def check(rows: Rows, manners: Manners, losses: dict[int, tuple[Losses, Losses]]) -> Checked:
    """What is wrong, by place of the new row, and what to keep."""
    order = np.argsort(rows.key, kind="stable")
    starts = _starts(rows.key[order])
    plain, kept = _plain(rows, order, starts)
    findings: list[Finding] = []
    met: list[int] = []
    again: list[tuple[Any, ...]] = []
    lengths = np.diff(np.append(starts, len(order)))
    for start, length in zip(starts[~plain].tolist(), lengths[~plain].tolist(), strict=True):
        members = order[start : start + length]
        walk = _Walk(rows, manners, losses[int(rows.who[members[0]])])
        findings += walk.through(members.tolist())
        again += walk.kept()
        met += walk.met
    return Checked(findings, np.concatenate([kept, np.array(again, KEPT)]) if again else kept, met)


def _starts(key: NDArray[np.uint64]) -> Ints:
    if not len(key):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))


def _plain(rows: Rows, order: Ints, starts: Ints) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which runs are one request and its answers, all in time and none behind the end; and what to keep of those."""
    if not len(order):
        return np.zeros(0, np.bool_), np.zeros(0, KEPT)
    role = rows.role[order]
    lengths = np.diff(np.append(starts, len(order)))
    first = order[starts]
    last = order[starts + lengths - 1]
    asks = (role == ASKS) | (role == OPEN)
    ends = (role == ENDS) | (role == CLOSES)
    asked = np.repeat(first, lengths)
    wrong = (rows.pair[order] != rows.pair[asked]) | (rows.lane[order] != rows.lane[asked])
    wrong &= (role == ANSWERS) | (role == ENDS)
    wrong |= (rows.ts[order] > rows.until[asked]) | (role > OPEN)
    is_end = np.isin(rows.role[last], (ENDS, CLOSES))
    n_ends = np.add.reduceat(ends.astype(np.int64), starts)
    plain = asks[starts] & (np.add.reduceat(asks.astype(np.int64), starts) == 1)
    plain &= ~np.logical_or.reduceat(wrong, starts) & (n_ends == is_end)
    # What only lies there from before and met nothing stays as it is.
    untouched = (lengths == 1) & (rows.role[first] > OPEN)
    kept = _kept(rows, first[plain], last[plain], is_end[plain])
    return plain | untouched, np.concatenate([kept, rows.kept[first[untouched]]])


def _kept(rows: Rows, first: Ints, last: Ints, ended: NDArray[np.bool_]) -> NDArray[Any]:
    kept = np.zeros(len(first), KEPT)
    kept["who"], kept["key"], kept["code"] = rows.who[first], rows.key[first], rows.code[first]
    kept["pair"], kept["lane"], kept["ts"], kept["until"] = (
        rows.pair[first],
        rows.lane[first],
        rows.ts[first],
        rows.until[first],
    )
    kept["role"] = np.where(ended, np.where(rows.role[last] == CLOSES, CLOSED, ANSWERED), OPEN)
    kept["done_us"], kept["ordinal"] = np.where(ended, rows.ts[last], 0), np.where(ended, rows.ordinal[last], 0)
    return kept


class _Known:
    """A request that the walk knows."""

    __slots__ = ("code", "done_us", "lane", "ordinal", "pair", "role", "ts", "until")

    def __init__(
        self, role: int, code: int, pair: int, lane: int, ts: int, until: int, done_us: int = 0, ordinal: int = 0
    ) -> None:
        self.role, self.code, self.pair, self.lane = role, code, pair, lane
        self.ts, self.until, self.done_us, self.ordinal = ts, until, done_us, ordinal


class _Walk:
    """Goes through all rows of one key in the order of time."""

    def __init__(self, rows: Rows, manners: Manners, losses: tuple[Losses, Losses]) -> None:
        self.rows = rows
        self.manners = manners
        self.losses = losses
        self.known: list[_Known] = []
        self.met: list[int] = []

    def through(self, members: list[int]) -> Iterator[Finding]:
        rows = self.rows
        self.who, self.key = int(rows.who[members[0]]), int(rows.key[members[0]])
        for i in members:
            role, code, pair, lane = int(rows.role[i]), int(rows.code[i]), int(rows.pair[i]), int(rows.lane[i])
            ts, ordinal = int(rows.ts[i]), int(rows.ordinal[i])
            if i < rows.shift:
                one = rows.kept[i]
                self.known.append(
                    _Known(role, code, pair, lane, ts, int(rows.until[i]), int(one["done_us"]), int(one["ordinal"]))
                )
                continue
            side = int(rows.side[i - rows.shift])
            found = None
            if role == ASKS:
                found = self._asked(_Known(OPEN, code, pair, lane, ts, int(rows.until[i]), 0, ordinal), side)
            elif role == CLOSES:
                self._closed(ts, ordinal)
            else:
                invented = bool(rows.invented[i - rows.shift])
                found = self._answered(role, code, pair, lane, ts, ordinal, side, invented)
            if found is not None:
                yield Finding(i - rows.shift, *found)
                if found[0] == UNEXPECTED_REPLY:
                    number = int(rows.number[i - rows.shift])
                    self.known.append(_Known(EARLY, code, pair, lane, ts, ts + EARLY_US, int(role == ENDS), number))

    def kept(self) -> list[tuple[Any, ...]]:
        return [
            (self.who, self.key, o.role, o.code, o.pair, o.lane, o.ts, o.until, o.done_us, o.ordinal)
            for o in self.known
        ]

    def _asked(self, new: _Known, side: int) -> tuple[str, str] | None:
        self._meet(new)
        others = [o for o in self.known if o.lane != new.lane]
        same = [o for o in self.known if o.lane == new.lane]
        others += [o for o in same if o.role == EARLY]
        open_ones = [o for o in same if o.role == OPEN and new.ts <= o.until]
        if self.manners.shared:
            self.known.append(new)
        elif not open_ones:
            self.known = [*others, new]
        elif new.code in self.manners.repeatable and open_ones[-1].code == new.code:
            pass
        elif self.losses[1 - side].between(open_ones[-1].ts, new.ts):
            # Its answer may be among what was lost.
            self.known = [*others, new]
        else:
            # It may be answered too, if only by an error.
            self.known.append(new)
            waited = (new.ts - open_ones[-1].ts) / 1e6
            return DUPLICATE_REQUEST, f"a request with this correlation has been open for {waited:.6f} s"
        return None

    def _meet(self, new: _Known) -> None:
        """Early answers have found their request."""
        early = [o for o in self.known if o.role == EARLY]
        mine = [o for o in early if new.ts <= o.until and self._fits(new, o.code, o.pair, o.lane)]
        self.known = [o for o in self.known if o not in mine and (o.role != EARLY or new.ts <= o.until)]
        self.met += [o.ordinal for o in mine]
        if any(o.done_us for o in mine):
            new.role, new.done_us = ANSWERED, new.ts

    def _closed(self, ts: int, ordinal: int) -> None:
        """A close ends the stream of lane 0, else the one of another lane."""
        for one in sorted((o for o in self.known if o.role == OPEN), key=lambda o: o.lane)[:1]:
            one.role, one.done_us, one.ordinal = CLOSED, ts, ordinal

    def _answered(
        self, role: int, code: int, pair: int, lane: int, ts: int, ordinal: int, side: int, invented: bool
    ) -> tuple[str, str] | None:
        fitting = [o for o in self.known if self._fits(o, code, pair, lane)]
        waiting = [o for o in fitting if o.role == OPEN and ts <= o.until]
        if waiting:
            if role == ENDS:
                one = waiting[0]
                one.role, one.done_us, one.ordinal = ANSWERED, ts, ordinal
            return None
        ended = [
            o
            for o in fitting
            if o.role in (ANSWERED, CLOSED) and ts - o.done_us <= LATE_US and ordinal - o.ordinal <= RECENT
        ]
        if any(o.role == CLOSED for o in ended):
            # It was under way when the requester closed.
            return None
        lost = self.losses[1 - side]
        if ended:
            if lost.between(ended[-1].ts, ts):
                return None
            ago = (ts - ended[-1].done_us) / 1e6
            return DUPLICATE_REPLY, f"the request with this correlation was answered for good {ago:.6f} s before"
        if invented or lost.before(ts):
            return None
        return UNEXPECTED_REPLY, "no request with this correlation is open"

    def _fits(self, one: _Known, code: int, pair: int, lane: int) -> bool:
        return one.lane == lane and (one.pair == pair or (one.pair, code) in self.manners.instead)
