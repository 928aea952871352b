"""What is wrong in a feed, as columns: in a capture where every message is, no message costs an object.

``Found`` has a rule for each row and what the sentence about it is made of; the sentences themselves are made for all
rows at once. ``Waiting`` are the violations that are not given out yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .arrays import FOR_EVER, Ints, Mask, integers
from .lifecycle import Automaton
from .losses import Excuse, excused

# What a message breaks. The first five are the faults that the matcher finds.
NOTHING, UNEXPECTED_REPLY, DUPLICATE_REPLY, DUPLICATE_REQUEST, ANONYMOUS_REPLY = range(5)
STATE, PAGE_ORDER, GROUP_ORDER = range(5, 8)
RULES = ["", "unexpected_reply", "duplicate_reply", "duplicate_request", "unexpected_reply"]
RULES += ["state", "page_order", "group_order"]
PIECE_RULES = {"page_order": PAGE_ORDER, "group_order": GROUP_ORDER}
SIDES = ("client", "server")

_PLAIN = {
    UNEXPECTED_REPLY: "no request with this correlation is open",
    ANONYMOUS_REPLY: "it does not say which request it belongs to",
}
_TIMED = {
    DUPLICATE_REPLY: ("the request with this correlation was answered for good ", " s before"),
    DUPLICATE_REQUEST: ("a request with this correlation has been open for ", " s"),
}


@dataclass
class Found:
    """By row of a feed."""

    rule: NDArray[np.int8]
    """A place in RULES."""
    us: Ints
    """The time that its sentence is about."""
    state: Ints
    """The number of a state set."""
    said: dict[int, str] = field(default_factory=dict)
    """The sentences about pieces."""

    @classmethod
    def nothing(cls, size: int) -> Found:
        return cls(np.zeros(size, np.int8), np.zeros(size, np.int64), np.zeros(size, np.int64))

    def add(self, rows: Ints, rule: int | NDArray[np.int8], us: Ints | None = None) -> None:
        """Of a row that breaks a rule already, nothing more is said."""
        free = self.rule[rows] == NOTHING
        self.rule[rows[free]] = rule if isinstance(rule, int) else rule[free]
        if us is not None:
            self.us[rows[free]] = us[free]

    @property
    def rows(self) -> Ints:
        return np.flatnonzero(self.rule)

    def rules(self, rows: Ints) -> pa.Array:
        return _coded(self.rule[rows], pa.array(RULES))

    def states(self, rows: Ints, machine: Automaton | None) -> pa.Array:
        if machine is None:
            return pa.nulls(len(rows), pa.string()).dictionary_encode()
        numbers, index = np.unique(self.state[rows], return_inverse=True)
        return _coded(index, pa.array([machine.shown(number) for number in numbers.tolist()], pa.string()))

    def details(self, rows: Ints, machine: Automaton | None, side: NDArray[np.int8]) -> pa.Array:
        """Sentences; ``side`` is who sent each row of the feed, by the protocol."""
        rule = self.rule[rows]
        index = np.zeros(len(rows), np.int64)
        pool: list[pa.Array] = []
        size = 0
        for one in np.unique(rule).tolist():
            here = np.flatnonzero(rule == one)
            texts, which = self._sentences(one, rows[here], machine, side)
            index[here] = which + size
            pool.append(texts)
            size += len(texts)
        return _coded(index, pa.concat_arrays(pool))

    def _sentences(
        self, rule: int, rows: Ints, machine: Automaton | None, side: NDArray[np.int8]
    ) -> tuple[pa.Array, Ints]:
        """Texts, and which of them each row has."""
        if rule == STATE and machine is not None:
            cases, which = np.unique(self.state[rows] * 2 + side[rows], return_inverse=True)
            return pa.array([_forbidden(machine, case // 2, case % 2) for case in cases.tolist()], pa.string()), which
        if rule in _PLAIN:
            return pa.array([_PLAIN[rule]], pa.string()), np.zeros(len(rows), np.int64)
        if rule in _TIMED:
            before, behind = _TIMED[rule]
            return pc.binary_join_element_wise(before, _seconds(self.us[rows]), behind, ""), np.arange(len(rows))
        return pa.array([self.said[row] for row in rows.tolist()], pa.string()), np.arange(len(rows))


def _coded(index: NDArray[Any], texts: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), texts)


def _seconds(us: Ints) -> pa.Array:
    """Microseconds as seconds with six digits behind the point."""
    size = np.abs(us)
    part = pc.utf8_lpad(pa.array(size % 1_000_000).cast(pa.string()), 6, "0")
    whole = pc.binary_join_element_wise(pa.array(size // 1_000_000).cast(pa.string()), part, ".")
    return pc.binary_join_element_wise(pc.if_else(pa.array(us < 0), "-", ""), whole, "")


def _forbidden(machine: Automaton, number: int, side: int) -> str:
    allowed = machine.allowed(number, side)
    may = f"may send {_listed(allowed)}" if allowed else "may send nothing"
    return f"in state {machine.shown(number)} the {SIDES[side]} {may}"


def _listed(names: Iterable[str], most: int = 6) -> str:
    """Names in a sentence; of many, the first."""
    names = list(names)
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"


class Waiting:
    """Rows in the order of their numbers, texts by dictionaries. ``number`` is the place of the message in all that
    was fed.
    """

    MOST_CHUNKS = 32

    def __init__(self, table: pa.Table | None = None) -> None:
        self._table = table

    @property
    def table(self) -> pa.Table | None:
        """All rows, with one dictionary for each text."""
        return self._table.unify_dictionaries().combine_chunks() if self._table is not None else None

    def __len__(self) -> int:
        return 0 if self._table is None else int(self._table.num_rows)

    def add(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self._table = pa.concat_tables([self._table, rows]) if self._table is not None else rows
        if self._table.column("number").num_chunks > self.MOST_CHUNKS:
            self._table = self.table

    def drop(self, numbers: Ints, rule: int | None = None) -> None:
        """Drop rows by their numbers, if they break this rule; None: whichever they break."""
        if len(self) and len(numbers):
            gone = np.isin(self._integers("number"), numbers)
            if rule is not None:
                gone &= self._codes("rule", [RULES[rule]]) >= 0
            self._keep(~gone)

    def excuse(self, excuses: list[Excuse]) -> None:
        """What was found before it was known that something was lost: while it was, and replies to what was lost."""
        by_name: dict[str, list[Excuse]] = {}
        for one in excuses:
            by_name.setdefault(one.connection, []).append(one)
        if not len(self) or not by_name:
            return
        ts, owner = self._integers("ts"), self._codes("connection", list(by_name))
        is_unasked = self._codes("rule", [RULES[UNEXPECTED_REPLY]]) >= 0
        # The side whose request was not seen: 0 the client, which such a reply goes to.
        replied_to = np.where(is_unasked, self._codes("direction", ["to_client", "to_server"]), -1)
        order = np.lexsort((ts, owner))
        bounds = np.searchsorted(owner[order], np.arange(len(by_name) + 1))
        keep = np.ones(len(self), np.bool_)
        for i, own in enumerate(by_name.values()):
            rows = order[bounds[i] : bounds[i + 1]]
            keep[rows] = ~excused(ts[rows], replied_to[rows], own)
        self._keep(keep)

    def take_of(self, connections: Iterable[str]) -> pa.Table | None:
        """Take out the rows of these connections."""
        names = list(connections)
        return self._taken(self._codes("connection", names) >= 0) if names and len(self) else None

    def take_all(self) -> pa.Table | None:
        return self._taken(np.ones(len(self), np.bool_)) if len(self) else None

    def take_before(self, ts: int, heard: Mapping[str, int], unheard: int) -> pa.Table | None:
        """Take out the rows before this time whose connections are known up to them: ``heard`` says of some up to when
        nothing can be lost that is not known; those before ``unheard`` wait no longer.
        """
        if not len(self):
            return None
        times, names = self._integers("ts"), list(heard)
        known = np.append(np.array(list(heard.values()), np.int64), FOR_EVER)[self._codes("connection", names)]
        return self._taken((times < ts) & ((times < known) | (times < unheard)))

    def _taken(self, mask: Mask) -> pa.Table | None:
        table = self._table
        if table is None or not mask.any():
            return None
        self._keep(~mask)
        return table if mask.all() else table.filter(pa.array(mask))

    def _keep(self, mask: Mask) -> None:
        if self._table is not None and not mask.all():
            self._table = self._table.filter(pa.array(mask)) if mask.any() else None

    def _integers(self, name: str) -> Ints:
        assert self._table is not None
        return integers(self._table[name])

    def _codes(self, name: str, texts: list[str]) -> Ints:
        """Which of these texts each row has; -1: none."""
        assert self._table is not None
        values = pa.array(texts, pa.string())
        parts = []
        for chunk in self._table.column(name).chunks:
            known = integers(pc.index_in(chunk.dictionary, values), -1)
            parts.append(np.append(known, -1)[integers(chunk.indices, -1)])
        return np.concatenate(parts)
