"""Requests and answers at the wrong moment: an answer that nobody asked for, a second one, a request made twice.

Rows are sorted by their key, so that what may belong together is adjacent, in the order of time. A request with the
answers it may have, and nothing else, is found by array arithmetic; so is what a whole capture may be full of: requests
that are made again and again, answers without any request, answers that come twice. Every other run of rows is walked
through.

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

from .violation_rows import DUPLICATE_REPLY, DUPLICATE_REQUEST, UNEXPECTED_REPLY

LATE_US = 60_000_000
RECENT = 1024
EARLY_US = 5_000_000
FOR_EVER = np.iinfo(np.int64).max
BLOCK = 4096
"""Of what is walked through, so much is kept as Python objects."""

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

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


class Checked(NamedTuple):
    rule: NDArray[np.int8]
    """Of each new row, as the next."""
    us: Ints
    """The time that the sentence of its rule is about."""
    kept: NDArray[Any]
    met: Ints
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
        return self.first_us() <= ts

    def first_us(self) -> int:
        """Since when something may be lost."""
        return -FOR_EVER if self.from_start else self.spans[0][0] if self.spans else FOR_EVER

    def between(self, start: int, end: int) -> bool:
        """Spans are in the order of their beginnings and of their ends."""
        last = bisect_right(self.spans, (end, FOR_EVER)) - 1
        return last >= 0 and self.spans[last][1] > start

    def forget(self) -> None:
        """All rows so far are judged: of the losses, that there were some and the last one still matter."""
        self.from_start = self.from_start or bool(self.spans)
        del self.spans[:-1], self.new[:]


def check(rows: Rows, manners: Manners, losses: dict[int, tuple[Losses, Losses]]) -> Checked:
    """What is wrong, and what to keep."""
    order = np.argsort(rows.key, kind="stable")
    starts = _starts(rows.key[order])
    plain, kept = _plain(rows, order, starts)
    size = len(order) - rows.shift
    found = Checked(np.zeros(size, np.int8), np.zeros(size, np.int64), kept, np.zeros(0, np.int64))
    return found if plain.all() else _check_odd(rows, manners, losses, _Runs(order, starts).where(~plain), found)


def _check_odd(
    rows: Rows, manners: Manners, losses: dict[int, tuple[Losses, Losses]], runs: _Runs, found: Checked
) -> Checked:
    kept, lost = [found.kept], _Lost(losses)
    for judge in (_asked_again, _unasked, _answered_again):
        if len(runs):
            done, keep = judge(rows, manners, lost, runs, found)
            kept.append(keep)
            runs = runs.where(~done)
    met: list[int] = []
    again: list[tuple[Any, ...]] = []
    for members in runs:
        walk = _Walk(rows, manners, losses[int(rows.who[members[0]])])
        for row, rule, us in walk.through(members.tolist()):
            found.rule[row], found.us[row] = rule, us
        again += walk.kept()
        met += walk.met
        if len(again) >= BLOCK:
            kept.append(np.array(again, KEPT))
            again = []
    return found._replace(kept=np.concatenate([*kept, np.array(again, KEPT)]), met=np.array(met, np.int64))


class _Lost:
    """What is known of losses, for many rows at once."""

    def __init__(self, losses: dict[int, tuple[Losses, Losses]]) -> None:
        self._who = np.array(sorted(losses), np.int32)
        both = [losses[who] for who in self._who.tolist()]
        self._some = np.array([bool(one.spans or other.spans) for one, other in both], np.bool_)
        self._first = np.array([[lost.first_us() for lost in one] for one in both], np.int64).reshape(len(both), 2)

    def some(self, who: NDArray[np.int32]) -> Mask:
        """Whether a connection has a loss that lies between two messages it may be asked about."""
        return np.asarray(self._some[np.searchsorted(self._who, who)], np.bool_)

    def before(self, who: NDArray[np.int32], side: NDArray[np.int8], ts: Ints) -> Mask:
        return np.asarray(self._first[np.searchsorted(self._who, who), side] <= ts, np.bool_)


class _Runs:
    """Rows by their keys."""

    def __init__(self, members: Ints, starts: Ints) -> None:
        self.members = members
        self.starts = starts
        self.lengths = np.diff(np.append(starts, len(members)))

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[Ints]:
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield self.members[start : start + length]

    def where(self, wanted: Mask) -> _Runs:
        if wanted.all():
            return self
        lengths = self.lengths[wanted]
        return _Runs(self.members[self.spread(wanted)], np.cumsum(lengths) - lengths)

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(values, self.lengths)

    def all(self, mask: Mask) -> Mask:
        return np.asarray(np.logical_and.reduceat(mask, self.starts), np.bool_)

    @property
    def first(self) -> Ints:
        """The first row of its run, for each row."""
        return self.spread(self.members[self.starts])

    @property
    def is_first(self) -> Mask:
        found = np.zeros(len(self.members), np.bool_)
        found[self.starts] = True
        return found


Judged = tuple[Mask, NDArray[Any]]
"""The runs that are settled, and what is kept of them."""


def _asked_again(rows: Rows, manners: Manners, lost: _Lost, runs: _Runs, found: Checked) -> Judged:
    """Requests only, each while the one before is open. They may be answered too, if only by an error."""
    members = runs.members
    role, ts = rows.role[members], rows.ts[members]
    before = np.concatenate([members[:1], members[:-1]])
    again = (members >= rows.shift) & ~runs.is_first
    fits = (role == ASKS) | (role == OPEN)
    if not manners.shared:
        fits &= (rows.lane[members] == rows.lane[runs.first]) & ~lost.some(rows.who[members])
        fits &= ~again | ((ts <= rows.until[before]) & ~np.isin(rows.code[members], list(manners.repeatable)))
    done = runs.all(fits)
    settled = runs.spread(done)
    if not manners.shared:
        wrong = again & settled
        new = members[wrong] - rows.shift
        found.rule[new], found.us[new] = DUPLICATE_REQUEST, ts[wrong] - rows.ts[before[wrong]]
    asked = members[settled]
    return done, _kept(rows, asked, asked, np.zeros(len(asked), np.bool_))


def _unasked(rows: Rows, manners: Manners, lost: _Lost, runs: _Runs, found: Checked) -> Judged:
    """Answers only, and closes, which mean nothing here."""
    members = runs.members
    role = rows.role[members]
    done = runs.all(np.isin(role, (ANSWERS, ENDS, CLOSES, EARLY)))
    settled = runs.spread(done)
    answers = members[settled & ((role == ANSWERS) | (role == ENDS))]
    new = answers - rows.shift
    excused = rows.invented[new] | lost.before(rows.who[answers], 1 - rows.side[new], rows.ts[answers])
    answers, new = answers[~excused], new[~excused]
    found.rule[new] = UNEXPECTED_REPLY
    early = _kept(rows, answers, answers, np.zeros(len(answers), np.bool_))
    early["role"], early["until"], early["ordinal"] = EARLY, rows.ts[answers] + EARLY_US, rows.number[new]
    early["done_us"] = rows.role[answers] == ENDS
    return done, np.concatenate([rows.kept[members[settled & (role == EARLY)]], early])


def _answered_again(rows: Rows, manners: Manners, lost: _Lost, runs: _Runs, found: Checked) -> Judged:
    """One request, answered for good, and answers behind that."""
    members, first, is_first = runs.members, runs.first, runs.is_first
    role, ts, ordinal = rows.role[members], rows.ts[members], rows.ordinal[members]
    place = np.arange(len(members))
    known = is_first & (role == ANSWERED)
    is_end = known | (role == ENDS)
    end = np.minimum.reduceat(np.where(is_end, place, len(members) - 1), runs.starts)
    has_end = np.logical_or.reduceat(is_end, runs.starts)
    end_of = runs.spread(end)
    behind = place > end_of
    done_us, done_at = ts[end].copy(), ordinal[end].copy()
    old = known[end]
    done_us[old], done_at[old] = (rows.kept[name][members[end[old]]] for name in ("done_us", "ordinal"))
    fits = np.where(is_first, (role == ASKS) | (role == OPEN) | known, (role == ANSWERS) | (role == ENDS))
    fits &= (rows.pair[members] == rows.pair[first]) & (rows.lane[members] == rows.lane[first])
    fits &= runs.spread(has_end) & ~lost.some(rows.who[members])
    in_time = (ts - runs.spread(done_us) <= LATE_US) & (ordinal - runs.spread(done_at) <= RECENT)
    fits &= np.where(behind, in_time, known | (ts <= rows.until[first]))
    done = runs.all(fits)
    wrong = behind & runs.spread(done)
    new = members[wrong] - rows.shift
    found.rule[new], found.us[new] = DUPLICATE_REPLY, ts[wrong] - runs.spread(done_us)[wrong]
    asked = members[runs.starts[done]]
    kept = _kept(rows, asked, asked, np.zeros(len(asked), np.bool_))
    kept["role"], kept["done_us"], kept["ordinal"] = ANSWERED, done_us[done], done_at[done]
    return done, kept


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
    untouched = (last < rows.shift) & ~plain
    kept = _kept(rows, first[plain], last[plain], is_end[plain])
    old = order[np.repeat(untouched, lengths)]
    return plain | untouched, np.concatenate([kept, rows.kept[old]])


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

    def through(self, members: list[int]) -> Iterator[tuple[int, int, int]]:
        """What is wrong: the new row, the rule, the time its sentence is about."""
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
                yield i - rows.shift, *found
                if found[0] == UNEXPECTED_REPLY:
                    number = int(rows.number[i - rows.shift])
                    self.known.append(_Known(EARLY, code, pair, lane, ts, ts + EARLY_US, int(role == ENDS), number))

    def kept(self) -> list[tuple[Any, ...]]:
        return [
            (self.who, self.key, o.role, o.code, o.pair, o.lane, o.ts, o.until, o.done_us, o.ordinal)
            for o in self.known
        ]

    def _asked(self, new: _Known, side: int) -> tuple[int, int] | None:
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
            return DUPLICATE_REQUEST, new.ts - open_ones[-1].ts
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
    ) -> tuple[int, int] | None:
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
            return DUPLICATE_REPLY, ts - ended[-1].done_us
        if invented or lost.before(ts):
            return None
        return UNEXPECTED_REPLY, 0

    def _fits(self, one: _Known, code: int, pair: int, lane: int) -> bool:
        return one.lane == lane and (one.pair == pair or (one.pair, code) in self.manners.instead)
