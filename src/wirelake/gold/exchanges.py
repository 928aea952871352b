"""gold/exchanges: one row per request, with what became of it.

``Exchanges`` is fed the rows of ``matching.Matched`` and gives rows as they are decided; what is undecided is its
carry. Which reply belongs to which request is the matcher's decision; here it becomes a row:

- the first reply gives time, status and outcome; a reply after the limit completes the row with the outcome
  ``timeout``; the latency of a reply that the capture shows before its request is 0;
- a request without reply is decided when its window has passed, when its connection has ended, or at the very end;
- the row of a stream is decided when the stream ends: then its replies are counted.

All decisions go by the times of the messages, so that it does not matter how they are cut into feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columnar.schema import CODED, TIMESTAMP, documented
from ..kernels.match_codes import ENDS, LAST, LATE_US, OPENS, REPLY
from . import arrays, broker_legs
from .arrays import FOR_EVER, Ints, Mask, flags, integers, valid
from .facts import FACTS
from .indexed_rows import IndexedRows
from .match_rows import window_us

NO_TIME = int(np.iinfo(np.int64).min)
NO_END, SOME_END = NO_TIME, NO_TIME + 1
"""In place of the time at which a connection ended: it has not; nobody knows when."""

EXCHANGES = documented(
    ("capture", pa.string(), "the file or tap the request came from"),
    ("connection", pa.string(), "the connection of both"),
    ("direction", pa.string(), "direction of the request"),
    ("protocol", pa.string(), "which protocol"),
    ("message", pa.string(), "which message the request is"),
    ("address", pa.string(), "topic, service, path or queue that was asked"),
    ("correlation", pa.string(), "what ties the reply to the request; binary ids in hex"),
    ("execution", pa.string(), "casual: the chain of calls it belongs to, in hex"),
    ("request_offset", pa.int64(), "first byte of the request in its stream"),
    ("request_ts", TIMESTAMP, "when the request was complete; of a request in pieces, its first piece"),
    ("request_length", pa.int32(), "bytes of its frame"),
    ("reply_offset", pa.int64(), "first byte of the first reply in its stream; of a reply in pieces, its last piece"),
    ("reply_ts", TIMESTAMP, "when the first reply was complete"),
    ("reply_message", pa.string(), "which message the reply is"),
    ("reply_length", pa.int32(), "bytes of its frame, or of all frames of a reply in pieces"),
    ("replies", pa.int64(), "number of replies: more than one in streams"),
    ("latency_us", pa.int64(), "from the request to the first reply"),
    ("limit_us", pa.int64(), "how long the requester waits; null = no limit"),
    ("outcome", pa.string(), "ok, error, timeout, unanswered or no_reply_wanted; open in gold/open"),
    ("status", pa.string(), "what the first reply says about how it went, as on the wire"),
    ("other_connection", pa.string(), "mb: the connection of the broker's other leg of this exchange"),
    ("other_correlation", pa.string(), "mb: the id that the exchange has there"),
    (
        "other_leg_how",
        pa.string(),
        "mb: audit = the broker said so, guessed = the oldest of the same topic, version and payload",
    ),
)
"""The schema of gold/exchanges and, with the outcome ``open``, of the requests in gold/open."""

_FEW = frozenset(("capture", "connection", "direction", "protocol", "message", "reply_message", "result", "outcome"))
GIVEN = arrays.with_coded(EXCHANGES, _FEW)
"""Rows of gold/exchanges as they are given, with texts that are the same in many of them as numbers."""
_STATE = ("lane", "wants_reply", "place", "version", "payload_hash", "order", "number")
_OPEN = pa.schema(
    [field.remove_metadata() for field in GIVEN]
    + [FACTS.field(name).remove_metadata() for name in _STATE if name != "number"]
    + [pa.field("number", pa.int64()), pa.field("result", CODED), pa.field("end_us", pa.int64())]
)
"""``end_us``: the request is decided but for its other leg; the time of its connection's end, or ``NO_END``."""
_SAME = ("capture", "connection", "direction", "protocol", "message", "address", "correlation", "execution", "limit_us")
_FROM_REQUEST = {
    **{name: name for name in _SAME},
    "request_offset": "offset",
    "request_ts": "ts",
    "request_length": "length",
    **{name: name for name in _STATE},
}
_FROM_REPLY = {
    "reply_offset": "offset",
    "reply_ts": "ts",
    "reply_message": "message",
    "status": "status",
    "result": "result",
}
_WAITING = tuple(name for name in _FROM_REQUEST if name not in ("lane", "place", "payload_hash"))
"""What a request has that only waits."""


_PART_ROWS = 100_000


@dataclass
class ExchangesCarry:
    """Open requests, those that only wait apart, and audit copies whose messages may still come."""

    open: pa.Table = field(default_factory=lambda: arrays.empty(_OPEN))
    waiting: pa.Table = field(default_factory=lambda: arrays.empty(_OPEN).select(_WAITING))
    audits: pa.Table = field(default_factory=lambda: arrays.empty(broker_legs.AUDITS))


class Exchanges:
    """The step. ``feed`` it what was matched; rows come back as they are decided."""

    def __init__(self, carry: ExchangesCarry | None = None) -> None:
        carry = carry if carry is not None else ExchangesCarry()
        self._at_hand, self._audits = _unpacked(carry.open), carry.audits
        self._aside: IndexedRows[pa.Table] = IndexedRows(arrays.where, _together)
        """Requests that are looked at only when something comes for them, packed, by their numbers."""
        self._put_aside(carry.waiting)

    def feed(self, matched: pa.Table, ended: Mapping[str, int | None] | None = None) -> pa.Table:
        """Take what was matched, and connections that ended with the times of their ends (None: not known)."""
        part, request = integers(matched["part"]), integers(matched["request"])
        before = self._before(arrays.distinct(request[request >= 0]), ended or {})
        asked = np.flatnonzero(part == OPENS)
        opened = _opened(matched, asked)
        table = pa.concat_tables([before, opened]) if len(before) else opened
        place = arrays.places(integers(table["number"]), request)
        table = _answered(table, matched, np.flatnonzero((part == REPLY) | (part == LAST)), place)
        done = np.zeros(len(table), np.bool_)
        done[place[(place >= 0) & np.isin(part, (OPENS, LAST, ENDS))]] = True
        over = _ended(table, ended or {})
        done |= (over != NO_END) | ~_is_answerable(table)
        self._audits = broker_legs.with_copies(self._audits, matched)
        if len(self._audits) or broker_legs.has_legs(table):
            now, copied = broker_legs.latest_of(table, self._audits)
            table, done, over = self._join_legs(table, done, over, now)
            self._audits = broker_legs.still_needed(self._audits, copied)
        return self._divide(table, done, over)

    def _join_legs(self, table: pa.Table, done: Mask, over: Ints, now: Ints) -> tuple[pa.Table, Mask, Ints]:
        """Find other legs; requests that are decided but for these are kept, with their ends."""
        known = valid(table["end_us"])
        over, done = np.where(known, integers(table["end_us"]), over), done | known
        table, settled = broker_legs.join(table, over, now, self._audits)
        held = done & ~settled
        table = arrays.replaced(table, {"end_us": pa.array(over, mask=~held)})
        return table, done & settled, over

    def _divide(self, table: pa.Table, done: Mask, over: Ints) -> pa.Table:
        """Return the decided rows and keep the others."""
        waits = ~done & _waits_only(table)
        self._put_aside(arrays.where(table.select(_WAITING), waits))
        self._at_hand = arrays.where(table, ~done & ~waits)
        return _finished(arrays.where(table, done), over[done])

    def _before(self, numbers: Ints, ended: Mapping[str, int | None]) -> pa.Table:
        """Return the open requests that these rows may be about."""
        if not len(self._aside) or not (len(numbers) or ended):
            return self._at_hand
        over = pa.array(list(ended), pa.string())

        def has_ended(table: pa.Table) -> Mask:
            return flags(pc.is_in(table["connection"], over))

        recalled = self._aside.take(numbers, has_ended if ended else None)
        return pa.concat_tables([*map(_unpacked, recalled), self._at_hand]).combine_chunks()

    def _put_aside(self, table: pa.Table) -> None:
        if len(table):
            self._aside.put(table, integers(table["number"]))

    def settle(
        self, watermark_us: int | None, final: bool = False, known_until: Callable[[str], int | None] | None = None
    ) -> Iterator[pa.Table]:
        """Decide what has waited long enough at this time; ``final``: nothing more comes, everything is decided.

        ``known_until`` tells of a connection whether only what is older was fed: its replies may be held back. Rows
        come in parts: there may be millions of them.
        """
        at_hand, self._at_hand = self._at_hand, arrays.empty(_OPEN)
        aside = self._aside.take_all()
        latest = FOR_EVER if watermark_us is None and final else NO_TIME if watermark_us is None else watermark_us
        while aside:
            for table in _in_parts(aside.pop(0)):
                done = _has_waited(table, latest, known_until) | final
                self._put_aside(arrays.where(table.select(_WAITING), ~done))
                yield _given_up(arrays.where(table, done), watermark_us)
        yield self._settle_at_hand(at_hand, latest, watermark_us, final, known_until)

    def _settle_at_hand(
        self,
        table: pa.Table,
        latest: int,
        watermark_us: int | None,
        final: bool,
        known_until: Callable[[str], int | None] | None,
    ) -> pa.Table:
        done = _has_waited(table, latest, known_until) | final
        end = np.full(len(table), NO_END, np.int64)
        if broker_legs.has_legs(table):
            now = np.full(len(table), FOR_EVER, np.int64) if final else _known(table, latest, known_until)
            table, done, end = self._join_legs(table, done, end, now)
        if watermark_us is not None:
            end = np.where(end == NO_END, watermark_us, end)
        self._audits = broker_legs.still_needed(self._audits, np.full(len(self._audits), latest, np.int64))
        self._at_hand = arrays.where(table, ~done)
        return _finished(arrays.where(table, done), end[done])

    def open(self) -> Iterator[pa.Table]:
        """Requests that are not decided yet, in parts."""
        for table in (self._at_hand, *(part for aside in self._aside.all() for part in _in_parts(aside))):
            yield _rendered(table, arrays.coded_spread(("open",), np.zeros(len(table))))

    def carry(self) -> ExchangesCarry:
        there = [name for name in _OPEN.names if self._at_hand[name].null_count < len(self._at_hand)]
        waiting = pa.concat_tables([arrays.empty(_OPEN).select(_WAITING), *self._aside.all()])
        at_hand = self._at_hand.select(there) if there else arrays.empty(_OPEN)
        return ExchangesCarry(at_hand.combine_chunks(), waiting.combine_chunks(), self._audits)


# --- requests that only wait


def _unpacked(packed: pa.Table) -> pa.Table:
    made = {} if "replies" in packed.column_names else {"replies": pa.array(np.zeros(len(packed), np.int64))}
    return arrays.table_of(_OPEN, made, packed).combine_chunks()


def _in_parts(packed: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, len(packed), _PART_ROWS):
        yield _unpacked(packed.slice(start, _PART_ROWS))


def _waits_only(table: pa.Table) -> Mask:
    """Say of each request whether nothing can happen to it but its reply, or the end of its connection."""
    streams = integers(table["lane"], -1) >= 0
    found: Mask = ~(streams | ~_unanswered(table) | valid(table["place"]) | valid(table["payload_hash"]))
    return found


SMALL_CHUNK, MOST_SMALL = 1 << 15, 16


def _together(tables: list[pa.Table]) -> pa.Table:
    """Put tables behind each other. They are copied into one only while they are small, and many."""
    table = pa.concat_tables(tables)
    chunks = table.column(0).num_chunks
    return table if chunks <= MOST_SMALL or len(table) > chunks * SMALL_CHUNK else table.combine_chunks()


# --- requests and what came for them


def _opened(matched: pa.Table, asked: Ints) -> pa.Table:
    chosen = arrays.taken(matched.select(list(dict.fromkeys(_FROM_REQUEST.values()))), asked)
    made = {name: chosen[source] for name, source in _FROM_REQUEST.items()}
    return arrays.table_of(_OPEN, made | {"replies": pa.array(np.zeros(len(asked), np.int64))})


def _answered(table: pa.Table, matched: pa.Table, replies: Ints, place: Ints) -> pa.Table:
    """Return the requests with their replies counted, and with their first replies where those have come now."""
    replies = replies[place[replies] >= 0]
    # Rows of one connection are in the order of time, so the first of each request is its first reply.
    requests, first, counts = np.unique(place[replies], return_index=True, return_counts=True)
    before = integers(table["replies"])
    count = before.copy()
    count[requests] += counts
    came: dict[str, Any] = {"replies": pa.array(count)}
    is_first = np.zeros(len(table), np.bool_)
    is_first[requests] = before[requests] == 0
    if is_first.any():
        row = np.zeros(len(table), np.int64)
        row[requests] = replies[first]
        came |= _first_replies(table, matched, row, is_first)
    return arrays.replaced(table, came)


def _first_replies(table: pa.Table, matched: pa.Table, row: Ints, is_first: Mask) -> dict[str, Any]:
    """Return the columns of replies, with those of some requests taken from these rows."""
    where, fresh = pa.array(row, mask=~is_first), pa.array(is_first)
    came = {name: matched[source].take(where) for name, source in _FROM_REPLY.items()}
    came["reply_length"] = pa.array(integers(matched["bytes"])[row], mask=~is_first).cast(pa.int32())
    return {
        name: pc.if_else(fresh, column, table[name]) if valid(table[name]).any() else column
        for name, column in came.items()
    }


def _is_answerable(table: pa.Table) -> Mask:
    return flags(table["wants_reply"]) | valid(table["place"])


def _ended(table: pa.Table, ended: Mapping[str, int | None]) -> Ints:
    """Return when the connection of each request ended; ``NO_END`` if it has not."""
    if not ended or not len(table):
        return np.full(len(table), NO_END, np.int64)
    times = np.array([SOME_END if time is None else time for time in ended.values()], np.int64)
    found = arrays.which(table["connection"], list(ended))
    return np.where(found >= 0, times[found], NO_END)


# --- outcomes


def _deadlines(table: pa.Table, asked: Ints) -> Ints:
    """Return when waiting ends: with the window; requests without id wait for an error only."""
    waits = np.where(valid(table["place"]), LATE_US, window_us(integers(table["limit_us"])))
    ends = (waits != FOR_EVER) & (asked != NO_TIME)
    return np.where(ends, np.where(ends, asked, 0) + np.where(ends, waits, 0), FOR_EVER)


def _known(table: pa.Table, latest: int, known_until: Callable[[str], int | None] | None) -> Ints:
    """Return until when the replies to each request are known."""

    def until(name: str) -> int:
        known = known_until(name) if known_until else None
        return latest if known is None else min(known, latest)

    return arrays.by_text(table["connection"], until)


def _unanswered(table: pa.Table) -> Mask:
    return np.equal(integers(table["replies"]), 0)


def _has_waited(table: pa.Table, latest: int, known_until: Callable[[str], int | None] | None) -> Mask:
    """Whether it was in vain, as far as is known."""
    asked = integers(table["request_ts"], NO_TIME)
    passed = _deadlines(table, asked) < _known(table, latest, known_until)
    return np.asarray((asked != NO_TIME) & passed & _unanswered(table), np.bool_)


def _given_up(table: pa.Table, watermark_us: int | None) -> pa.Table:
    end = NO_END if watermark_us is None else watermark_us
    return _finished(table, np.full(len(table), end, np.int64))


def _finished(table: pa.Table, end: Ints) -> pa.Table:
    """Decided rows. ``end``: the time at which they were given up, where that is known."""
    return _rendered(table, arrays.coded_spread(_OUTCOMES, _outcomes(table, end)))


_OUTCOMES = ("ok", "error", "timeout", "unanswered", "no_reply_wanted")


def _outcomes(table: pa.Table, end: Ints) -> Ints:
    asked, replied = integers(table["request_ts"], NO_TIME), integers(table["reply_ts"], NO_TIME)
    limits = integers(table["limit_us"])
    said = np.maximum(arrays.which(table["result"], _OUTCOMES[:3]), 0)
    silent = _unanswered(table)
    until = np.where(silent, end, replied)
    timed = (limits > 0) & (asked != NO_TIME) & (until > SOME_END)
    late = timed & (np.where(timed, until, 0) - np.where(timed, asked, 0) >= limits)
    unheard = silent & ~flags(table["wants_reply"])
    return np.where(unheard, 4, np.where(late, 2, np.where(silent, 3, said)))


def _rendered(table: pa.Table, outcome: pa.Array) -> pa.Table:
    latency = pc.subtract(table["reply_ts"].cast(pa.int64()), table["request_ts"].cast(pa.int64()))
    latency = pc.max_element_wise(latency, 0, skip_nulls=False)
    return arrays.table_of(GIVEN, {"latency_us": latency, "outcome": outcome}, table)
