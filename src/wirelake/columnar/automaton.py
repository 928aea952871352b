"""Regular expressions as tables: the patterns of header words, turned into one deterministic automaton each.

Only what patterns of words need: literals, sets, ranges, repetition, alternatives, groups, on bytes. Anything else is
refused, and the word is then left to the record codec.
"""

from __future__ import annotations

import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_STATES = 4000


class Unsupported(Exception):
    """The pattern uses something that this table cannot express."""


class _Nfa:
    def __init__(self) -> None:
        self.steps: list[list[tuple[frozenset[int], int]]] = []
        self.jumps: list[list[int]] = []

    def state(self) -> int:
        self.steps.append([])
        self.jumps.append([])
        return len(self.steps) - 1

    def add(self, pattern: Any, start: int) -> int:
        """Adds the pattern behind ``start``; gives the state behind it."""
        for op, argument in pattern:
            if len(self.steps) > MAX_STATES:
                raise Unsupported("too large")
            if op is sre.LITERAL:
                start = self._step(start, frozenset([argument]))
            elif op is sre.IN:
                start = self._step(start, _set(argument))
            elif op is sre.SUBPATTERN:
                start = self.add(argument[-1], start)
            elif op is sre.BRANCH:
                end = self.state()
                for branch in argument[1]:
                    self.jumps[self.add(branch, start)].append(end)
                start = end
            elif op is sre.MAX_REPEAT:
                least, most, repeated = argument
                start = self._repeat(least, most, repeated, start)
            else:
                raise Unsupported(str(op))
        return start

    def _step(self, start: int, chars: frozenset[int]) -> int:
        if any(c > 127 for c in chars):
            raise Unsupported("not ASCII")
        end = self.state()
        self.steps[start].append((chars, end))
        return end

    def _repeat(self, least: int, most: Any, pattern: Any, start: int) -> int:
        for _ in range(least):
            start = self.add(pattern, start)
        if most is sre.MAXREPEAT:
            loop = self.state()
            self.jumps[start].append(loop)
            self.jumps[self.add(pattern, loop)].append(loop)
            return loop
        end = self.state()
        self.jumps[start].append(end)
        for _ in range(most - least):
            start = self.add(pattern, start)
            self.jumps[start].append(end)
        return end


def _set(items: Any) -> frozenset[int]:
    found: set[int] = set()
    for op, argument in items:
        if op is sre.LITERAL:
            found.add(argument)
        elif op is sre.RANGE:
            found.update(range(argument[0], argument[1] + 1))
        else:
            raise Unsupported(str(op))
    return frozenset(found)


def build(patterns: list[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """One table for all patterns, as the kernel's ``matches`` reads it; and per pattern its start and chain."""
    rows: list[list[int]] = [[0] * 256]
    accepting = [0]
    about: list[int] = []
    for pattern in patterns:
        nfa = _Nfa()
        first = nfa.state()
        last = nfa.add(sre_parser.parse(pattern), first)
        start = _determine(nfa, first, last, rows, accepting)
        about += [256 * start, _chain(rows, accepting, start)]
    table = np.array(rows, np.int32)
    return (256 * table + np.array(accepting, np.int32)[table]).reshape(-1), np.array(about, np.int64)


def _chain(rows: list[list[int]], accepting: list[int], start: int) -> int:
    """How long every match is, if each state only leads to the next one; else 0."""
    for state in range(start, len(rows)):
        targets = set(rows[state]) - {0}
        if not targets:
            return state - start if accepting[state] else 0
        if targets != {state + 1} or accepting[state]:
            return 0
    return 0


def _determine(nfa: _Nfa, first: int, last: int, rows: list[list[int]], accepting: list[int]) -> int:
    """Adds the deterministic states of one pattern; gives the first of them."""
    known: dict[frozenset[int], int] = {}

    def name(states: frozenset[int]) -> int:
        if states not in known:
            if len(rows) > MAX_STATES:
                raise Unsupported("too large")
            known[states] = len(rows)
            rows.append([0] * 256)
            accepting.append(int(last in states))
            todo.append(states)
        return known[states]

    todo: list[frozenset[int]] = []
    start = name(_closure(nfa, {first}))
    while todo:
        states = todo.pop()
        targets: dict[int, set[int]] = {}
        for state in states:
            for chars, end in nfa.steps[state]:
                for c in chars:
                    targets.setdefault(c, set()).add(end)
        for c, ends in targets.items():
            rows[known[states]][c] = name(_closure(nfa, ends))
    return start


def _closure(nfa: _Nfa, states: set[int]) -> frozenset[int]:
    todo = list(states)
    while todo:
        for end in nfa.jumps[todo.pop()]:
            if end not in states:
                states.add(end)
                todo.append(end)
    return frozenset(states)
