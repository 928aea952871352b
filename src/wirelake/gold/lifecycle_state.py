"""The state of one connection: its messages run through the life cycle.

Messages are judged in the order of the capture. But captures may show packets late, and one handshake message that
comes behind its reply must not make violations of all that follows. So a forbidden message that would change the state
(a handshake, a login) is kept for PATIENCE_US: if the other side's next messages allow it, it takes effect then, and it
was no violation. Of a message that changes nothing, sent before its time, the capture cannot tell whether it is early
or the reply late; it is a violation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .lifecycle import FORBIDDEN, Automaton

PATIENCE_US = 5_000_000
CROSSING_US = 1_000_000
"""So long after the other side changed the state, what was allowed before may still arrive: it was under way."""
MOST_KEPT = 16


class Message(NamedTuple):
    """``side`` is the one of the protocol, ``symbol`` what it is to the automaton."""

    ts: int
    number: int
    side: int
    symbol: int


@dataclass
class ConnectionState:
    """``state`` is the number of a state set of the protocol's automaton."""

    state: int
    before: int = -1
    changed_by: int = -1
    changed_us: int = 0
    kept: list[Message] = field(default_factory=list)
    excused: list[int] = field(default_factory=list)
    """Numbers of messages that turned out to be no violations."""

    def take(self, machine: Automaton, message: Message) -> bool:
        """Whether it is allowed."""
        then = int(machine.table[self.state, message.symbol])
        if then == FORBIDDEN:
            if self._was_under_way(machine, message):
                return True
            if machine.moves[message.symbol] and len(self.kept) < MOST_KEPT:
                self.kept.append(message)
            return False
        if then != self.state:
            self.move(machine, then, message.side, message.ts)
            if self.kept:
                self._catch_up(machine, message.ts)
        return True

    def move(self, machine: Automaton, state: int, side: int, ts: int) -> None:
        """To learn more about a state is no change of it."""
        if not machine.sets[state] <= machine.sets[self.state]:
            self.before, self.changed_by, self.changed_us = self.state, side, ts
        self.state = state

    def lose(self, machine: Automaton) -> None:
        """Anything may have happened."""
        self.state, self.changed_by = machine.unknown, -1
        self.kept.clear()

    def forget(self, now: int) -> None:
        """What was kept for too long."""
        self.kept = [message for message in self.kept if message.ts + PATIENCE_US >= now]

    def _catch_up(self, machine: Automaton, now: int) -> None:
        """The earliest kept message that is allowed by now, again and again."""
        self.forget(now)
        while True:
            for message in self.kept:
                then = int(machine.table[self.state, message.symbol])
                if then not in (FORBIDDEN, self.state):
                    break
            else:
                return
            self.kept.remove(message)
            self.excused.append(message.number)
            self.move(machine, then, message.side, now)

    def _was_under_way(self, machine: Automaton, message: Message) -> bool:
        return bool(self.were_under_way(machine, message.ts, message.side, message.symbol))

    def were_under_way(self, machine: Automaton, ts: Any, side: Any, symbol: Any) -> Any:
        """The same of one message or of arrays of them."""
        crossed = (self.changed_by == 1 - side) & (ts - self.changed_us <= CROSSING_US) & (self.before >= 0)
        return crossed & (machine.table[self.before, symbol] != FORBIDDEN)
