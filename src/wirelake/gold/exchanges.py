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

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..columnar.schema import TIMESTAMP
from ..spec.conduct import CLOSE, REQUEST
from ..spec.conduct import REPLY as ANSWER
from . import arrays
from . import broker_legs as legs
from .facts import FACTS
from .indexed_rows import Blocks
from .pairing import FOR_EVER, NO_TIME, Group, Mask, Pairs, Rows, pair_up

GRACE_US = 60_000_000
NO_PART = -1
"""The step of rows that are not to be paired."""
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

NO_REPLY_WANTED = "no reply wanted"
_STATE = ("pair", "lane", "wants_reply", "once", "place", "version", "payload_hash", "order")
_OPEN = pa.schema(
    [EXCHANGES.field(i).remove_metadata() for i in range(len(EXCHANGES))]
    + [FACTS.field(name).remove_metadata() for name in _STATE]
    + [pa.field("result", pa.string())]
    + [pa.field(name, pa.int64()) for name in ("group_next", "group_count", "group_bytes")]
)
_FROM_REQUEST = (
    {
        name: name
        for name in (
            "capture",
            "connection",
            "direction",
            "protocol",
            "message",
            "address",
            "correlation",
            "execution",
            "limit_us",
        )
    }
    | {"request_offset": "offset", "request_ts": "ts", "request_length": "length"}
    | {name: name for name in _STATE}
)
_FROM_REPLY = {
    "reply_offset": "offset",
    "reply_ts": "ts",
    "reply_message": "message",
    "status": "status",
    "result": "result",
}
_READ = tuple(
    dict.fromkeys(
        [
            *_FROM_REQUEST.values(),
            *_FROM_REPLY.values(),
            "step",
            "ends",
            "more",
            "piece",
            "pieces",
            "audit_id",
            "masked_id",
        ]
    )
)


class Carry(NamedTuple):
    """Open requests, those that only wait apart, and audit copies whose messages may still come."""

    open: pa.Table
    waiting: pa.Table
    audits: pa.Table


class Exchanges:
    """The step. ``feed`` facts, sorted by connection, ts and order; rows come back as they are decided."""

    def __init__(self, carry: Carry | None = None) -> None:
        self._at_hand, self._audits = _OPEN.empty_table(), legs.NO_AUDITS
        self._aside: Blocks[pa.Table] = Blocks(arrays.where, _together)
        """Requests that are looked at only when something comes for them, packed."""
        if carry is not None:
            self._at_hand, self._audits = _unpacked(carry.open), carry.audits
            for part in _in_parts(carry.waiting):
                self._put_aside(part, _old_rows(part).key)

    def feed(self, facts: pa.Table, ended: Mapping[str, int | None] | None = None) -> pa.Table:
        """Takes new facts, and connections that ended with the time of their end (None: not known)."""
        new = _relevant(facts)
        asked = _new_rows(new)
        before = self._before(asked, ended or {})
        rows = _old_rows(before).followed_by(asked) if len(before) else asked
        pairs = pair_up(rows)
        _pair_by_place(before, new, rows, pairs)
        requests = _requests(before, new, rows, pairs)
        over = _ended(requests.table, ended or {})
        done = requests.done | (over != NO_END) | ~requests.answerable
        table, self._audits = legs.join(requests.table, requests.is_new, over, new, self._audits)
        waits = ~done & _waits_only(table)
        self._put_aside(arrays.where(table, waits), requests.key[waits])
        decided, self._at_hand = arrays.where(table, done), arrays.where(table, ~done & ~waits)
        return _finished(decided, over[done])

    def _before(self, new: Rows, ended: Mapping[str, int | None]) -> pa.Table:
        """The open requests that these facts may be about."""
        if not len(self._aside):
            return self._at_hand
        wanted = new.key[(new.step == ANSWER) | (new.step == CLOSE)]
        over = pa.array(list(ended), pa.string())

        def has_ended(table: pa.Table) -> Mask:
            return arrays.flags(_joined(pc.is_in(table["connection"].cast(pa.string()), over)), len(table))

        recalled = self._aside.take(wanted, has_ended if ended else None)
        if not recalled:
            return self._at_hand
        both = pa.concat_tables([*map(_unpacked, recalled), self._at_hand])
        return both.sort_by([("request_ts", "ascending"), ("order", "ascending")]).combine_chunks()

    def _put_aside(self, table: pa.Table, key: NDArray[np.int64]) -> None:
        if len(table):
            self._aside.put(_packed(table, _WAITING), key)

    def settle(
        self, watermark_us: int | None, final: bool = False, known_until: Callable[[str], int | None] | None = None
    ) -> Iterator[pa.Table]:
        """Decides what has waited long enough at this time; ``final``: nothing more comes, everything is decided.

        ``known_until`` tells of a connection whether only what is older was fed: its answers may be held back. Rows
        come in parts: there may be millions of them.
        """
        at_hand, self._at_hand = self._at_hand, _OPEN.empty_table()
        aside = self._aside.take_all()
        latest = FOR_EVER if watermark_us is None and final else NO_TIME if watermark_us is None else watermark_us
        while aside:
            for table in _in_parts(aside.pop(0)):
                done = _has_waited(table, latest, known_until) | final
                left = arrays.where(table, ~done)
                self._put_aside(left, _old_rows(left).key)
                yield _given_up(arrays.where(table, done), watermark_us)
        done = _has_waited(at_hand, latest, known_until) | final
        self._at_hand = arrays.where(at_hand, ~done)
        yield _given_up(arrays.where(at_hand, done), watermark_us)

    def open(self) -> Iterator[pa.Table]:
        """Requests that are not decided yet, in parts."""
        for table in (self._at_hand, *(part for aside in self._aside.all() for part in _in_parts(aside))):
            yield _rendered(table, pa.repeat(pa.scalar("open"), len(table)))

    def carry(self) -> Carry:
        """What is undecided, picklable."""
        there = [name for name in _OPEN.names if self._at_hand[name].null_count < len(self._at_hand)]
        waiting = pa.concat_tables([_packed(_OPEN.empty_table(), _WAITING), *self._aside.all()]).combine_chunks()
        return Carry(_packed(self._at_hand, there), waiting, self._audits)


_FEW = frozenset(("capture", "connection", "direction", "protocol", "message"))


_PART_ROWS = 1 << 16


def _packed(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Open requests, of which there may be millions, with these columns only; few different texts as numbers."""
    columns = {name: _joined(table[name]) for name in names}
    return pa.table({name: one.dictionary_encode() if name in _FEW else one for name, one in columns.items()})


def _unpacked(packed: pa.Table) -> pa.Table:
    there = set(packed.column_names)
    size = len(packed)
    columns = [
        packed[field.name].cast(field.type)
        if field.name in there
        else pa.array(np.zeros(size, np.int64))
        if field.name in ("replies", *_GROUP)
        else pa.nulls(size, field.type)
        for field in _OPEN
    ]
    return pa.table(columns, schema=_OPEN).combine_chunks()


def _in_parts(packed: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, len(packed), _PART_ROWS):
        yield _unpacked(packed.slice(start, _PART_ROWS))


# --- requests that only wait


_WAITING = tuple(name for name in _FROM_REQUEST if name not in ("lane", "place", "payload_hash"))
"""What such a request has."""


def _waits_only(table: pa.Table) -> Mask:
    """Whether nothing can happen to a request but an answer with its key, or the end of its connection."""
    streams = arrays.integers(_joined(table["lane"]), -1) >= 0
    begun = (arrays.integers(_joined(table["replies"])) > 0) | (arrays.integers(_joined(table["group_count"])) > 0)
    found: Mask = ~(streams | begun | _valid(table["place"]) | _valid(table["payload_hash"]))
    return found


SMALL_CHUNK, MOST_SMALL = 1 << 15, 16


def _together(tables: list[pa.Table]) -> pa.Table:
    """Tables behind each other. They are copied into one only while they are small, and many."""
    table = pa.concat_tables(tables)
    chunks = table.column(0).num_chunks
    return table if chunks <= MOST_SMALL or len(table) > chunks * SMALL_CHUNK else table.combine_chunks()


# --- facts and open requests as rows to be paired


def _relevant(facts: pa.Table) -> pa.Table:
    """Only rows that take part in exchanges. Later pieces of a request say nothing new about it."""
    step = facts["step"].to_numpy()
    keep = step != 0
    later = arrays.integers(_joined(facts["piece"])) > 0
    keep &= ~((step == REQUEST) & later)
    keep |= arrays.flags(_joined(pc.is_valid(facts["audit_id"])), len(facts))
    return arrays.where(facts.select(_READ), keep).combine_chunks()


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _moments(column: pa.Array) -> NDArray[np.int64]:
    return arrays.integers(column.cast(pa.int64()), NO_TIME)


def _times(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return _moments(_joined(column))


def _flags(column: pa.Array) -> Mask:
    return arrays.flags(column, len(column))


def _is_valid(column: pa.Array) -> Mask:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


class _Both:
    """Columns of the open requests and of the new rows, one behind the other."""

    def __init__(self, before: pa.Table, new: pa.Table) -> None:
        self.before, self.new = before, new

    def __call__(self, name: str, read: Callable[[pa.Array], NDArray[Any]], new_name: str = "") -> NDArray[Any]:
        return np.concatenate([read(_joined(self.before[name])), read(_joined(self.new[new_name or name]))])


def _or_none(column: pa.Array) -> NDArray[np.int64]:
    return arrays.integers(column, -1)


def _to_client(column: pa.Array) -> NDArray[np.int8]:
    return _flags(pc.equal(column, "to_client")).astype(np.int8)


def _old_rows(before: pa.Table) -> Rows:
    """Open requests. What only messages have is the same for all of them."""
    size = len(before)
    never, whole = np.zeros(size, np.bool_), np.full(size, -1, np.int64)
    step = np.full(size, REQUEST, np.int8)
    rows = _rows(before, step, "request_ts", "request_length", never, never, whole, np.zeros(size, np.int64))
    rows.groups = _groups(before)
    return rows


def _new_rows(new: pa.Table) -> Rows:
    def read(name: str, how: Callable[[pa.Array], NDArray[Any]]) -> NDArray[Any]:
        return how(_joined(new[name]))

    step = read("step", arrays.integers).astype(np.int8)
    ends, more = read("ends", _flags), read("more", _flags)
    return _rows(new, step, "ts", "length", ends, more, read("piece", _or_none), read("pieces", arrays.integers))


def _rows(
    table: pa.Table,
    step: NDArray[np.int8],
    ts: str,
    length: str,
    ends: Mask,
    more: Mask,
    piece: NDArray[np.int64],
    pieces: NDArray[np.int64],
) -> Rows:
    def read(name: str, how: Callable[[pa.Array], NDArray[Any]]) -> NDArray[Any]:
        return how(_joined(table[name]))

    direction = read("direction", _to_client)
    side = np.where(step == ANSWER, 1 - direction, direction).astype(np.int8)
    lane = read("lane", _or_none)
    pair = read("pair", arrays.integers)
    stream = lane >= 0
    limits = read("limit_us", arrays.integers)
    # What nobody answers takes no part, nor does what is here for other reasons.
    step[((step == REQUEST) & ~read("wants_reply", _flags)) | (step == 0)] = NO_PART
    names = arrays.mixed(read("correlation", arrays.hashed), read("connection", arrays.hashed_few))
    return Rows(
        key=_keys(names, pair, side, stream, step),
        step=step,
        side=side,
        lane=np.maximum(lane, 0).astype(np.int8),
        pair=pair,
        ts=read(ts, _moments),
        window_us=np.where(limits > 0, limits + np.maximum(limits, GRACE_US), FOR_EVER),
        ends=ends,
        more=more,
        once=read("once", _flags),
        stream=stream,
        named=read("correlation", _is_valid),
        address=read("address", arrays.hashed) if stream.any() else pair,
        addressed=read("address", _is_valid) if stream.any() else stream,
        piece=piece,
        pieces=pieces,
        length=read(length, arrays.integers),
        groups={},
    )


_GROUP = ("group_next", "group_count", "group_bytes")


def _groups(before: pa.Table) -> dict[int, Group]:
    state = [arrays.integers(_joined(before[name])) for name in _GROUP]
    return {row: Group(*(int(one[row]) for one in state)) for row in np.flatnonzero(state[1]).tolist()}


def _keys(
    names: NDArray[np.int64], pair: NDArray[np.int64], side: NDArray[np.int8], stream: Mask, step: NDArray[np.int8]
) -> NDArray[np.int64]:
    """Connection and correlation; side and answer too where they are not streams. Rows without part stand alone.

    It is a hash of 64 bits: that two keys of a million are taken for one happens once in 10 million feeds.
    """
    inner = np.where(stream, 0, 1 + pair * 2 + side)
    alone = step == NO_PART
    inner[alone] = -1 - np.flatnonzero(alone)
    return arrays.mixed(names, inner)


# --- what was found out


class _Found:
    """All requests, those that were open and new ones, with what has come for them."""

    def __init__(self, table: pa.Table, key: NDArray[np.int64], is_new: Mask, done: Mask, answerable: Mask) -> None:
        self.table = table
        self.key = key
        self.is_new = is_new
        self.done = done
        self.answerable = answerable


def _requests(before: pa.Table, new: pa.Table, rows: Rows, pairs: Pairs) -> _Found:
    old = len(before)
    asked = np.flatnonzero((arrays.integers(_joined(new["step"])) == REQUEST) & ~pairs.repeated[old:])
    table = pa.concat_tables([before, _opened(new, asked)]) if old else _opened(new, asked)
    at = np.concatenate([np.arange(old), asked + old])
    table = _answered(table, new, pairs.reply[at] - old, pairs.reply_bytes[at], pairs.replies[at])
    if pairs.groups or rows.groups:
        places = {int(row): place for place, row in enumerate(at.tolist())}
        for number, name in enumerate(_GROUP):
            values = np.zeros(len(table), np.int64)
            for row, group in pairs.groups.items():
                values[places[row]] = group[number]
            table = _set(table, name, pa.array(values))
    is_new = np.concatenate([np.zeros(old, np.bool_), np.ones(len(asked), np.bool_)])
    answerable = arrays.flags(_joined(table["wants_reply"]), len(table)) | _valid(table["place"])
    return _Found(table, rows.key[at], is_new, pairs.done[at], answerable)


def _set(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def _valid(column: pa.ChunkedArray) -> Mask:
    return np.asarray(_joined(pc.is_valid(column)).to_numpy(zero_copy_only=False), np.bool_)


def _opened(new: pa.Table, asked: NDArray[np.int64]) -> pa.Table:
    chosen = arrays.taken(new.select(list(dict.fromkeys(_FROM_REQUEST.values()))), asked)
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
    both = _Both(before, new)
    nameless = asks & both("place", _is_valid)
    chosen = np.flatnonzero(nameless | np.concatenate([np.zeros(old, np.bool_), strays]))
    places = arrays.mixed(arrays.mixed(both("place", arrays.hashed), both("connection", arrays.hashed_few)), rows.side)
    waiting: dict[int, list[int]] = {}
    for row, place in zip(chosen.tolist(), places[chosen].tolist(), strict=True):
        stack = waiting.setdefault(place, [])
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


def _known(table: pa.Table, latest: int, known_until: Callable[[str], int | None] | None) -> NDArray[np.int64]:
    """Until when the answers to each request are known."""
    names = _joined(table["connection"]).dictionary_encode()
    known = [known_until(name) if known_until else None for name in names.dictionary.to_pylist()]
    times = np.array([latest if time is None else min(time, latest) for time in known], np.int64)
    return times[arrays.integers(names.indices)] if len(table) else times


def _unanswered(table: pa.Table) -> Mask:
    return np.equal(arrays.integers(_joined(table["replies"])), 0)


def _has_waited(table: pa.Table, latest: int, known_until: Callable[[str], int | None] | None) -> Mask:
    """Whether it was in vain, as far as is known."""
    asked = _times(table["request_ts"])
    passed = _deadlines(table, asked) < _known(table, latest, known_until)
    return np.asarray((asked != NO_TIME) & passed & _unanswered(table), np.bool_)


def _given_up(table: pa.Table, watermark_us: int | None) -> pa.Table:
    end = NO_END if watermark_us is None else watermark_us
    return _finished(table, np.full(len(table), end, np.int64))


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
    return pa.table(
        [made.get(name, table[name] if name not in made else None) for name in EXCHANGES.names], schema=EXCHANGES
    )
