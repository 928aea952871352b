"""A protocol's life-cycle table as an automaton that whole columns of messages are run through.

Its states are *sets* of the declared states: those a connection may be in, by what was seen of it. A connection whose
beginning was captured is in the initial state; any other may be in any state, and so may one that lost bytes.
A message is a violation only if no state of the set allows it; the set then stays as it is. Of every other message the
set becomes the states it leads to, so a handshake or a message that only one state allows makes it certain again.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..spec.nodes import LifeCycle, Protocol

CLIENT, SERVER = 0, 1
FORBIDDEN = -1
REFUSED = "refused"
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
