"""``gold/violations``: good bytes at the wrong moment.

Rules, of which a message breaks at most the first:

- ``state``: the declared life cycle does not allow the message (``lifecycle.py``).
- ``unexpected_reply``, ``duplicate_reply``, ``duplicate_request``: ``matching.py``. A late reply is no violation.
- ``page_order``, ``group_order``: ``pieces.py``.

Nothing is reported that lost bytes could excuse. A loss (a gap, a quarantined range, what came before the capture)
lasts from the last messages before it to its last byte. While it lasts nothing of its connection is reported; behind it
the state is unknown until messages make it certain. A reply to a request of a direction that has lost something is
never unexpected any more; a second reply, or a request made twice, is reported only if nothing was lost between the
two; of pieces likewise. A loss may be known a while after what came meanwhile the other way: so a row is given out when
its connection has ended, or both sides have sent two messages since and EARLY_US have passed, or UNHEARD_US have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..columnar.schema import TIMESTAMP, documented
from ..kernels.match_codes import EARLY_US, LATE_US
from ..kernels.piece_codes import FIRST_IS_MISSING
from . import arrays
from . import violation_rows as rules
from .arrays import Ints, Mask, integers, joined
from .declarations import Declarations
from .fact_groups import ProtocolFacts
from .lifecycle import Automaton, ConnectionState, automaton
from .lifecycle_check import StateCheck, Watch
from .losses import Excuse, Losses
from .matching import Matched
from .pieces import PieceFaults
from .violation_rows import Found, Waiting

UNHEARD_US = 3_600_000_000
"""How long a connection that was opened and says nothing is remembered as one whose beginning was captured, and how
long a row waits for a loss that could excuse it."""

VIOLATIONS = documented(
    ("capture", pa.string(), "the file or tap it came from"),
    ("connection", pa.string(), "the connection"),
    ("direction", pa.string(), "`to_server` or `to_client`"),
    ("offset", pa.int64(), "first byte of the message in its stream"),
    ("length", pa.int32(), "bytes of the message"),
    ("ts", TIMESTAMP, "when the message was complete"),
    ("protocol", pa.string(), "the protocol"),
    ("message", pa.string(), "which message"),
    (
        "rule",
        pa.string(),
        "`state`, `unexpected_reply`, `duplicate_reply`, `duplicate_request`, `page_order`, `group_order`",
    ),
    ("state", pa.string(), "state of the connection by its life cycle; all that it can be, joined by |"),
    ("detail", pa.string(), "what is wrong, in a sentence"),
    ("correlation", pa.string(), "what ties a reply to its request"),
)
_TAKEN = ("capture", "connection", "direction", "offset", "length", "ts", "protocol", "message", "correlation")
_CODED = frozenset(("capture", "connection", "direction", "protocol", "message"))
"""What is the same in many violations."""
_HEAD = ("connection", "is_whole", "first_us", "last_us", "ended", "ended_us")


@dataclass
class ViolationsCarry:
    watches: dict[str, Watch] = field(default_factory=dict)
    unheard: dict[str, int] = field(default_factory=dict)
    """Whole connections without a message so far -> when they were last seen."""
    waiting: pa.Table | None = None


class Violations:
    """The step. ``carry`` is what an earlier one gave by ``carry()``; feeding it in parts gives the same rows."""

    def __init__(self, carry: ViolationsCarry | None = None, protocols: Declarations | None = None) -> None:
        carry = carry if carry is not None else ViolationsCarry()
        self._protocols = protocols or Declarations()
        self._watches, self._unheard = carry.watches, carry.unheard
        self._waiting = Waiting(carry.waiting)

    def carry(self) -> ViolationsCarry:
        return ViolationsCarry(self._watches, self._unheard, self._waiting.table)

    def feed(self, matched: Matched, connections: pa.Table, quarantined: pa.Table | None = None) -> pa.Table:
        """Return rows for facts that were matched.

        ``connections`` (CONNECTIONS) say of those that are new whether they are whole; ``quarantined`` are the rows of
        silver/quarantine that came with these facts, gaps among them.
        """
        heads = connections.select(_HEAD).to_pylist()
        for row in heads:
            if row["is_whole"] and row["connection"] not in self._watches:
                self._unheard[row["connection"]] = row["last_us"] or row["first_us"] or 0
        if quarantined is not None and quarantined.num_rows:
            self._note_losses_of_silent(matched.facts, quarantined)
        self._waiting.drop(matched.withdrawn, rules.UNEXPECTED_REPLY)
        for part in matched.parts:
            self._feed_protocol(part, matched, quarantined)
        ended = {row["connection"] for row in heads if row["ended"]}
        for row in heads:
            if row["ended"] and row["connection"] in self._watches:
                self._watches[row["connection"]].ended_us = row["ended_us"] or 0
        return _decided(self._waiting.take_of(ended))

    def settle(self, watermark: int, final: bool = False) -> pa.Table:
        """Rows that are decided now that everything up to ``watermark`` (microseconds) was fed."""
        self._watches = {
            name: watch
            for name, watch in self._watches.items()
            if not final and (watch.ended_us is None or watch.ended_us + LATE_US >= watermark)
        }
        self._unheard = {
            name: seen for name, seen in self._unheard.items() if not final and seen + UNHEARD_US >= watermark
        }
        if final:
            return _decided(self._waiting.take_all())
        heard = {name: watch.known_us for name, watch in self._watches.items() if watch.ended_us is None}
        return _decided(self._waiting.take_before(watermark - EARLY_US, heard, watermark - UNHEARD_US))

    # --- one protocol's share of the facts

    def _feed_protocol(self, facts: ProtocolFacts, matched: Matched, quarantined: pa.Table | None) -> None:
        protocol = self._protocols.protocol(facts.protocol)
        machine = automaton(protocol) if protocol is not None else None
        watches = [self._watch(one, facts.protocol, machine) for one in facts.runs.names]
        if quarantined is not None and quarantined.num_rows:
            self._note_losses(facts, watches, quarantined)
        share = _Share(facts, watches, machine, matched)
        share.judge()
        self._waiting.drop(share.withdraw_explained())
        if len(wrong := share.rows()):
            self._waiting.add(share.table(wrong))
        for i, watch in enumerate(watches):
            watch.is_known = True
            rows = slice(int(facts.runs.starts[i]), int(facts.runs.starts[i + 1]))
            for side, lost in enumerate(watch.losses):
                own = facts.ts[rows][facts.side[rows] == side][-2:].tolist()
                watch.heard_us[side] = [*watch.heard_us[side], *own][-2:]
                lost.forget()

    def _watch(self, connection: str, protocol: str, machine: Automaton | None) -> Watch:
        known = self._watches.get(connection)
        if known is not None and known.protocol == protocol:
            return known
        is_whole = self._unheard.pop(connection, None) is not None and known is None
        state = 0 if machine is None else machine.initial if is_whole else machine.unknown
        made = self._watches[connection] = Watch(protocol, ConnectionState(state))
        made.losses = (Losses(not is_whole), Losses(not is_whole))
        return made

    def _note_losses(self, facts: ProtocolFacts, watches: list[Watch], quarantined: pa.Table) -> None:
        """Note when something was lost. A bad range tells the time of its end; it began after what came before it. But
        the message right before it may be made of bytes that do not belong together: so after the one before that.
        """
        place = {name: i for i, name in enumerate(facts.runs.names)}
        offset = integers(facts.table["offset"])
        excuses: list[Excuse] = []
        for name, side, at, ts in _bad_ranges(quarantined):
            i = place.get(name)
            if i is None:
                continue
            rows = slice(int(facts.runs.starts[i]), int(facts.runs.starts[i + 1]))
            own = np.flatnonzero(facts.side[rows] == side) + rows.start
            before = facts.ts[own[: int(np.searchsorted(offset[own], at))][-2:]].tolist()
            since = [*watches[i].heard_us[side], *before][-2]
            since = max(since, ts - UNHEARD_US)
            watches[i].losses[side].add(since, ts)
            excuses.append(Excuse(name, side, since, ts))
        self._waiting.excuse(excuses)

    def _note_losses_of_silent(self, facts: pa.Table, quarantined: pa.Table) -> None:
        """The same for connections of which there is nothing but bad ranges this time."""
        heard = set(pc.unique(facts.column("connection")).to_pylist())
        excuses: list[Excuse] = []
        for name, side, _, ts in _bad_ranges(quarantined):
            watch = self._watches.get(name)
            if watch is not None and name not in heard:
                since = max(watch.heard_us[side][0], ts - UNHEARD_US)
                watch.losses[side].add(since, ts)
                excuses.append(Excuse(name, side, since, ts))
        self._waiting.excuse(excuses)


class _Share:
    """One protocol's share of a feed, and what is wrong in it."""

    def __init__(self, facts: ProtocolFacts, watches: list[Watch], machine: Automaton | None, matched: Matched) -> None:
        self.facts, self.watches, self.machine, self.matched = facts, watches, machine, matched
        self.numbers = matched.first + facts.rows
        self.found = Found.nothing(len(facts))
        self.states = StateCheck(machine, facts, watches, self.numbers, self.found) if machine is not None else None

    def judge(self) -> None:
        if self.states is not None:
            self.states.run()
        self._take_faults()
        pieces = self.matched.pieces.get(self.facts.protocol)
        if pieces is not None:
            self._take_piece_faults(pieces)

    def withdraw_explained(self) -> Ints:
        """Return the numbers of messages that later ones have explained; they break no rule, whichever it seemed."""
        numbers = np.array([number for watch in self.watches for number in watch.state.excused], np.int64)
        for watch in self.watches:
            watch.state.excused.clear()
        self.found.rule[np.isin(self.numbers, numbers)] = rules.NOTHING
        return numbers

    def rows(self) -> Ints:
        """Return the rows that break a rule, except those that came while something was being lost."""
        if self.states is not None:
            self.states.note_states()
        rows = self.found.rows
        covered = np.zeros(len(rows), np.bool_)
        for own, watch in self._by_connection(rows):
            for lost in watch.losses:
                covered[own] |= lost.covers(self.facts.ts[rows[own]])
        return rows[~covered]

    def _take_faults(self) -> None:
        """Take over what the matcher found, if no loss excuses it: of the requester's direction for a reply, of the
        replier's for a request."""
        fault = self.matched.fault[self.facts.rows]
        rows = np.flatnonzero(fault)
        at, rule = self.facts.rows[rows], fault[rows]
        other = 1 - self.facts.side[rows]
        excused = self._excused(rows, other, self.matched.since[at], rule == rules.UNEXPECTED_REPLY)
        kept = ~excused | (rule == rules.ANONYMOUS_REPLY)
        self.found.add(rows[kept], rule[kept], self.matched.us[at[kept]])

    def _take_piece_faults(self, pieces: PieceFaults) -> None:
        rows = pieces.rows
        excused = self._excused(rows, self.facts.side[rows], pieces.since, pieces.fault == FIRST_IS_MISSING)
        said = dict(zip(rows.tolist(), pieces.sentences(), strict=True))
        free = rows[~excused & (self.found.rule[rows] == rules.NOTHING)]
        self.found.rule[free] = rules.PIECE_RULES[pieces.how.rule]
        self.found.said |= {row: said[row] for row in free.tolist()}

    def _excused(self, rows: Ints, side: NDArray[np.int8], since: Ints, by_any_loss: Mask) -> Mask:
        """Say which rows the losses of one side excuse: any loss before them, or only one after ``since``."""
        excused, ts = np.zeros(len(rows), np.bool_), self.facts.ts[rows]
        for own, watch in self._by_connection(rows):
            for loser, lost in enumerate(watch.losses):
                mine = own[side[own] == loser]
                between = lost.between(since[mine], ts[mine])
                excused[mine] = np.where(by_any_loss[mine], lost.first_us() <= ts[mine], between)
        return excused

    def _by_connection(self, rows: Ints) -> Iterator[tuple[Ints, Watch]]:
        """Go through rows by the connections that have lost something."""
        bounds = np.searchsorted(rows, self.facts.runs.starts)
        for i in np.flatnonzero(np.diff(bounds)).tolist():
            if any(lost.from_start or lost.spans for lost in self.watches[i].losses):
                yield np.arange(bounds[i], bounds[i + 1]), self.watches[i]

    def table(self, rows: Ints) -> pa.Table:
        """Return violations and their numbers."""
        side = self.states.side if self.states is not None else self.facts.side
        made = {
            "rule": self.found.rules(rows),
            "detail": self.found.details(rows, self.machine, side),
            "state": self.found.states(rows, self.machine),
            "number": pa.array(self.numbers[rows]),
        }
        for name in _TAKEN:
            column = joined(self.facts.table[name].take(pa.array(rows, pa.int64())))
            made[name] = column.dictionary_encode() if name in _CODED else column
        return pa.table({name: made[name] for name in (*VIOLATIONS.names, "number")})


def _bad_ranges(quarantined: pa.Table) -> Iterator[tuple[str, int, int, int]]:
    """Connection, side, offset and time of each, by offset."""
    quarantined = quarantined.select(["connection", "direction", "offset", "ts"]).sort_by("offset")
    sides = (int(direction == "to_client") for direction in quarantined.column("direction").to_pylist())
    names, offsets = (quarantined.column(name).to_pylist() for name in ("connection", "offset"))
    return zip(names, sides, offsets, integers(quarantined["ts"]).tolist(), strict=True)


def _decided(rows: pa.Table | None) -> pa.Table:
    if rows is None:
        return arrays.empty(VIOLATIONS)
    plain = pa.table([rows.column(field.name).cast(field.type) for field in VIOLATIONS], VIOLATIONS)
    return plain.sort_by([("ts", "ascending"), ("connection", "ascending"), ("offset", "ascending")])
