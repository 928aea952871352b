"""Which answers belong to which request, for all rows of a step at once.

Rows are sorted by their key, so that what may belong together is adjacent, in the order of time. Where requests and
answers alternate, or one request has a stream of answers, adjacent rows are paired by array arithmetic. Everything else
(several open requests with one key, messages in pieces, closes that may mean more than one stream) is *odd*, and is
walked through row by row; it is rare.

An answer belongs to the latest open request of its key (to the oldest one where a protocol has no correlation), if it
comes within the request's window. A stream has one open request per side and lane; requests that repeat it go on with
it, and another request with its number means that it is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..protocols import BUILT_IN, load
from ..spec.conduct import CLOSE, REQUEST
from ..spec.conduct import REPLY as ANSWER

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

CLOSED_BY_REPLIER = {code for name in BUILT_IN for code in load(name).conduct.matching.closed_by_replier}
NO_TIME = np.iinfo(np.int64).min
FOR_EVER = np.iinfo(np.int64).max


class Group(NamedTuple):
    """An answer in pieces that is not complete."""

    next: int
    total: int
    bytes: int


@dataclass
class Rows:
    """Requests, answers and closes; requests that were open before come first, then the new rows by time."""

    key: Ints
    """Equal where rows may belong together. Streams: the same for both sides and all lanes."""
    step: NDArray[np.int8]
    side: NDArray[np.int8]
    """The direction of the requester."""
    lane: NDArray[np.int8]
    pair: Ints
    ts: Ints
    window_us: Ints
    """Requests: how long an answer is waited for."""
    ends: Mask
    more: Mask
    once: Mask
    stream: Mask
    named: Mask
    """Whether there is a correlation."""
    address: Ints
    """Equal where addresses are; streams only."""
    addressed: Mask
    piece: Ints
    """-1: the message is whole."""
    pieces: Ints
    length: Ints
    groups: dict[int, Group]
    """Answers to open requests of which only some pieces have come."""

    def __len__(self) -> int:
        return len(self.key)

    def followed_by(self, new: Rows) -> Rows:
        """Open requests, and behind them new rows."""
        columns = [one.name for one in fields(self) if one.name != "groups"]
        both = {name: np.concatenate([getattr(self, name), getattr(new, name)]) for name in columns}
        return Rows(**both, groups=self.groups)


@dataclass
class Pairs:
    """Per row, for those that are requests: what came for it."""

    reply: Ints
    """The row of its first answer; -1: none."""
    reply_bytes: Ints
    replies: Ints
    done: Mask
    used: Mask
    """Answers that belong to a request."""
    repeated: Mask
    """Requests that go on with a stream which is open already."""
    groups: dict[int, Group]

    @classmethod
    def nothing(cls, rows: Rows) -> Pairs:
        size = len(rows)
        return cls(
            np.full(size, -1, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.bool_),
            np.zeros(size, np.bool_),
            np.zeros(size, np.bool_),
            dict(rows.groups),
        )


def pair_up(rows: Rows) -> Pairs:
    pairs = Pairs.nothing(rows)
    if not len(rows):
        return pairs
    order = np.argsort(rows.key, kind="stable")
    runs = _Runs(rows, order)
    odd = runs.odd_rows()
    _pair_plain(rows, runs, odd, pairs)
    for members in runs.odd_members(odd):
        walk = _StreamWalk(rows, pairs) if rows.stream[members[0]] else _Walk(rows, pairs)
        for row in members.tolist():
            walk.take(row)
    return pairs


def in_window(rows: Rows, request: Ints, answer: Ints) -> Mask:
    """Whether answers come in time; without times they do."""
    asked, answered, window = rows.ts[request], rows.ts[answer], rows.window_us[request]
    timeless = (asked == NO_TIME) | (answered == NO_TIME) | (window == FOR_EVER)
    in_time = np.where(timeless, 0, answered) - np.where(timeless, 0, asked) <= window
    found: Mask = np.logical_or(timeless, in_time)
    return found


class _Runs:
    """The sorted rows, cut where the key changes. All arrays here are in sorted order."""

    def __init__(self, rows: Rows, order: Ints) -> None:
        self.rows = rows
        self.order = order
        key = rows.key[order]
        self.starts = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
        self.sizes = np.diff(np.append(self.starts, len(key)))
        self.first = np.repeat(self.starts, self.sizes)
        at = np.arange(len(key))
        self.step = rows.step[order]
        asks = self.step == REQUEST
        self.request = np.maximum.accumulate(np.where(asks, at, -1))
        """The last request at or before each row; before ``first``: none."""
        self.has_request = self.request >= self.first
        asked = order[np.maximum(self.request, 0)]
        ending = (rows.ends[order] | (self.has_request & rows.once[asked] & ~rows.more[order])) & (self.step == ANSWER)
        self.ending = ending | (self.step == CLOSE)
        self.ended = np.cumsum(self.ending)
        before = np.concatenate(([0], self.ended[:-1]))
        self.is_open = self.has_request & (before == self.ended[np.maximum(self.request, 0)])
        """Whether nothing has ended the last request before this row."""

    def odd_rows(self) -> Mask:
        """Rows of runs that need to be walked through."""
        rows, order, step = self.rows, self.order, self.step
        asks = step == REQUEST
        before = np.maximum(np.arange(len(order)) - 1, 0)
        nested = asks & (self.request[before] >= self.first) & (before >= self.first)
        nested &= self.ended[before] == self.ended[np.maximum(self.request[before], 0)]
        strange = nested | ((rows.piece[order] >= 0) & ~asks)
        if rows.groups:
            strange |= np.isin(order, list(rows.groups))
        late = ~asks & self.is_open
        strange[late] |= ~in_window(rows, order[self.request[late]], order[late])
        odd = np.logical_or.reduceat(strange, self.starts)
        if rows.stream.any():
            odd |= self._mixed_streams()
        return np.repeat(odd, self.sizes)

    def _mixed_streams(self) -> Mask:
        """Runs with several sides, lanes or kinds of requests."""
        rows, order = self.rows, self.order
        kind = rows.pair[order] * 4 + rows.lane[order] * 2 + rows.side[order]
        closes = self.step == CLOSE
        high = np.maximum.reduceat(np.where(closes, -1, kind), self.starts)
        low = np.minimum.reduceat(np.where(closes, FOR_EVER, kind), self.starts)
        sides = np.maximum.reduceat(rows.side[order], self.starts) != np.minimum.reduceat(rows.side[order], self.starts)
        mixed: Mask = np.logical_or((high >= 0) & (high != low), sides)
        return mixed

    def odd_members(self, odd: Mask) -> Iterator[Ints]:
        for run in np.flatnonzero(odd[self.starts]).tolist():
            start = self.starts[run]
            yield self.order[start : start + self.sizes[run]]


def _pair_plain(rows: Rows, runs: _Runs, odd: Mask, pairs: Pairs) -> None:
    valid = (runs.step != REQUEST) & runs.is_open & ~odd
    ends = np.flatnonzero(valid & runs.ending)
    pairs.done[runs.order[runs.request[ends]]] = True
    answers = np.flatnonzero(valid & (runs.step == ANSWER))
    requests = runs.request[answers]
    pairs.used[runs.order[answers]] = True
    if len(answers):
        first = np.flatnonzero(np.concatenate(([True], requests[1:] != requests[:-1])))
        asked, replied = runs.order[requests[first]], runs.order[answers[first]]
        pairs.reply[asked], pairs.reply_bytes[asked] = replied, rows.length[replied]
        pairs.replies[asked] = np.diff(np.append(first, len(answers)))


@dataclass
class _Walk:
    """The rows of one key, one after the other."""

    rows: Rows
    pairs: Pairs
    open: list[int] = field(default_factory=list)

    def take(self, row: int) -> None:
        if self.rows.step[row] == REQUEST:
            self.open.append(row)
            return
        for request in reversed(self.open) if self.rows.named[row] else iter(self.open):
            if self.in_window(request, row):
                if self.answer(request, row):
                    self.open.remove(request)
                return

    def in_window(self, request: int, row: int) -> bool:
        asked, answered, window = int(self.rows.ts[request]), int(self.rows.ts[row]), int(self.rows.window_us[request])
        return NO_TIME in (asked, answered) or answered - asked <= window

    def answer(self, request: int, row: int) -> bool:
        """Notes an answer, or a piece of one; tells whether the exchange is over."""
        rows, pairs = self.rows, self.pairs
        pairs.used[row] = True
        size = int(rows.length[row])
        if rows.piece[row] >= 0:
            whole = self._gather(request, row)
            # The end of a stream counts also in the middle of a message.
            if whole is None and not (rows.stream[row] and rows.ends[row]):
                return False
            size = size if whole is None else whole
        ends = bool(rows.ends[row]) or bool(rows.once[request] and not rows.more[row])
        pairs.groups.pop(request, None)
        if pairs.reply[request] < 0:
            pairs.reply[request], pairs.reply_bytes[request] = row, size
        pairs.replies[request] += 1
        pairs.done[request] = pairs.done[request] or ends
        return ends

    def _gather(self, request: int, row: int) -> int | None:
        """Adds a piece; gives the bytes of all if it was the last one."""
        rows, pairs = self.rows, self.pairs
        piece = int(rows.piece[row])
        group = Group(0, int(rows.pieces[row]), 0) if piece == 0 else pairs.groups.pop(request, None)
        if group is None or piece != group.next:
            return None
        group = pairs.groups[request] = Group(piece + 1, group.total, group.bytes + int(rows.length[row]))
        return group.bytes if group.next >= group.total else None


class _StreamWalk(_Walk):
    """The rows of one number of a connection, whose sides and lanes count for themselves."""

    def __init__(self, rows: Rows, pairs: Pairs) -> None:
        super().__init__(rows, pairs)
        self.streams: dict[tuple[int, int], int] = {}

    def take(self, row: int) -> None:
        rows = self.rows
        side, lane = int(rows.side[row]), int(rows.lane[row])
        match int(rows.step[row]):
            case int(step) if step == REQUEST:
                self._request((side, lane), row)
            case int(step) if step == ANSWER:
                request = self.streams.get((side, lane))
                if request is not None and rows.pair[request] == rows.pair[row] and self.answer(request, row):
                    del self.streams[side, lane]
            case _:
                self._close(side, row)

    def _request(self, place: tuple[int, int], row: int) -> None:
        rows, before = self.rows, self.streams.get(place)
        if before is not None:
            same = rows.pair[before] == rows.pair[row] and (
                not rows.addressed[row] or rows.address[row] == rows.address[before]
            )
            if same:
                self.pairs.repeated[row] = True
                return
            self.pairs.done[before] = True
        self.streams[place] = row

    def _close(self, side: int, row: int) -> None:
        """A close ends the sender's own stream; a few peers send it in place of an answer."""
        for lane in (0, 1):
            request = self.streams.pop((side, lane), None)
            if request is not None:
                self.pairs.done[request] = True
                return
        request = self.streams.get((1 - side, 0))
        if request is not None and int(self.rows.pair[request]) in CLOSED_BY_REPLIER:
            self.answer(request, row)
            self.pairs.done[request] = True
            del self.streams[1 - side, 0]
