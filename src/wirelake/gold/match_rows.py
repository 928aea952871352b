"""Facts as the integers that the matching walk reads, and the requests and replies that it remembers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..kernels.match_codes import (
    ADDRESS,
    ADDRESSED,
    ASKS,
    BITS,
    CLOSES,
    CODE,
    DONE_ORDINAL,
    DONE_US,
    EARLY_US,
    FAULT,
    FINAL,
    KEY,
    KEY_LISTS,
    LANE,
    LATE_US,
    LIVE,
    MATCH_COLUMNS,
    MORE,
    NAMED,
    NUMBER,
    ONCE,
    ORDINAL,
    PAIR,
    PART,
    REPEATABLE,
    REPLIES,
    REQUEST,
    ROLE,
    ROW_COLUMNS,
    SHARED,
    SIDE,
    SINCE,
    STREAM,
    TS,
    UNTIL,
    US,
    WHOLE,
)
from ..spec import conduct as parts
from ..spec.conduct import Conduct, Matching
from . import arrays
from .by_connection import integers, truths, whole
from .losses import FOR_EVER
from .protocol_facts import ProtocolFacts

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def window_us(limit_us: Ints) -> Ints:
    """Return how long a reply may take: the limit and a grace period, so that late replies are seen; without a limit,
    for ever."""
    return np.where(limit_us > 0, limit_us + np.maximum(limit_us, LATE_US), FOR_EVER)


@dataclass
class MatchRows:
    """Rows of a walk, as columns. ``connection`` is a number of the matcher's, ``key`` is equal where rows may belong
    together; of the others ``kernels.match_codes.Rows`` says more. Remembered rows have the time of their end in
    ``done_us``, and in ``ordinal`` the number of replies at that time."""

    connection: NDArray[np.int32]
    key: Ints
    role: NDArray[np.int8]
    bits: NDArray[np.int16]
    pair: NDArray[np.int32]
    code: NDArray[np.int32]
    lane: NDArray[np.int8]
    side: NDArray[np.int8]
    ts: Ints
    until: Ints
    ordinal: Ints
    address: Ints
    number: Ints
    done_us: Ints

    def __len__(self) -> int:
        return len(self.key)

    def where(self, mask: NDArray[Any]) -> MatchRows:
        """Return the rows that a mask or places choose."""
        return MatchRows(*(column[mask] for column in self._columns()))

    def _columns(self) -> list[NDArray[Any]]:
        return [getattr(self, field.name) for field in fields(self)]

    @classmethod
    def joined(cls, parts: list[MatchRows]) -> MatchRows:
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate(columns) for columns in zip(*(part._columns() for part in parts), strict=True)))

    @classmethod
    def from_table(cls, table: pa.Table) -> MatchRows:
        columns = (whole(table, name) for name in REMEMBERED.names)
        return cls(*(np.array(column.to_numpy(zero_copy_only=False)) for column in columns))

    def to_table(self) -> pa.Table:
        return pa.table([pa.array(column) for column in self._columns()], REMEMBERED)


REMEMBERED = pa.schema(
    [
        ("connection", pa.int32()),
        ("key", pa.int64()),
        ("role", pa.int8()),
        ("bits", pa.int16()),
        ("pair", pa.int32()),
        ("code", pa.int32()),
        ("lane", pa.int8()),
        ("side", pa.int8()),
        ("ts", pa.int64()),
        ("until", pa.int64()),
        ("ordinal", pa.int64()),
        ("address", pa.int64()),
        ("number", pa.int64()),
        ("done_us", pa.int64()),
    ]
)
NOTHING = MatchRows.from_table(REMEMBERED.empty_table())


class Matches(NamedTuple):
    """What a walk found, by row: see ``kernels.match_codes``."""

    part: Ints
    request: Ints
    fault: Ints
    us: Ints
    since: Ints


def walk(before: MatchRows, new: MatchRows, matching: Matching) -> tuple[Matches, MatchRows]:
    """Match new rows with what is remembered. Return what the walk found, of remembered rows first, and what to
    remember."""
    from ..kernels.matching import match  # numba takes a second to load

    rows = MatchRows.joined([before, new]) if len(before) else new
    found = np.zeros((len(rows), MATCH_COLUMNS), np.int64)
    found[:, DONE_US], found[:, DONE_ORDINAL], found[:, REQUEST] = rows.done_us, rows.ordinal, -1
    instead = np.array(sorted(matching.instead), np.int64).reshape(-1, 2)
    closing = np.array(sorted(matching.closed_by_replier), np.int64)
    keys, count = arrays.numbered(rows.key)
    match(_matrix(rows, keys), np.full((count, KEY_LISTS), -1, np.int32), instead, closing, found)
    live = np.flatnonzero(found[:, LIVE])
    kept = rows.where(live)
    kept.role = found[live, LIVE].astype(np.int8)
    kept.done_us, kept.ordinal = found[live, DONE_US], found[live, DONE_ORDINAL]
    return Matches(*(np.ascontiguousarray(found[:, column]) for column in (PART, REQUEST, FAULT, US, SINCE))), kept


def _matrix(rows: MatchRows, keys: Ints) -> Ints:
    """Return the rows as the walk reads them: all columns of a row are next to each other."""
    matrix = np.empty((len(rows), ROW_COLUMNS), np.int64)
    columns: dict[int, NDArray[Any]] = {
        KEY: keys,
        ROLE: rows.role,
        BITS: rows.bits,
        PAIR: rows.pair,
        CODE: rows.code,
        LANE: rows.lane,
        SIDE: rows.side,
        TS: rows.ts,
        UNTIL: rows.until,
        ORDINAL: rows.ordinal,
        ADDRESS: rows.address,
        NUMBER: rows.number,
    }
    for place, column in columns.items():
        matrix[:, place] = column
    return matrix


class FactColumns:
    """The columns of one protocol's facts that matching reads, and what they make a row."""

    def __init__(self, facts: ProtocolFacts, conduct: Conduct) -> None:
        table = facts.table
        self.facts, self.conduct = facts, conduct
        self.step = integers(table, "step")
        self.piece = integers(table, "piece", -1)
        self.pair = integers(table, "pair")
        self.wants_reply = truths(table, "wants_reply")
        self.correlation = whole(table, "correlation")
        self.named = _valid(self.correlation)
        lane = integers(table, "lane", -1)
        self.stream, self.lane = lane >= 0, np.maximum(lane, 0)
        self.is_reply = self.step == parts.REPLY
        self.is_request = (self.step == parts.REQUEST) & (self.piece <= 0)
        self.is_control = arrays.flags(pc.equal(whole(table, "kind"), "control"), len(facts))
        self.asker = np.where(self.is_reply, 1 - facts.side, facts.side).astype(np.int8)
        self.place = whole(table, "place")
        self.placed = _valid(self.place)

    def role(self) -> NDArray[np.int8]:
        """Requests that nobody replies to take no part, nor do later pieces of a request."""
        role = np.zeros(len(self.step), np.int8)
        role[self.is_request & self.wants_reply] = ASKS
        role[self.is_reply] = REPLIES
        role[(self.step == parts.CLOSE) & self.stream] = CLOSES
        return role

    def judged(self) -> Mask:
        """Say which rows can be at the wrong moment.

        Where pieces are tied by their key, the first stands for the whole message. Known clients reply to everything
        that is called a heartbeat, also to replies to their own.
        """
        table, how = self.facts.table, self.conduct.pieces
        judged = self.named & ~self.is_control & ~(truths(table, "heartbeat") & self.is_reply & (self.facts.side == 0))
        if how is not None and not how.per_stream:
            judged &= ~self.is_reply | (self.piece <= 0)
        return np.asarray(judged, np.bool_)

    def invented(self) -> Mask:
        """Replies whose id the sender may have made up: errors, and what system topics say, of the side that does."""
        side = self.inventing_side()
        if side is None:
            return np.zeros(len(self.step), np.bool_)
        failed = arrays.flags(pc.not_equal(whole(self.facts.table, "result"), "ok"), len(self.step))
        own = (self.facts.side == side) & (failed | truths(self.facts.table, "own_id"))
        return np.asarray(own & self.is_reply, np.bool_)

    def inventing_side(self) -> int | None:
        side = self.conduct.matching.inventing_side
        return None if side is None else ("client", "server").index(side)

    def anonymous(self) -> Mask:
        """Replies that do not say which request they belong to, of a side that may not leave it out."""
        side = self.inventing_side()
        if side is None or self.named.all():
            return np.zeros(len(self.step), np.bool_)
        excused = self.is_control | (truths(self.facts.table, "heartbeat") & (self.facts.side == 0))
        return np.asarray(self.is_reply & ~self.named & ~excused & (self.facts.side != side), np.bool_)

    def rows(self, whole_messages: Mask, connection: NDArray[np.int32], ordinal: Ints, number: Ints) -> MatchRows:
        """Return all facts as rows; those that take no part have the role NOBODY."""
        table, ts = self.facts.table, self.facts.ts
        window = window_us(integers(table, "limit_us"))
        until = np.where(window == FOR_EVER, FOR_EVER, ts + np.where(window == FOR_EVER, 0, window))
        has_streams = bool(self.stream.any())
        nothing = np.zeros(len(ts), np.int64)
        return MatchRows(
            connection,
            self._keys(),
            self.role(),
            self._bits(whole_messages),
            self.pair.astype(np.int32),
            self.facts.code.astype(np.int32),
            self.lane.astype(np.int8),
            self.asker,
            ts,
            np.where(self.is_reply, ts + EARLY_US, until),
            ordinal,
            arrays.hashed(whole(table, "address")) if has_streams else nothing,
            number,
            nothing,
        )

    def by_place(self, rows: MatchRows, chosen: Ints) -> MatchRows:
        """Return requests and replies by the place they are about: topic and version. Nobody waits for such requests;
        errors may come back for a while."""
        picked = rows.where(chosen)
        taken = self.place.take(pa.array(chosen))
        names = arrays.mixed(arrays.hashed(taken), self._connection_hashes()[chosen])
        picked.key = arrays.mixed(arrays.mixed(names, picked.side), np.full(len(chosen), -2))
        is_request = self.is_request[chosen]
        picked.role = np.where(is_request, ASKS, REPLIES).astype(np.int8)
        picked.bits = np.full(len(chosen), NAMED | FINAL | WHOLE | SHARED, np.int16)
        picked.until = np.where(is_request, picked.ts + LATE_US, picked.ts)
        picked.pair, picked.lane = np.zeros(len(chosen), np.int32), np.zeros(len(chosen), np.int8)
        return picked

    def _bits(self, whole_messages: Mask) -> NDArray[np.int16]:
        table, matching = self.facts.table, self.conduct.matching
        flags = {
            FINAL: truths(table, "ends"),
            MORE: truths(table, "more"),
            ONCE: truths(table, "once"),
            NAMED: self.named,
            STREAM: self.stream,
            WHOLE: whole_messages,
            REPEATABLE: np.isin(self.facts.code, list(matching.repeatable)),
            ADDRESSED: _valid(whole(table, "address")) & self.stream,
        }
        bits = np.full(len(self.step), SHARED if matching.shared else 0, np.int16)
        for bit, mask in flags.items():
            bits |= mask.astype(np.int16) * np.int16(bit)
        return bits

    def _connection_hashes(self) -> Ints:
        return self.facts.runs.spread(arrays.hashed(pa.array(self.facts.runs.names, pa.string())))

    def _keys(self) -> Ints:
        """Connection and correlation; side and declared reply too where they are not streams.

        It is a hash of 64 bits: that two keys of a million are taken for one happens once in 10 million feeds.
        """
        names = arrays.mixed(arrays.hashed(self.correlation), self._connection_hashes())
        pair = self.pair
        for declared, sent in self.conduct.matching.instead:
            pair = np.where(pair == sent, declared, pair)
        return arrays.mixed(names, np.where(self.stream, 0, 1 + pair * 2 + self.asker))


def _valid(column: pa.Array) -> Mask:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
