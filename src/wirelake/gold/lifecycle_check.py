"""Messages that the declared life cycle does not allow, found for all connections of a feed at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..spec.conduct import HANDSHAKE, REFUSED
from . import arrays
from .arrays import FOR_EVER, Ints
from .fact_groups import ProtocolFacts, introductions
from .lifecycle import FORBIDDEN, MOST_KEPT, Automaton, ConnectionState, Message
from .losses import Losses
from .violation_rows import NOTHING, SIDES, STATE, Found

BULK_STEPS = 16
WALKED, CALM, MOST_WALKED = 16, 64, 4096
"""So many messages are walked before it is tried to go on in bulk; that was worth it if it got so far."""


@dataclass
class Watch:
    """What is known about one connection."""

    protocol: str
    state: ConnectionState
    swapped: bool = False
    """The side that was dialled is the client of the protocol."""
    is_known: bool = False
    """It was fed before."""
    ended_us: int | None = None
    heard_us: list[list[int]] = field(default_factory=lambda: [[0, 0], [0, 0]])
    """Times of the last two messages of each side: a loss that is not known yet began behind the first of them."""
    losses: tuple[Losses, Losses] = field(default_factory=lambda: (Losses(), Losses()))
    losing: list[int] = field(default_factory=list)
    """Ends of losses that no message has passed yet."""

    @property
    def known_us(self) -> int:
        """Up to when nothing can be lost that is not known."""
        return min(times[0] for times in self.heard_us)


class StateCheck:
    """Runs the automaton over all connections at once.

    Most messages leave the state as it is. So all rows are looked up under the state their connection has; the first
    that changes it is applied, and only the rows behind it are looked up again. A connection that changes its state
    many times, that lost bytes, or in which something is forbidden, is walked alone from there on, and even there what
    changes nothing is passed over in bulk.
    """

    def __init__(
        self, machine: Automaton, feed: ProtocolFacts, watches: list[Watch], numbers: Ints, found: Found
    ) -> None:
        self.machine, self.feed, self.watches, self.found = machine, feed, watches, found
        self.numbers = numbers
        self.history = [([-1], [watch.state.state]) for watch in self.watches]
        """Of each connection: rows at which its state changed, and to what."""
        refusal = np.zeros(len(feed), np.bool_)
        for row, said in introductions(feed.table):
            refusal[row] = said.get(HANDSHAKE) == REFUSED
        self._find_roles()
        swapped = np.array([watch.swapped for watch in self.watches], np.int8)
        self.side = feed.side ^ feed.runs.spread(swapped) if swapped.any() else feed.side
        self.symbol = machine.symbols(feed.code, self.side, refusal)

    def run(self) -> None:
        feed = self.feed
        alone = np.array([_is_special(watch) for watch in self.watches], np.bool_)
        rows = np.arange(len(feed))
        connection = feed.runs.spread(np.arange(len(self.watches)))
        if alone.any():
            rows = rows[~alone[connection]]
        resume = self._in_bulk(rows, connection)
        for i in np.flatnonzero(alone).tolist():
            resume[i] = int(feed.runs.starts[i])
        for i, start in sorted(resume.items()):
            self._walk(i, start)

    def note_states(self) -> None:
        """Note the states in which other rules than that of the life cycle were broken: those behind the messages."""
        rows = np.flatnonzero((self.found.rule != NOTHING) & (self.found.rule != STATE))
        if len(rows):
            starts = self.feed.runs.starts.tolist()
            changed = [max(row, start) for start, (at, _) in zip(starts, self.history, strict=False) for row in at]
            states = np.array([state for _, known in self.history for state in known], np.int64)
            self.found.state[rows] = states[np.searchsorted(np.array(changed), rows, "right") - 1]

    def _find_roles(self) -> None:
        """Find out who is the client, where the side that was dialled may be it."""
        machine, feed = self.machine, self.feed
        if not machine.either_may_dial:
            return
        opening = machine.initial
        for watch, start in zip(self.watches, feed.runs.starts.tolist(), strict=False):
            which, side = machine.which(int(feed.code[start])), int(feed.side[start])
            if watch.is_known or machine.sent_by[which] not in SIDES or machine.sent_by[which] == SIDES[side]:
                continue
            is_opening = machine.table[opening, 2 * which + 1 - side] != FORBIDDEN
            watch.swapped = bool(watch.state.state != opening or is_opening)

    def _in_bulk(self, rows: Ints, connection: Ints) -> dict[int, int]:
        """Return the connections that have to be walked, and from which row on."""
        feed, table = self.feed, self.machine.table
        state = np.array([watch.state.state for watch in self.watches], np.int64)
        resume: dict[int, int] = {}
        for _ in range(BULK_STEPS):
            if not len(rows):
                return resume
            where = connection[rows]
            now = state[where]
            then = table[now, self.symbol[rows]]
            moved = np.flatnonzero(then != now)
            movers, firsts = _firsts(where[moved], moved)
            stop = np.full(len(state), len(feed))
            stop[movers] = rows[firsts]
            for i, first in zip(movers.tolist(), firsts.tolist(), strict=True):
                if then[first] == FORBIDDEN:
                    resume[i] = int(rows[first])
                    stop[i] = len(feed)
                else:
                    row = int(rows[first])
                    self.watches[i].state.move(self.machine, int(then[first]), int(self.side[row]), int(feed.ts[row]))
                    self._remember(i, row)
                    state[i] = then[first]
            rows = rows[rows > stop[where]]
        left, firsts = _firsts(connection[rows], rows)
        return resume | dict(zip(left.tolist(), firsts.tolist(), strict=True))

    def _remember(self, i: int, row: int) -> None:
        self.history[i][0].append(row)
        self.history[i][1].append(self.watches[i].state.state)

    def _walk(self, i: int, start: int) -> None:
        """Go through one connection, message by message. Behind a loss its state is unknown."""
        feed, watch = self.feed, self.watches[i]
        ends = sorted([*watch.losing, *(end for lost in watch.losses for _, end in lost.new)])
        row, stop = start, int(feed.runs.starts[i + 1])
        at, walked = 0, WALKED
        while row < stop:
            at = self._step(i, slice(row, min(row + walked, stop)), ends, at)
            row = min(row + walked, stop)
            passed = self._pass(i, row, stop, ends[at] if at < len(ends) else FOR_EVER)
            walked = WALKED if passed - row >= CALM else min(2 * walked, MOST_WALKED)
            row = passed
        watch.losing = ends[at:]
        watch.state.forget(int(feed.ts[stop - 1]))

    def _step(self, i: int, rows: slice, ends: list[int], at: int) -> int:
        """Take a few messages. ``ends`` are those of losses; the ones before ``at`` have passed."""
        feed, machine, state = self.feed, self.machine, self.watches[i].state
        for row, (ts, side, symbol) in enumerate(
            zip(feed.ts[rows].tolist(), self.side[rows].tolist(), self.symbol[rows].tolist(), strict=True), rows.start
        ):
            while at < len(ends) and ends[at] < ts:
                state.lose(machine)
                at += 1
            if machine.table[state.state, symbol] == state.state:
                continue
            if not state.take(machine, Message(ts, int(self.numbers[row]), side, symbol)):
                self.found.rule[row], self.found.state[row] = STATE, state.state
            if state.state != self.history[i][1][-1]:
                self._remember(i, row)
        return at

    def _pass(self, i: int, row: int, stop: int, lost_us: int) -> int:
        """Pass over messages that change nothing, allowed or not; return the first that may."""
        machine, state = self.machine, self.watches[i].state
        size = CALM
        while row < stop:
            rows = slice(row, min(row + size, stop))
            ts, symbol = self.feed.ts[rows], self.symbol[rows]
            then = machine.table[state.state, symbol]
            forbidden = then == FORBIDDEN
            matters = (then != state.state) & ~forbidden | (ts > lost_us)
            if len(state.kept) < MOST_KEPT:
                matters |= forbidden & machine.moves[symbol]
            passed = int(matters.argmax()) if matters.any() else len(ts)
            forbidden &= ~state.were_under_way(machine, ts, self.side[rows], symbol)
            wrong = row + np.flatnonzero(forbidden[:passed])
            self.found.rule[wrong], self.found.state[wrong] = STATE, state.state
            row += passed
            if passed < len(ts):
                return row
            size *= 2
        return row


def _is_special(watch: Watch) -> bool:
    return bool(watch.state.kept or watch.losing) or any(lost.new for lost in watch.losses)


def _firsts(groups: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Return the groups, which are adjacent, and the first value of each."""
    first = arrays.run_starts(groups)[:-1]
    return groups[first], values[first]
