"""A protocol's life-cycle table as an automaton that whole columns of messages are run through.

Its states are *sets* of the declared states: those a connection may be in, by what was seen of it. A connection whose
beginning was captured is in the initial state; any other may be in any state, and so may one that lost bytes.
A message is a violation only if no state of the set allows it; the set then stays as it is. Of every other message the
set becomes the states it leads to, so a handshake or a message that only one state allows makes it certain again.

Messages are judged in the order of the capture. But captures may show packets late, and one handshake message that
comes behind its reply must not make violations of all that follows. So a forbidden message that would change the state
(a handshake, a login) is kept for PATIENCE_US: if the other side's next messages allow it, it takes effect then, and it
was no violation. Of a message that changes nothing, sent before its time, the capture cannot tell whether it is early
or the reply late; it is a violation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..spec.nodes import LifeCycle, Protocol

CLIENT, SERVER = 0, 1
FORBIDDEN = -1
REFUSED = "refused"
PATIENCE_US = 5_000_000
CROSSING_US = 1_000_000
"""How long a message may still arrive that only the previous state allowed: it was under way."""
MOST_KEPT = 16
States = frozenset[str]


class Automaton:
    """``table[state set, symbol]`` is the next state set, or FORBIDDEN."""

    def __init__(self, protocol: Protocol, life_cycle: LifeCycle) -> None:
        self.life_cycle = life_cycle
        self.after_refusal = protocol.conduct.after_refusal or REFUSED
        self.either_may_dial = protocol.conduct.either_may_dial
        self.names = tuple(cls.__message__["name"] for cls in protocol.messages)
        self.sent_by = tuple(cls.__message__["sent_by"] for cls in protocol.messages)
        codes = np.array([cls.__message__["code"] for cls in protocol.messages], np.int64)
        self._sorter = np.argsort(codes)
        self._codes = codes[self._sorter]
        self._refusals = 2 * len(self.names)
        self.sets: list[States] = []
        self._numbers: dict[States, int] = {}
        rows = self._reachable(self.all_states | {REFUSED})
        self.table = np.array(rows, np.int16).reshape(len(rows), 4 * len(self.names))
        self.moves = np.array([self._moves(symbol) for symbol in range(4 * len(self.names))], np.bool_)
        """Whether a symbol changes the state in some state, rather than only telling more about it."""

    @property
    def all_states(self) -> States:
        return frozenset(self.life_cycle.client) | frozenset(self.life_cycle.server)

    @property
    def unknown(self) -> int:
        """The number of the set of all states."""
        return self._numbers[self.all_states | {REFUSED}]

    @property
    def initial(self) -> int:
        return self._numbers[frozenset({self.life_cycle.initial})]

    def symbols(self, codes: NDArray[np.int64], side: NDArray[Any], refusal: NDArray[np.bool_]) -> NDArray[np.int64]:
        """What each message is to the table; ``side`` is who sent it."""
        which = self._sorter[np.searchsorted(self._codes, codes)]
        return np.asarray(which * 2 + side + np.where(refusal, self._refusals, 0), np.int64)

    def which(self, code: int) -> int:
        """The place of a message in ``names``."""
        return int(self._sorter[np.searchsorted(self._codes, code)])

    def shown(self, number: int) -> str:
        """A state set in a table."""
        states = self.sets[number]
        return "unknown" if len(states) > len(self.all_states) else "|".join(sorted(states))

    def allowed(self, number: int, side: int) -> list[str]:
        """Names of what this side may send."""
        table = self._tables[side]
        return sorted({name for state in self.sets[number] for name in table.get(state, ())})

    @property
    def _tables(self) -> tuple[Any, Any]:
        return self.life_cycle.client, self.life_cycle.server

    def _reachable(self, unknown: States) -> list[list[int]]:
        """All state sets that can occur, and their rows: sets are added while rows are made."""
        for states in (frozenset({self.life_cycle.initial}), unknown):
            self._number(states)
        rows: list[list[int]] = []
        while len(rows) < len(self.sets):
            states = self.sets[len(rows)]
            rows.append([FORBIDDEN if not to else self._number(to) for to in self._targets(states)])
        return rows

    def _moves(self, symbol: int) -> bool:
        after = [(states, int(self.table[number, symbol])) for number, states in enumerate(self.sets)]
        return any(to != FORBIDDEN and not self.sets[to] <= states for states, to in after)

    def _number(self, states: States) -> int:
        if states not in self._numbers:
            self._numbers[states] = len(self.sets)
            self.sets.append(states)
        return self._numbers[states]

    def _targets(self, states: States) -> list[States]:
        plain = [self._after(states, side, name) for name in self.names for side in (CLIENT, SERVER)]
        refusals = [frozenset({self.after_refusal}) if to else to for to in plain]
        return plain + refusals

    def _after(self, states: States, side: int, name: str) -> States:
        table = self._tables[side]
        return frozenset(table[state][name] for state in states if name in table.get(state, ()))


@lru_cache(maxsize=64)
def automaton(protocol: Protocol) -> Automaton | None:
    """None for a protocol that declares no life cycle."""
    return None if protocol.life_cycle is None else Automaton(protocol, protocol.life_cycle)


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
