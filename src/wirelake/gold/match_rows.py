"""Facts as the integers that the matching walk reads, and the requests and replies that it remembers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..kernels import match_codes as codes
from ..spec import conduct as parts
from ..spec.conduct import Conduct, Matching
from . import arrays
from .arrays import FOR_EVER, Ints, Mask, flags, integers, joined, valid
from .fact_groups import ProtocolFacts

MatchRows: TypeAlias = Any
"""A ``np.recarray`` of ``match_codes.ROW``, or of FOUND. (By numpy's types, some rows of one are none any more.)

Choose rows by ``take`` and ``compress``: indexing copies records field by field."""
_BYTES = np.dtype((np.void, codes.ROW.itemsize))
REMEMBERED = pa.schema([(name, pa.from_numpy_dtype(codes.ROW[name])) for name in codes.ROW.names or ()])


def window_us(limit_us: Ints) -> Ints:
    """Return how long a reply may take: the limit and a grace period, so that late replies are seen; without a limit,
    for ever."""
    return np.where(limit_us > 0, limit_us + np.maximum(limit_us, codes.LATE_US), FOR_EVER)


def until_us(ts: Ints, limit_us: Ints) -> Ints:
    """Return when the windows of requests of these times have passed."""
    window = window_us(limit_us)
    return np.where(window == FOR_EVER, FOR_EVER, ts + np.where(window == FOR_EVER, 0, window))


def rows_of(**columns: NDArray[Any]) -> MatchRows:
    rows = np.zeros(len(columns["key"]), codes.ROW).view(np.recarray)
    for name, column in columns.items():
        rows[name] = column
    return rows


def from_table(table: pa.Table) -> MatchRows:
    """Return remembered rows (REMEMBERED)."""
    return rows_of(**{name: joined(table[name]).to_numpy() for name in REMEMBERED.names})


def to_table(rows: MatchRows) -> pa.Table:
    return pa.table([pa.array(rows[name]) for name in REMEMBERED.names], REMEMBERED)


def concatenated(parts: list[MatchRows]) -> MatchRows:
    # numpy puts records together field by field, and plain bytes ten times as fast.
    bytes_of_rows = [np.zeros(0, _BYTES), *(rows.view(_BYTES) for rows in parts)]
    return np.concatenate(bytes_of_rows).view(codes.ROW).view(np.recarray)


def walk(before: MatchRows, new: MatchRows, matching: Matching) -> tuple[MatchRows, MatchRows]:
    """Match new rows with what is remembered. Return what the walk found, of remembered rows first, and what to
    remember."""
    from ..kernels.matching import match  # numba takes a second to load

    rows = concatenated([before, new]) if len(before) else new
    keys, key = arrays.numbered(rows.key)
    found: MatchRows = np.zeros(len(rows), codes.FOUND).view(np.recarray)
    found.key, found.done_ordinal, found.request = key, rows.ordinal, -1
    found[: len(before)].done_us = before.done_us
    instead = np.array(sorted(matching.instead), np.int64).reshape(-1, 2)
    closing = np.array(sorted(matching.closed_by_replier), np.int64)
    match(rows, np.full((len(keys), codes.KEY_LISTS), -1, np.int32), instead, closing, found)
    live = np.flatnonzero((found.live != codes.NOBODY) & ~_is_long_past(rows, found))
    kept, ended = rows.take(live), found.take(live)
    kept.role, kept.done_us, kept.ordinal = ended.live, ended.done_us, ended.done_ordinal
    return found, kept


def _is_long_past(rows: MatchRows, found: MatchRows) -> Mask:
    """Say which requests ended more than RECENT replies ago: most of those that a large feed answers."""
    edges = arrays.run_starts(rows.connection)
    if not len(rows):
        return np.zeros(0, np.bool_)
    last = np.repeat(np.maximum.reduceat(rows.ordinal, edges[:-1]), np.diff(edges))
    has_ended = (found.live == codes.ANSWERED) | (found.live == codes.CLOSED)
    return np.asarray(has_ended & (last - found.done_ordinal >= codes.RECENT), np.bool_)


@lru_cache(maxsize=64)
def _groups(matching: Matching) -> dict[int, int]:
    """Return for each reply that may come in the place of another the first of all that are tied to it so."""
    first: dict[int, int] = {}
    for declared, sent in () if matching.in_order else sorted(matching.instead):
        old, new = first.setdefault(sent, sent), first.setdefault(declared, declared)
        first = {code: new if group == old else group for code, group in first.items()}
    return first


class FactColumns:
    """The columns of one protocol's facts that matching reads, and what they make a row."""

    def __init__(self, facts: ProtocolFacts, conduct: Conduct) -> None:
        table = facts.table
        self.facts, self.conduct = facts, conduct
        self.step = integers(table["step"])
        self.piece = integers(table["piece"], -1)
        self.pair = integers(table["pair"])
        self.wants_reply = flags(table["wants_reply"])
        self.correlation = joined(table["correlation"])
        self.named = valid(self.correlation)
        lane = integers(table["lane"], -1)
        # Replies in order have no number that a stream could own: a request behind it does not give it up.
        self.stream = np.zeros(len(lane), np.bool_) if conduct.matching.in_order else lane >= 0
        self.lane = np.maximum(lane, 0)
        self.is_reply = self.step == parts.REPLY
        self.is_request = (self.step == parts.REQUEST) & (self.piece <= 0)
        self.is_control = arrays.which(table["kind"], ["control"]) >= 0
        self.asker = np.where(self.is_reply, 1 - facts.side, facts.side).astype(np.int8)
        self.place = joined(table["place"])
        self.placed = valid(self.place)

    def role(self) -> NDArray[np.int8]:
        """Requests that nobody replies to take no part, nor do later pieces of a request."""
        role = np.zeros(len(self.step), np.int8)
        role[self.is_request & self.wants_reply] = codes.ASKS
        role[self.is_reply] = codes.REPLIES
        role[(self.step == parts.CLOSE) & self.stream] = codes.CLOSES
        return role

    def judged(self) -> Mask:
        """Say which rows can be at the wrong moment.

        Where pieces are tied by their key, the first stands for the whole message. Known clients reply to everything
        that is called a heartbeat, also to replies to their own.
        """
        table, how = self.facts.table, self.conduct.pieces
        named = self.named | self.conduct.matching.in_order
        judged = named & ~self.is_control & ~(flags(table["heartbeat"]) & self.is_reply & (self.facts.side == 0))
        if how is not None and not how.per_stream:
            judged &= ~self.is_reply | (self.piece <= 0)
        return np.asarray(judged, np.bool_)

    def invented(self) -> Mask:
        """Replies whose id the sender may have made up: errors, and what system topics say, of the side that does."""
        side = self.inventing_side()
        if side is None:
            return np.zeros(len(self.step), np.bool_)
        failed = flags(pc.not_equal(self.facts.table["result"], "ok"))
        own = (self.facts.side == side) & (failed | flags(self.facts.table["own_id"]))
        return np.asarray(own & self.is_reply, np.bool_)

    def inventing_side(self) -> int | None:
        side = self.conduct.matching.inventing_side
        return None if side is None else ("client", "server").index(side)

    def anonymous(self) -> Mask:
        """Replies that do not say which request they belong to, of a side that may not leave it out."""
        side = self.inventing_side()
        if side is None or self.named.all():
            return np.zeros(len(self.step), np.bool_)
        excused = self.is_control | (flags(self.facts.table["heartbeat"]) & (self.facts.side == 0))
        return np.asarray(self.is_reply & ~self.named & ~excused & (self.facts.side != side), np.bool_)

    def rows(self, whole_messages: Mask, connection: NDArray[np.int32], ordinal: Ints, number: Ints) -> MatchRows:
        """Return all facts as rows; those that take no part have the role NOBODY."""
        table, ts = self.facts.table, self.facts.ts
        until = until_us(ts, integers(table["limit_us"]))
        addresses = {"address": arrays.hashed(joined(table["address"]))} if self.stream.any() else {}
        return rows_of(
            connection=connection,
            key=self._keys(),
            role=self.role(),
            bits=self._bits(whole_messages),
            pair=self.pair,
            code=self.facts.code,
            lane=self.lane,
            side=self.asker,
            ts=ts,
            until=np.where(self.is_reply, ts + codes.EARLY_US, until),
            ordinal=ordinal,
            number=number,
            **addresses,
        )

    def by_place(self, rows: MatchRows, chosen: Ints) -> MatchRows:
        """Return requests and replies by the place they are about: topic and version. Nobody waits for such requests;
        errors may come back for a while."""
        picked = rows.take(chosen)
        taken = self.place.take(pa.array(chosen))
        names = arrays.mixed(arrays.hashed(taken), self.facts.connection_hashes()[chosen])
        picked.key = arrays.mixed(arrays.mixed(names, picked.side), np.full(len(chosen), -2))
        is_request = self.is_request[chosen]
        picked.role = np.where(is_request, codes.ASKS, codes.REPLIES)
        picked.bits = codes.NAMED | codes.FINAL | codes.WHOLE | codes.SHARED
        picked.until = np.where(is_request, picked.ts + codes.LATE_US, picked.ts)
        picked.pair, picked.lane = 0, 0
        return picked

    def _bits(self, whole_messages: Mask) -> NDArray[np.int16]:
        table, matching = self.facts.table, self.conduct.matching
        masks = {
            codes.FINAL: flags(table["ends"]),
            codes.MORE: flags(table["more"]),
            codes.ONCE: flags(table["once"]),
            codes.NAMED: self.named & (not matching.in_order),
            codes.STREAM: self.stream,
            codes.WHOLE: whole_messages,
            codes.REPEATABLE: np.isin(self.facts.code, list(matching.repeatable)),
            codes.ADDRESSED: valid(table["address"]) & self.stream,
        }
        bits = np.full(len(self.step), codes.SHARED if matching.shared or matching.in_order else 0, np.int16)
        for bit, mask in masks.items():
            bits |= mask.astype(np.int16) * np.int16(bit)
        return bits

    def _keys(self) -> Ints:
        """Connection and correlation; side and declared reply too where they are not streams.

        It is a hash of 64 bits: that two keys of a million are taken for one happens once in 10 million feeds.
        """
        names = arrays.mixed(arrays.hashed(self.correlation), self.facts.connection_hashes())
        pair = np.zeros_like(self.pair) if self.conduct.matching.in_order else self.pair
        for code, first in _groups(self.conduct.matching).items():
            pair = np.where(self.pair == code, first, pair)
        return arrays.mixed(names, np.where(self.stream, 0, 1 + pair * 2 + self.asker))
