"""gold/exchanges: one row per request, with what became of it.

``Exchanges`` is fed facts in the order of time and gives rows as they are decided; what is undecided is its carry. All
decisions go by the times of the messages, so that it does not matter how they are cut into feeds:

- an answer belongs to the latest open request with its key that still waits for it (``pairing`` says more);
- a request that its protocol gives a limit waits for that limit and a grace period, so that late answers are seen;
  a late answer completes the row with the outcome ``timeout``;
- a request without answer is decided when that time has passed, when its connection has ended, or at the very end;
- the row of a stream is decided when the stream ends: then its answers are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from . import arrays, legs
from .facts import FACTS, TIMESTAMP
from .pairing import FOR_EVER, NO_TIME, Mask, Pairs, Rows, pair_up
from .refine import ANSWER, CLOSE, NO_REPLY_WANTED, REQUEST

GRACE_US = 60_000_000
NO_END, SOME_END = NO_TIME, NO_TIME + 1
"""In place of the time at which a connection ended: it has not; nobody knows when."""

_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
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
    ("outcome", pa.string(), "ok, error, timeout or unanswered; open in gold/open"),
    ("status", pa.string(), "what the first reply says about how it went, as on the wire"),
    ("other_connection", pa.string(), "mb: the connection of the broker's other leg of this exchange"),
    ("other_correlation", pa.string(), "mb: the id that the exchange has there"),
    ("other_leg_how", pa.string(), "mb: audit = the broker said so, guessed = same topic, version, payload and time"),
)
EXCHANGES = pa.schema([pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _COLUMNS])
"""The schema of gold/exchanges and, with the outcome ``open``, of the requests in gold/open."""

_STATE = ("pair", "lane", "wants_reply", "once", "place", "version", "payload_hash", "order")
_OPEN = pa.schema(
    [EXCHANGES.field(i).remove_metadata() for i in range(len(EXCHANGES))]
    + [FACTS.field(name).remove_metadata() for name in _STATE]
    + [pa.field("result", pa.string())]
    + [pa.field(name, pa.int64()) for name in ("group_next", "group_count", "group_bytes")]
)
_FROM_REQUEST = {
    name: name
    for name in ("capture", "connection", "direction", "protocol", "message", "address", "correlation", "execution", "limit_us")
} | {"request_offset": "offset", "request_ts": "ts", "request_length": "length"} | {name: name for name in _STATE}
_FROM_REPLY = {"reply_offset": "offset", "reply_ts": "ts", "reply_message": "message", "status": "status", "result": "result"}
_READ = tuple(dict.fromkeys([*_FROM_REQUEST.values(), *_FROM_REPLY.values(), "step", "ends", "more", "piece", "pieces", "audit_id", "masked_id"]))


class Exchanges:
    """The step. ``feed`` facts, sorted by connection, ts and order; rows come back as they are decided."""

    def __init__(self, carry: bytes | None = None) -> None:
        self._open, self._audits = _unpacked(carry) if carry is not None else (_OPEN.empty_table(), legs.NO_AUDITS)

    def feed(self, facts: pa.Table, ended: Mapping[str, int | None] | None = None) -> pa.Table:
        """Takes new facts, and connections that ended with the time of their end (None: not known)."""
        new = _relevant(facts)
        before = self._open
        rows = _rows(before, new)
        pairs = pair_up(rows)
        _pair_by_place(before, new, rows, pairs)
        requests = _requests(before, new, rows, pairs)
        over = _ended(requests.table, ended or {})
        done = requests.done | (over != NO_END) | ~requests.answerable
        table, self._audits = legs.join(requests.table, requests.is_new, over, new, self._audits)
        decided, self._open = table.filter(pa.array(done)), table.filter(pa.array(~done)).combine_chunks()
        return _finished(decided, over[done])

    def settle(self, watermark_us: int | None, final: bool = False) -> pa.Table:
        """Decides what has waited long enough at this time; ``final``: nothing more comes, everything is decided."""
        table = self._open
        now = FOR_EVER if watermark_us is None and final else NO_TIME if watermark_us is None else watermark_us
        asked = _times(table["request_ts"])
        passed = (asked != NO_TIME) & (_deadlines(table, asked) < now) & _unanswered(table)
        done = passed | final
        self._open = table.filter(pa.array(~done)).combine_chunks()
        end = np.full(int(done.sum()), NO_END if watermark_us is None else watermark_us, np.int64)
        return _finished(table.filter(pa.array(done)), end)

    def open(self) -> pa.Table:
        """Requests that are not decided yet."""
        table = self._open
        return _rendered(table, pa.array(["open"] * len(table), pa.string()))

    def carry(self) -> bytes:
        opened, audits = (_stored(table) for table in (self._open, self._audits))
        return struct.pack("<Q", len(opened)) + opened + audits


# --- carry



def _stored(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(carry: bytes) -> tuple[pa.Table, pa.Table]:
    size = struct.unpack_from("<Q", carry)[0]
    parts = (carry[8 : 8 + size], carry[8 + size :])
    opened, audits = (pa.ipc.open_stream(part).read_all().combine_chunks() for part in parts)
    return opened, audits


# --- facts and open requests as rows to be paired


def _relevant(facts: pa.Table) -> pa.Table:
    """Only rows that take part in exchanges. Later pieces of a request say nothing new about it."""
    step = facts["step"].to_numpy()
    keep = step != 0
    later = arrays.integers(_joined(facts["piece"])) > 0
    keep &= ~((step == REQUEST) & later)
    keep |= arrays.flags(_joined(pc.is_valid(facts["audit_id"])), len(facts))
    chosen = facts.select(_READ)
    return (chosen if keep.all() else chosen.filter(pa.array(keep))).combine_chunks()


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _times(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return arrays.integers(_joined(column).cast(pa.int64()), NO_TIME)


def _both(before: pa.Table, new: pa.Table, name: str, new_name: str | None = None) -> pa.Array:
    """A column of the open requests and of the new rows, one behind the other."""
    return pa.concat_arrays([*before[name].chunks, *new[new_name or name].chunks]) if len(before) + len(new) else pa.nulls(0, before.schema.field(name).type)


def _codes(column: pa.Array) -> NDArray[np.int64]:
    """Numbers that are equal where values are; -1 is null."""
    return arrays.integers(column.dictionary_encode().indices, -1)


def _rows(before: pa.Table, new: pa.Table) -> Rows:
    old, size = len(before), len(before) + len(new)
    step = np.concatenate([np.full(old, REQUEST, np.int8), arrays.integers(_joined(new["step"])).astype(np.int8)])
    direction = arrays.flags(pc.equal(_both(before, new, "direction"), "to_client"), size).astype(np.int8)
    side = np.where(step == ANSWER, 1 - direction, direction).astype(np.int8)
    lane = arrays.integers(_both(before, new, "lane"), -1)
    pair = arrays.integers(_both(before, new, "pair")).astype(np.int32)
    correlation = _codes(_both(before, new, "correlation"))
    stream = lane >= 0
    ts = np.concatenate([_times(before["request_ts"]), _times(new["ts"])])
    asks = step == REQUEST
    limits = arrays.integers(_both(before, new, "limit_us"))
    wants = arrays.flags(_both(before, new, "wants_reply"), size)
    # What nobody answers takes no part, nor does what is here for other reasons.
    step = np.where((asks & ~wants) | (step == 0), -1, step).astype(np.int8)
    return Rows(
        key=_keys(_codes(_both(before, new, "connection")), correlation, pair, side, stream, step),
        step=step,
        side=side,
        lane=np.maximum(lane, 0).astype(np.int8),
        pair=pair,
        ts=ts,
        window_us=np.where(limits > 0, limits + np.maximum(limits, GRACE_US), FOR_EVER),
        ends=_new_flags(old, new, "ends"),
        more=_new_flags(old, new, "more"),
        once=arrays.flags(_both(before, new, "once"), size),
        stream=stream,
        named=correlation >= 0,
        address=_codes(_both(before, new, "address")) if stream.any() else np.full(size, -1, np.int64),
        piece=np.concatenate([np.full(old, -1, np.int64), arrays.integers(_joined(new["piece"]), -1)]),
        pieces=np.concatenate([np.zeros(old, np.int64), arrays.integers(_joined(new["pieces"]))]),
        length=arrays.integers(_both(before, new, "request_length", "length")),
        **{name: np.concatenate([arrays.integers(_joined(before[name])), np.zeros(len(new), np.int64)]) for name in _GROUP},
    )


_GROUP = ("group_next", "group_count", "group_bytes")


def _new_flags(old: int, new: pa.Table, name: str) -> Mask:
    return np.concatenate([np.zeros(old, np.bool_), arrays.flags(_joined(new[name]), len(new))])


def _keys(
    connection: NDArray[np.int64],
    correlation: NDArray[np.int64],
    pair: NDArray[np.int32],
    side: NDArray[np.int8],
    stream: Mask,
    step: NDArray[np.int8],
) -> NDArray[np.int64]:
    """Connection and correlation; side and answer too where they are not streams. Rows without part stand alone."""
    kinds, kind = np.unique(pair, return_inverse=True) if len(pair) else (pair, pair)
    inner = np.where(stream, 0, 1 + kind * 2 + side)
    key = (connection * (int(correlation.max(initial=-1)) + 2) + correlation + 1) * (2 * len(kinds) + 1) + inner
    alone = step < 0
    key[alone] = -1 - np.arange(int(alone.sum()))
    return key


# --- what was found out


class _Found:
    """All requests, those that were open and new ones, with what has come for them."""

    def __init__(self, table: pa.Table, is_new: Mask, done: Mask, answerable: Mask) -> None:
        self.table = table
        self.is_new = is_new
        self.done = done
        self.answerable = answerable


def _requests(before: pa.Table, new: pa.Table, rows: Rows, pairs: Pairs) -> _Found:
    old = len(before)
    asked = np.flatnonzero((arrays.integers(_joined(new["step"])) == REQUEST) & ~pairs.repeated[old:])
    table = pa.concat_tables([before, _opened(new, asked)]).combine_chunks()
    at = np.concatenate([np.arange(old), asked + old])
    table = _answered(table, new, pairs.reply[at] - old, pairs.reply_bytes[at], pairs.replies[at])
    for name, values in zip(_GROUP, (pairs.group_next[at], pairs.group_count[at], pairs.group_bytes[at]), strict=True):
        table = _set(table, name, pa.array(values))
    is_new = np.concatenate([np.zeros(old, np.bool_), np.ones(len(asked), np.bool_)])
    answerable = arrays.flags(_joined(table["wants_reply"]), len(table)) | _valid(table["place"])
    return _Found(table, is_new, pairs.done[at], answerable)


def _set(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def _valid(column: pa.ChunkedArray) -> Mask:
    return np.asarray(_joined(pc.is_valid(column)).to_numpy(zero_copy_only=False), np.bool_)


def _opened(new: pa.Table, asked: NDArray[np.int64]) -> pa.Table:
    chosen = new.select(list(dict.fromkeys(_FROM_REQUEST.values()))).take(pa.array(asked))
    columns = []
    for field in _OPEN:
        if field.name in _FROM_REQUEST:
            columns.append(chosen[_FROM_REQUEST[field.name]])
        elif field.name in ("replies", *_GROUP):
            columns.append(pa.array(np.zeros(len(asked), np.int64)))
        else:
            columns.append(pa.nulls(len(asked), field.type))
    return pa.table(columns, schema=_OPEN)


def _answered(
    table: pa.Table, new: pa.Table, reply: NDArray[np.int64], size: NDArray[np.int64], replies: NDArray[np.int64]
) -> pa.Table:
    """The requests with their first replies, where those have come now and none had before."""
    count = arrays.integers(_joined(table["replies"]))
    first = (reply >= 0) & (count == 0)
    table = _set(table, "replies", pa.array(count + replies))
    if not first.any():
        return table
    where = pa.array(np.where(first, reply, 0), mask=~first)
    fresh = pa.array(first)
    for name, source in _FROM_REPLY.items():
        came = new[source].take(where)
        table = _set(table, name, came if not _valid(table[name]).any() else pc.if_else(fresh, came, table[name]))
    sizes = pa.array(size, mask=~first).cast(pa.int32())
    return _set(table, "reply_length", pc.if_else(fresh, sizes, table["reply_length"]))


def _ended(table: pa.Table, ended: Mapping[str, int | None]) -> NDArray[np.int64]:
    """When the connection of each request ended; ``NO_END`` if it has not."""
    if not ended or not len(table):
        return np.full(len(table), NO_END, np.int64)
    names = pa.array(list(ended), pa.string())
    times = np.array([SOME_END if time is None else time for time in ended.values()], np.int64)
    found = arrays.integers(_joined(pc.index_in(table["connection"], names)), -1)
    return np.where(found >= 0, times[found], NO_END)


# --- requests without correlation


def _pair_by_place(before: pa.Table, new: pa.Table, rows: Rows, pairs: Pairs) -> None:
    """An error under an id that nobody used belongs to the last request without id to the same place."""
    old = len(before)
    strays = _valid(new["place"]) & (rows.step[old:] == ANSWER) & ~pairs.used[old:]
    if not strays.any():
        return
    asks = np.concatenate([np.ones(old, np.bool_), arrays.integers(_joined(new["step"])) == REQUEST])
    places = _both(before, new, "place")
    nameless = asks & arrays.flags(pc.is_valid(places), len(places))
    chosen = np.flatnonzero(nameless | np.concatenate([np.zeros(old, np.bool_), strays]))
    connection = _both(before, new, "connection").take(pa.array(chosen)).to_pylist()
    waiting: dict[tuple[str, str, int], list[int]] = {}
    for row, line, place in zip(chosen.tolist(), connection, places.take(pa.array(chosen)).to_pylist(), strict=True):
        stack = waiting.setdefault((line, place, int(rows.side[row])), [])
        if nameless[row]:
            stack.append(row)
        elif stack and _soon(int(rows.ts[stack[-1]]), int(rows.ts[row])):
            asked = stack.pop()
            pairs.reply[asked], pairs.reply_bytes[asked] = row, rows.length[row]
            pairs.replies[asked], pairs.done[asked], pairs.used[row] = 1, True, True


def _soon(asked: int, answered: int) -> bool:
    return NO_TIME in (asked, answered) or answered - asked <= GRACE_US


# --- outcomes


def _deadlines(table: pa.Table, asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """When waiting ends: a limit and its grace; requests without id wait for an error only."""
    limits = arrays.integers(_joined(table["limit_us"]))
    waits = np.where(limits > 0, limits + np.maximum(limits, GRACE_US), np.where(_valid(table["place"]), GRACE_US, 0))
    return np.where((waits > 0) & (asked != NO_TIME), np.where(asked != NO_TIME, asked, 0) + waits, FOR_EVER)


def _unanswered(table: pa.Table) -> Mask:
    return arrays.integers(_joined(table["replies"])) == 0


def _finished(table: pa.Table, end: NDArray[np.int64]) -> pa.Table:
    """Decided rows. ``end``: the time at which they were given up, where that is known."""
    return _rendered(table, arrays.spread(_OUTCOMES, _outcomes(table, end), pa.string()))


_OUTCOMES = ("ok", "error", "timeout", "unanswered")


def _outcomes(table: pa.Table, end: NDArray[np.int64]) -> NDArray[np.int64]:
    asked, replied = _times(table["request_ts"]), _times(table["reply_ts"])
    limits = arrays.integers(_joined(table["limit_us"]))
    said = arrays.integers(_joined(pc.index_in(table["result"], pa.array(_OUTCOMES[:3]))), 0)
    silent = _unanswered(table)
    until = np.where(silent, end, replied)
    timed = (limits > 0) & (asked != NO_TIME) & (until > SOME_END)
    late = timed & (np.where(timed, until, 0) - np.where(timed, asked, 0) >= limits)
    return np.where(late, 2, np.where(silent, 3, said))


def _rendered(table: pa.Table, outcome: pa.Array) -> pa.Table:
    latency = pc.subtract(table["reply_ts"].cast(pa.int64()), table["request_ts"].cast(pa.int64()))
    unheard = ~arrays.flags(_joined(table["wants_reply"]), len(table)) & ~_valid(table["place"])
    status = table["status"]
    if unheard.any():
        status = pc.if_else(pa.array(unheard), NO_REPLY_WANTED, status)
    made = {"latency_us": latency, "outcome": outcome, "status": status}
    return pa.table([made.get(name, table[name] if name not in made else None) for name in EXCHANGES.names], schema=EXCHANGES)
