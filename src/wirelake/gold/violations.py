"""``gold/violations``: good bytes at the wrong moment.

Rules, of which a message breaks at most the first:

- ``state``: the declared life cycle does not allow the message (``lifecycle.py``, ``turns.py``).
- ``unexpected_reply``, ``duplicate_reply``, ``duplicate_request``: ``answers.py``. A late answer is no violation.
- ``page_order``, ``group_order``: ``pieces.py``.

Nothing is reported that lost bytes could excuse. A loss (a gap, a quarantined range, what came before the capture)
lasts from the last messages before it to its last byte. While it lasts nothing of its connection is reported; behind it
the state is unknown until messages make it certain. An answer to a request of a direction that has lost something is
never unexpected any more; a second answer, or a request made twice, is reported only if nothing was lost between the
two; of pieces likewise. A loss may be known a while after what came meanwhile the other way: so a row is given out when
its connection has ended or EARLY_US have passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..protocols import BUILT_IN, load
from ..spec.conduct import CLOSE, HANDSHAKE, REFUSED, REQUEST
from ..spec.conduct import REPLY as ANSWER
from ..spec.nodes import Protocol
from . import answers, arrays
from .answers import ANSWERS, ASKS, CLOSES, EARLY, EARLY_US, ENDS, FOR_EVER, KEPT, LATE_US, OPEN, Losses
from .connection_state import MOST_KEPT, Message, Turns
from .connections import Runs, integers, runs_of, to_client, told_rows, truths, whole
from .indexed_rows import Blocks
from .lifecycle import FORBIDDEN, Automaton, automaton
from .open import TS
from .pieces import SPLITTING, Finding, Groups, Piece
from .schema import column
from .violation_rows import NAMELESS_REPLY, NOTHING, SIDES, STATE, Excuse, Found, Waiting

UNHEARD_US = 3_600_000_000
"""How long a connection that was opened and says nothing is remembered as one whose beginning was captured."""
BULK_STEPS = 16
WALKED, CALM = 16, 64
"""So many messages are walked before it is tried to go on in bulk; that was worth it if it got so far."""

VIOLATIONS = pa.schema(
    [
        column("capture", pa.string(), "the file or tap it came from"),
        column("connection", pa.string(), "the connection"),
        column("direction", pa.string(), "`to_server` or `to_client`"),
        column("offset", pa.int64(), "first byte of the message in its stream"),
        column("length", pa.int32(), "bytes of the message"),
        column("ts", TS, "when the message was complete"),
        column("protocol", pa.string(), "the protocol"),
        column("message", pa.string(), "which message"),
        column(
            "rule",
            pa.string(),
            "`state`, `unexpected_reply`, `duplicate_reply`, `duplicate_request`, `page_order`, `group_order`",
        ),
        column("state", pa.string(), "state of the connection by its life cycle; all that it can be, joined by |"),
        column("detail", pa.string(), "what is wrong, in a sentence"),
        column("correlation", pa.string(), "what ties a reply to its request"),
    ]
)
_TAKEN = ("capture", "connection", "direction", "offset", "length", "ts", "protocol", "message", "correlation")
_CODED = frozenset(("capture", "connection", "direction", "protocol", "message"))
"""What is the same in many violations."""
_HEAD = ("connection", "is_whole", "first_us", "last_us", "ended", "ended_us")


@dataclass
class Watch:
    """What is known about one connection."""

    number: int
    protocol: str
    turns: Turns
    swapped: bool = False
    """The side that was dialled is the client of the protocol."""
    is_known: bool = False
    """It was fed before."""
    replies: int = 0
    """Answers so far, both ways."""
    checked: tuple[int, int] = (0, 0)
    """Answers and time when requests and answers were last looked at."""
    ended_us: int | None = None
    heard_us: list[list[int]] = field(default_factory=lambda: [[0, 0], [0, 0]])
    """Times of the last two messages of each side."""
    losses: tuple[Losses, Losses] = field(default_factory=lambda: (Losses(), Losses()))
    losing: list[int] = field(default_factory=list)
    """Ends of losses that no message has passed yet."""
    groups: Groups = field(default_factory=Groups)


@dataclass
class Carry:
    watches: dict[str, Watch]
    unheard: dict[str, int]
    """Whole connections without a message so far -> when they were last seen."""
    kept: NDArray[Any]
    waiting: pa.Table | None
    numbers: int
    rows: int


@dataclass
class _Feed:
    """The facts of one protocol as arrays."""

    table: pa.Table
    runs: Runs
    watches: list[Watch]
    side: NDArray[np.int8]
    ts: NDArray[np.int64]
    code: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.table.num_rows)


class Violations:
    """The step. ``carry`` is what an earlier one gave by ``carry()``.

    ``protocols`` are declarations that are not built in, by the name that facts have for them.
    """

    def __init__(self, carry: Carry | None = None, protocols: Mapping[str, Protocol] | None = None) -> None:
        self._protocols = dict(protocols or {})
        self._watches: dict[str, Watch] = carry.watches if carry is not None else {}
        self._unheard: dict[str, int] = carry.unheard if carry is not None else {}
        self._kept: Blocks[NDArray[Any]] = Blocks(
            lambda rows, mask: rows[mask], np.concatenate, lambda rows: _remembered(rows, self._watches.values())
        )
        if carry is not None:
            self._kept.put(carry.kept, carry.kept["key"])
        self._waiting = Waiting(carry.waiting if carry is not None else None)
        self._numbers = carry.numbers if carry is not None else 0
        self._rows = carry.rows if carry is not None else 0

    def carry(self) -> Carry:
        """What is remembered, picklable."""
        kept = self._all_kept()
        self._kept.put(kept, kept["key"])
        return Carry(self._watches, self._unheard, kept, self._waiting.table, self._numbers, self._rows)

    def feed(self, facts: pa.Table, connections: pa.Table, damage: pa.Table | None = None) -> pa.Table:
        """Rows for facts that are sorted by connection, ts, order.

        ``connections`` (CONNECTIONS) say of those that are new whether they are whole; ``damage`` are the rows of
        silver/quarantine that came with these facts, gaps among them.
        """
        heads = connections.select(_HEAD).to_pylist()
        for row in heads:
            if row["is_whole"] and row["connection"] not in self._watches:
                self._unheard[row["connection"]] = row["last_us"] or row["first_us"] or 0
        if damage is not None and damage.num_rows:
            self._note_losses_of_silent(facts, damage)
        for part in _by_protocol(facts):
            self._feed_protocol(part, damage)
        ended = {row["connection"] for row in heads if row["ended"]}
        for row in heads:
            if row["ended"] and row["connection"] in self._watches:
                self._watches[row["connection"]].ended_us = row["ended_us"] or 0
        return _decided(self._waiting.take_of(ended))

    def settle(self, watermark: int, final: bool = False) -> pa.Table:
        """Rows that are decided now that everything up to ``watermark`` (microseconds) was fed."""
        gone = {
            name
            for name, watch in self._watches.items()
            if final or (watch.ended_us is not None and watch.ended_us + LATE_US < watermark)
        }
        self._unheard = {
            name: seen for name, seen in self._unheard.items() if not final and seen + UNHEARD_US >= watermark
        }
        numbers = np.array([self._watches[name].number for name in gone], np.int32)
        self._watches = {name: watch for name, watch in self._watches.items() if name not in gone}
        kept = np.zeros(0, KEPT) if final else self._all_kept()
        last = np.where(np.isin(kept["role"], (OPEN, EARLY)), kept["until"], kept["done_us"] + LATE_US)
        kept = kept[~np.isin(kept["who"], numbers) & (last >= watermark)]
        self._kept.take_all()
        self._kept.put(kept, kept["key"])
        return _decided(self._waiting.take_before(None if final else watermark - EARLY_US))

    def _all_kept(self) -> NDArray[Any]:
        return np.concatenate([np.zeros(0, KEPT), *self._kept.take_all()])

    # --- one protocol's share of the facts

    def _feed_protocol(self, facts: pa.Table, damage: pa.Table | None) -> None:
        name = facts.column("protocol")[0].as_py()
        machine = self._machine(name)
        runs = runs_of(facts)
        watches = [self._watch(one, name, machine) for one in runs.names]
        feed = _Feed(facts, runs, watches, to_client(facts), integers(facts, "ts"), integers(facts, "code"))
        self._note_losses(feed, damage)
        found = Found.nothing(len(feed))
        states = _States(machine, feed, self._rows, found) if machine is not None else None
        if states is not None:
            states.run()
        self._waiting.drop(np.array([number for watch in watches for number in watch.turns.excused], np.int64))
        for watch in watches:
            watch.turns.excused.clear()
        self._answers(feed, found)
        for one in _pieces(feed):
            if found.rule[one.row] == NOTHING:
                found.rule[one.row], found.said[one.row] = one.rule, one.detail
        if states is not None:
            states.tell()
        self._note(feed, found, machine, states.side if states is not None else feed.side)
        self._rows += len(feed)
        for i, watch in enumerate(watches):
            watch.is_known = True
            rows = slice(int(runs.starts[i]), int(runs.starts[i + 1]))
            for side, lost in enumerate(watch.losses):
                own = feed.ts[rows][feed.side[rows] == side][-2:].tolist()
                watch.heard_us[side] = [*watch.heard_us[side], *own][-2:]
                lost.forget()

    def _watch(self, connection: str, protocol: str, machine: Automaton | None) -> Watch:
        found = self._watches.get(connection)
        if found is not None and found.protocol == protocol:
            return found
        is_whole = self._unheard.pop(connection, None) is not None and found is None
        state = 0 if machine is None else machine.initial if is_whole else machine.unknown
        made = self._watches[connection] = Watch(self._numbers, protocol, Turns(state))
        made.losses = (Losses(not is_whole), Losses(not is_whole))
        self._numbers += 1
        return made

    def _note_losses(self, feed: _Feed, damage: pa.Table | None) -> None:
        """When something was lost. A bad range tells the time of its end; it began after what came before it. But the
        message right before it may be made of bytes that do not belong together: so after the one before that.
        """
        if damage is None or not damage.num_rows:
            return
        place = {name: i for i, name in enumerate(feed.runs.names)}
        offset = integers(feed.table, "offset")
        excuses: list[Excuse] = []
        for name, side, at, ts in _bad_ranges(damage):
            i = place.get(name)
            if i is None:
                continue
            rows = slice(int(feed.runs.starts[i]), int(feed.runs.starts[i + 1]))
            own = np.flatnonzero(feed.side[rows] == side) + rows.start
            times = [
                *feed.watches[i].heard_us[side],
                *feed.ts[own[: int(np.searchsorted(offset[own], at))][-2:]].tolist(),
            ]
            feed.watches[i].losses[side].add(times[-2], ts)
            excuses.append(Excuse(name, side, times[-2], ts))
        self._waiting.excuse(excuses)

    def _note_losses_of_silent(self, facts: pa.Table, damage: pa.Table) -> None:
        """The same for connections of which there is nothing but bad ranges this time."""
        heard = set(pc.unique(facts.column("connection")).to_pylist())
        excuses: list[Excuse] = []
        for name, side, _, ts in _bad_ranges(damage):
            watch = self._watches.get(name)
            if watch is not None and name not in heard:
                watch.losses[side].add(watch.heard_us[side][0], ts)
                excuses.append(Excuse(name, side, watch.heard_us[side][0], ts))
        self._waiting.excuse(excuses)

    def _note(self, feed: _Feed, found: Found, machine: Automaton | None, side: NDArray[np.int8]) -> None:
        """All but what came while something was being lost."""
        rows = found.rows
        lossy = np.array([any(lost.spans for lost in watch.losses) for watch in feed.watches], np.bool_)
        if lossy.any() and len(rows):
            owner = np.searchsorted(feed.runs.starts, rows, "right") - 1
            covered = np.zeros(len(rows), np.bool_)
            for at in np.flatnonzero(lossy[owner]).tolist():
                ts = int(feed.ts[rows[at]])
                covered[at] = any(lost.covers(ts) for lost in feed.watches[int(owner[at])].losses)
            rows = rows[~covered]
        if len(rows):
            self._waiting.add(_table(feed, found, rows, machine, side, self._rows))

    def _machine(self, name: str) -> Automaton | None:
        protocol = self._protocols.get(name) or (load(name) if name in BUILT_IN else None)
        return automaton(protocol) if protocol is not None else None

    # --- requests and answers

    def _answers(self, feed: _Feed, found: Found) -> None:
        table = feed.table
        step = integers(table, "step")
        if not step.any():
            return
        piece = integers(table, "piece", -1)
        ends = truths(table, "ends")
        correlation = whole(table, "correlation")
        named = pc.is_valid(correlation).to_numpy(zero_copy_only=False)
        control = pc.equal(whole(table, "kind"), "control").to_numpy(zero_copy_only=False)
        role = np.zeros(len(feed), np.int8)
        role[(step == REQUEST) & (piece <= 0) & truths(table, "wants_reply", True) & ~control] = ASKS
        is_answer = (step == ANSWER) & ~control
        role[is_answer] = np.where(ends[is_answer], ENDS, ANSWERS)
        if (how := SPLITTING.get(feed.watches[0].protocol)) is not None and not how.per_stream:
            # The first piece stands for the whole message.
            role[is_answer & (piece > 0)] = 0
        role[step == CLOSE] = CLOSES
        # Known clients answer everything that is called a heartbeat, also answers to their own.
        role[is_answer & (feed.side == 0) & truths(table, "heartbeat")] = 0
        ordinal = _ordinals(feed, is_answer)
        role[(found.rule != NOTHING) & (role != ASKS)] = 0
        manners = answers.MANNERS.get(feed.watches[0].protocol, answers.PLAIN)
        if not named.all() and manners.inventing_side is not None:
            # Wrong where one side alone may make up ids, and this is the other side.
            wrong = ~named & ((role == ANSWERS) | (role == ENDS)) & (feed.side != manners.inventing_side)
            found.add(np.flatnonzero(wrong), NAMELESS_REPLY)
        used = np.flatnonzero((role != 0) & named)
        self._check(feed, found, used, role, correlation, ordinal, manners)

    def _check(
        self,
        feed: _Feed,
        found: Found,
        used: NDArray[np.int64],
        role: NDArray[np.int8],
        correlation: pa.Array,
        ordinal: NDArray[np.int64],
        manners: answers.Manners,
    ) -> None:
        table = feed.table
        numbers = np.array([watch.number for watch in feed.watches], np.int32)
        who = feed.runs.spread(numbers)[used]
        asks_or_closes = np.isin(role[used], (ASKS, CLOSES))
        asker = np.where(asks_or_closes, feed.side[used], 1 - feed.side[used]).astype(np.uint64)
        picked = correlation if len(used) == len(correlation) else correlation.take(pa.array(used))
        key = arrays.hashed(picked).view(np.uint64) ^ _mixed(who.astype(np.uint64) * np.uint64(2) + asker)
        kept = np.concatenate([np.zeros(0, KEPT), *self._kept.take(key)])
        kept = kept[_remembered(kept, feed.watches)]
        ts, limit = feed.ts[used], integers(table, "limit_us")[used]
        until = np.where(limit > 0, ts + limit + np.maximum(limit, LATE_US), FOR_EVER)
        rows = answers.Rows(
            kept,
            np.concatenate([kept["key"], key]),
            np.concatenate([kept["role"], role[used]]),
            np.concatenate([kept["code"].astype(np.int64), feed.code[used]]),
            np.concatenate([kept["pair"].astype(np.int64), integers(table, "pair")[used]]),
            np.concatenate([kept["lane"].astype(np.int64), integers(table, "lane")[used]]),
            np.concatenate([kept["ts"], ts]),
            np.concatenate([kept["until"], until]),
            np.concatenate([kept["ordinal"], ordinal[used]]),
            np.concatenate([kept["who"], who]),
            feed.side[used],
            _invented(feed, manners)[used],
            self._rows + used,
        )
        checked = answers.check(rows, manners, {watch.number: watch.losses for watch in feed.watches})
        rule = checked.rule
        if len(checked.met):
            self._waiting.drop(checked.met)
            rule = np.where(np.isin(rows.number, checked.met), NOTHING, rule).astype(np.int8)
        wrong = np.flatnonzero(rule)
        found.add(used[wrong], rule[wrong], checked.us[wrong])
        for watch, end in zip(feed.watches, feed.runs.starts[1:].tolist(), strict=True):
            watch.checked = (watch.replies, int(feed.ts[end - 1]))
        left = checked.kept[_remembered(checked.kept, feed.watches)]
        self._kept.put(left, left["key"])


def _bad_ranges(damage: pa.Table) -> Iterator[tuple[str, int, int, int]]:
    """Connection, side, offset and time of each, by offset."""
    damage = damage.select(["connection", "direction", "offset", "ts"]).sort_by("offset")
    sides = (int(direction == "to_client") for direction in damage.column("direction").to_pylist())
    names, offsets = (damage.column(name).to_pylist() for name in ("connection", "offset"))
    return zip(names, sides, offsets, integers(damage, "ts").tolist(), strict=True)


def _invented(feed: _Feed, manners: answers.Manners) -> NDArray[np.bool_]:
    """Answers whose id the sender may have made up: errors, and what system topics say, of the side that does so."""
    if manners.inventing_side is None:
        return np.zeros(len(feed), np.bool_)
    failed = pc.fill_null(pc.not_equal(whole(feed.table, "result"), "ok"), False).to_numpy(zero_copy_only=False)
    return np.asarray((feed.side == manners.inventing_side) & (failed | truths(feed.table, "own_id")), np.bool_)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spreads small numbers over 64 bits."""
    mixed = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(31)
    return mixed * np.uint64(0xBF58476D1CE4E5B9)


def _ordinals(feed: _Feed, is_answer: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Counts the answers of each connection; a row that is none has the number of those before it."""
    counted = np.cumsum(is_answer)
    before = np.concatenate([[0], counted])[feed.runs.starts[:-1]]
    known = np.array([watch.replies for watch in feed.watches], np.int64)
    found = counted - feed.runs.spread(before) + feed.runs.spread(known)
    for watch, end in zip(feed.watches, feed.runs.starts[1:].tolist(), strict=True):
        watch.replies = int(found[end - 1])
    return np.asarray(found, np.int64)


def _remembered(kept: NDArray[Any], watches: Iterable[Watch]) -> NDArray[np.bool_]:
    """Whether the next answer of its connection, which is one of these, can still be measured against it."""
    known = sorted((watch.number, *watch.checked) for watch in watches)
    numbers, replies, last = np.array(known, np.int64).reshape(-1, 3).T
    place = np.minimum(np.searchsorted(numbers, kept["who"]), len(numbers) - 1)
    ended = np.isin(kept["role"], (answers.ANSWERED, answers.CLOSED))
    recent = (replies[place] - kept["ordinal"] < answers.RECENT) & (last[place] - kept["done_us"] <= LATE_US)
    return np.asarray(np.where(ended, recent, kept["until"] >= last[place]), np.bool_)


# --- states


class _States:
    """Runs the automaton over all connections at once.

    Most messages leave the state as it is. So all rows are looked up under the state their connection has; the first
    that changes it is applied, and only the rows behind it are looked up again. A connection that changes its state
    many times, that lost bytes, or in which something is forbidden, is walked alone from there on, and even there what
    changes nothing is passed over in bulk.
    """

    def __init__(self, machine: Automaton, feed: _Feed, base: int, found: Found) -> None:
        self.machine = machine
        self.feed = feed
        self.base = base
        self.found = found
        self.history = [([-1], [watch.turns.state]) for watch in feed.watches]
        """Of each connection: rows at which its state changed, and to what."""
        refusal = np.zeros(len(feed), np.bool_)
        for row, told in told_rows(feed.table):
            refusal[row] = told.get(HANDSHAKE) == REFUSED
        self._find_roles()
        swapped = np.array([watch.swapped for watch in feed.watches], np.int8)
        self.side = feed.side ^ feed.runs.spread(swapped) if swapped.any() else feed.side
        self.symbol = machine.symbols(feed.code, self.side, refusal)

    def run(self) -> None:
        feed = self.feed
        alone = np.array([_is_special(watch) for watch in feed.watches], np.bool_)
        rows = np.arange(len(feed))
        connection = feed.runs.spread(np.arange(len(feed.watches)))
        if alone.any():
            rows = rows[~alone[connection]]
        resume = self._in_bulk(rows, connection)
        for i in np.flatnonzero(alone).tolist():
            resume[i] = int(feed.runs.starts[i])
        for i, start in sorted(resume.items()):
            self._walk(i, start)

    def tell(self) -> None:
        """The states in which other rules than that of the life cycle were broken: those behind the messages."""
        rows = np.flatnonzero((self.found.rule != NOTHING) & (self.found.rule != STATE))
        if len(rows):
            starts = self.feed.runs.starts.tolist()
            changed = [max(row, start) for start, (at, _) in zip(starts, self.history, strict=False) for row in at]
            states = np.array([state for _, known in self.history for state in known], np.int64)
            self.found.state[rows] = states[np.searchsorted(np.array(changed), rows, "right") - 1]

    def _find_roles(self) -> None:
        """Who is the client, where the side that was dialled may be it."""
        machine, feed = self.machine, self.feed
        if not machine.either_may_dial:
            return
        opening = machine.initial
        for watch, start in zip(feed.watches, feed.runs.starts.tolist(), strict=False):
            which, side = machine.which(int(feed.code[start])), int(feed.side[start])
            if watch.is_known or machine.sent_by[which] not in SIDES or machine.sent_by[which] == SIDES[side]:
                continue
            is_opening = machine.table[opening, 2 * which + 1 - side] != FORBIDDEN
            watch.swapped = bool(watch.turns.state != opening or is_opening)

    def _in_bulk(self, rows: NDArray[np.int64], connection: NDArray[np.int64]) -> dict[int, int]:
        """Gives the connections that have to be walked, and from which row on."""
        feed, table = self.feed, self.machine.table
        state = np.array([watch.turns.state for watch in feed.watches], np.int64)
        resume: dict[int, int] = {}
        for _ in range(BULK_STEPS):
            if not len(rows):
                return resume
            where = connection[rows]
            now = state[where]
            then = table[now, self.symbol[rows]]
            movers, firsts = _firsts(where, np.arange(len(rows)), then != now)
            stop = np.full(len(state), len(feed))
            stop[movers] = rows[firsts]
            for i, first in zip(movers.tolist(), firsts.tolist(), strict=True):
                if then[first] == FORBIDDEN:
                    resume[i] = int(rows[first])
                    stop[i] = len(feed)
                else:
                    row = int(rows[first])
                    feed.watches[i].turns.move(self.machine, int(then[first]), int(self.side[row]), int(feed.ts[row]))
                    self._remember(i, row)
                    state[i] = then[first]
            rows = rows[rows > stop[where]]
        left, firsts = _firsts(connection[rows], rows)
        return resume | dict(zip(left.tolist(), firsts.tolist(), strict=True))

    def _remember(self, i: int, row: int) -> None:
        self.history[i][0].append(row)
        self.history[i][1].append(self.feed.watches[i].turns.state)

    def _walk(self, i: int, start: int) -> None:
        """One connection, message by message. Behind a loss its state is unknown."""
        feed, watch = self.feed, self.feed.watches[i]
        ends = sorted([*watch.losing, *(end for lost in watch.losses for _, end in lost.new)])
        row, stop = start, int(feed.runs.starts[i + 1])
        at, walked = 0, WALKED
        while row < stop:
            at = self._step(i, slice(row, min(row + walked, stop)), ends, at)
            row = min(row + walked, stop)
            passed = self._pass(i, row, stop, ends[at] if at < len(ends) else FOR_EVER)
            walked = WALKED if passed - row >= CALM else min(2 * walked, answers.BLOCK)
            row = passed
        watch.losing = ends[at:]
        watch.turns.forget(int(feed.ts[stop - 1]))
        for number in watch.turns.excused:
            if number >= self.base:
                self.found.rule[number - self.base] = NOTHING

    def _step(self, i: int, rows: slice, ends: list[int], at: int) -> int:
        """A few messages. ``ends`` are those of losses, the ones before ``at`` have passed."""
        feed, machine, turns = self.feed, self.machine, self.feed.watches[i].turns
        for row, (ts, side, symbol) in enumerate(
            zip(feed.ts[rows].tolist(), self.side[rows].tolist(), self.symbol[rows].tolist(), strict=True), rows.start
        ):
            while at < len(ends) and ends[at] < ts:
                turns.lose(machine)
                at += 1
            if machine.table[turns.state, symbol] == turns.state:
                continue
            if not turns.take(machine, Message(ts, self.base + row, side, symbol)):
                self.found.rule[row], self.found.state[row] = STATE, turns.state
            if turns.state != self.history[i][1][-1]:
                self._remember(i, row)
        return at

    def _pass(self, i: int, row: int, stop: int, lost_us: int) -> int:
        """Passes over messages that change nothing, be they allowed or not; gives the first that may."""
        machine, turns = self.machine, self.feed.watches[i].turns
        size = CALM
        while row < stop:
            rows = slice(row, min(row + size, stop))
            ts, symbol = self.feed.ts[rows], self.symbol[rows]
            then = machine.table[turns.state, symbol]
            forbidden = then == FORBIDDEN
            matters = (then != turns.state) & ~forbidden | (ts > lost_us)
            if len(turns.kept) < MOST_KEPT:
                matters |= forbidden & machine.moves[symbol]
            passed = int(matters.argmax()) if matters.any() else len(ts)
            forbidden &= ~turns.were_under_way(machine, ts, self.side[rows], symbol)
            wrong = row + np.flatnonzero(forbidden[:passed])
            self.found.rule[wrong], self.found.state[wrong] = STATE, turns.state
            row += passed
            if passed < len(ts):
                return row
            size *= 2
        return row


def _is_special(watch: Watch) -> bool:
    return bool(watch.turns.kept or watch.losing) or any(lost.new for lost in watch.losses)


def _firsts(
    groups: NDArray[np.int64], values: NDArray[np.int64], mask: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The groups, which are adjacent, and the first value of each, of those that the mask has."""
    if mask is not None:
        groups, values = groups[mask], values[mask]
    if not len(groups):
        return groups, values
    first = np.concatenate([[True], groups[1:] != groups[:-1]])
    return groups[first], values[first]


# --- pieces


def _pieces(feed: _Feed) -> list[Finding]:
    how = SPLITTING.get(feed.watches[0].protocol)
    if how is None:
        return []
    number = integers(feed.table, "piece", -1)
    waiting = [bool(watch.groups.open) for watch in feed.watches]
    if not (number >= 0).any() and not any(waiting):
        return []
    rows = _rows_of_pieces(feed, number, how.per_stream)
    picked = feed.table.select(["correlation", "piece_key", "lane", "pieces", "ends", "step"]).take(pa.array(rows))
    findings: list[Finding] = []
    run = np.searchsorted(feed.runs.starts, rows, "right") - 1
    for row, watch_at, one in zip(rows.tolist(), run.tolist(), picked.to_pylist(), strict=True):
        watch = feed.watches[watch_at]
        if one["step"] == CLOSE:
            watch.groups.close(one["correlation"])
            continue
        piece = Piece(
            row,
            int(feed.side[row]),
            one["correlation"],
            one["lane"] or 0,
            one["piece_key"],
            int(number[row]),
            one["pieces"] or 0,
            bool(one["ends"]) and how.per_stream,
            int(feed.ts[row]),
        )
        found = watch.groups.take(how, piece, watch.losses)
        if found is not None:
            findings.append(found)
    return findings


def _rows_of_pieces(feed: _Feed, number: NDArray[np.int64], per_stream: bool) -> NDArray[np.int64]:
    """The pieces; and where they belong to a stream, all else that these streams send."""
    is_piece = number >= 0
    if not per_stream:
        return np.flatnonzero(is_piece)
    correlation = whole(feed.table, "correlation")
    streams = set(correlation.filter(pa.array(is_piece)).to_pylist())
    streams |= {where[1] for watch in feed.watches for where in watch.groups.open}
    wanted = pc.is_in(correlation, value_set=pa.array([one for one in streams if one is not None], pa.string()))
    return np.flatnonzero(wanted.to_numpy(zero_copy_only=False))


# --- tables


def _by_protocol(facts: pa.Table) -> list[pa.Table]:
    if not facts.num_rows:
        return []
    names = pc.unique(facts.column("protocol")).to_pylist()
    if len(names) == 1:
        return [facts]
    return [facts.filter(pc.equal(facts.column("protocol"), name)) for name in sorted(names)]


def _table(
    feed: _Feed,
    found: Found,
    rows: NDArray[np.int64],
    machine: Automaton | None,
    side: NDArray[np.int8],
    base: int,
) -> pa.Table:
    """Violations and their numbers."""
    picked = feed.table.select(_TAKEN).take(pa.array(rows, pa.int64())).combine_chunks()
    made = {
        "rule": found.rules(rows),
        "detail": found.details(rows, machine, side),
        "state": found.states(rows, machine),
        "number": pa.array(base + rows),
    }
    made |= {
        name: whole(picked, name).dictionary_encode() if name in _CODED else picked.column(name) for name in _TAKEN
    }
    return pa.table({name: made[name] for name in (*VIOLATIONS.names, "number")})


def _decided(rows: pa.Table | None) -> pa.Table:
    if rows is None:
        return VIOLATIONS.empty_table()
    plain = pa.table([rows.column(field.name).cast(field.type) for field in VIOLATIONS], VIOLATIONS)
    return plain.sort_by([("ts", "ascending"), ("connection", "ascending"), ("offset", "ascending")])
