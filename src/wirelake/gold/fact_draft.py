"""Facts in the making: the messages of one protocol, what is known of them, and which of them a condition selects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..spec.conduct import STATUS, Selection, When
from . import arrays
from .arrays import Mask


def column_at(records: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """Return a column, or a part of a nested one."""
    column = records.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def as_text(column: pa.Array) -> pa.Array:
    """Return a column as text, bytes in hex."""
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_binary(column.type):
        return arrays.hexed(column)
    return column.cast(pa.string())


@dataclass
class Draft:
    """What ``Conduct.facts`` gets, too. ``result`` counts in ``RESULTS``; it matters in replies only."""

    records: pa.RecordBatch
    names: tuple[str, ...]
    which: NDArray[np.int64]
    """Per row, the place of its message in ``names``."""
    columns: dict[str, pa.Array]
    status: pa.Array
    """The status as a number where it is declared as one, otherwise as text."""
    part: NDArray[np.int8]
    pair: NDArray[np.int32]
    result: NDArray[np.int8]
    ends: Mask
    wants_reply: Mask
    limit_us: NDArray[np.int64]
    """0: none."""
    options: dict[str, Any]
    introduced: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Row -> what it says about the peers."""
    _known: dict[str, pa.Array] = field(default_factory=dict)
    _numbers: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    _masks: dict[When, Mask] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.which)

    def named(self, names: tuple[str, ...] | frozenset[str]) -> Mask:
        """Return the mask of messages with one of these names; without any, of all."""
        if not names:
            return np.ones(len(self), np.bool_)
        return np.array([name in names for name in self.names], np.bool_)[self.which]

    def column(self, path: str) -> pa.Array:
        """Return a field by its dotted path, or the status."""
        if path == STATUS:
            return self.status
        if path not in self._known:
            found = column_at(self.records, tuple(path.split(".")))
            self._known[path] = found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
        return self._known[path]

    def select(self, selection: Selection) -> Mask:
        if selection.only is not None and self.options[selection.only[0]] != selection.only[1]:
            return np.zeros(len(self), np.bool_)
        mask = self.named(selection.messages)
        for when in selection.conditions:
            if not mask.any():
                break
            mask = mask & self._holds(when)
        return mask

    def select_any(self, selections: tuple[Selection, ...]) -> Mask:
        mask = np.zeros(len(self), np.bool_)
        for selection in selections:
            mask |= self.select(selection)
        return mask

    def introduce(self, selected: Mask, facts: list[dict[str, Any]]) -> None:
        for row, said in zip(np.flatnonzero(selected).tolist(), facts, strict=True):
            self.introduced.setdefault(row, {}).update(said)

    def _holds(self, when: When) -> Mask:
        if when not in self._masks:
            column = self.column(when.field)
            is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
            holds = _text_holds(when, column) if is_text else _number_holds(when, self._number(when.field, column))
            self._masks[when] = holds
        return self._masks[when]

    def _number(self, path: str, column: pa.Array) -> NDArray[np.int64]:
        if path not in self._numbers:
            self._numbers[path] = _measure(column)
        return self._numbers[path]


def _measure(column: pa.Array) -> NDArray[np.int64]:
    """Return a column as numbers: of a list its length, of a structure whether it is there."""
    if pa.types.is_list(column.type):
        return arrays.integers(pc.list_value_length(column))
    return arrays.integers(pc.is_valid(column) if pa.types.is_struct(column.type) else column)


def _number_holds(when: When, numbers: NDArray[np.int64]) -> Mask:
    holds = np.ones(len(numbers), np.bool_)
    if when.one_of:
        holds &= np.isin(numbers, when.one_of)
    if when.none_of:
        holds &= ~np.isin(numbers, when.none_of)
    if when.least is not None:
        holds &= numbers >= when.least
    if when.most is not None:
        holds &= numbers <= when.most
    if when.bits:
        holds &= numbers & when.bits != 0
    if when.is_bare:
        holds &= (numbers == 0) == when.empty
    return holds


def _text_holds(when: When, column: pa.Array) -> Mask:
    filled = pc.fill_null(column, "" if pa.types.is_string(column.type) else b"") if column.null_count else column
    holds = np.ones(len(column), np.bool_)
    if when.one_of:
        holds &= _is_in(filled, when.one_of)
    if when.none_of:
        holds &= ~_is_in(filled, when.none_of)
    if when.prefix:
        holds &= arrays.flags(pc.starts_with(filled, when.prefix))
    if when.is_bare:
        holds &= arrays.flags(pc.equal(pc.binary_length(filled), 0)) == when.empty
    return holds


def _is_in(column: pa.Array, values: tuple[Any, ...]) -> Mask:
    known = pa.array(values, column.type)
    return arrays.flags(pc.equal(column, known[0]) if len(known) == 1 else pc.is_in(column, known))
