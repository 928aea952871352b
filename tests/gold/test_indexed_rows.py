"""Rows that wait are found by their keys, whatever was put and taken before."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wirelake.gold.indexed_rows import IndexedRows

KEYS = st.lists(st.integers(0, 12), max_size=9)


def made(needed: set[int] | None = None) -> IndexedRows[np.ndarray]:
    return IndexedRows(
        lambda rows, mask: rows[mask],
        np.concatenate,
        None if needed is None else lambda rows: np.isin(rows[:, 0], list(needed)),
    )


def rows_of(keys: list[int], start: int) -> np.ndarray:
    return np.array([(key, start + i) for i, key in enumerate(keys)], np.int64).reshape(-1, 2)


def as_list(parts: list[np.ndarray]) -> list[tuple[int, int]]:
    return [tuple(row) for part in parts for row in part.tolist()]


@given(st.lists(st.tuples(KEYS, KEYS), max_size=12))
def test_what_is_taken_is_what_was_put_with_these_keys(steps: list[tuple[list[int], list[int]]]) -> None:
    segments, known, number = made(), [], 0
    for put, wanted in steps:
        rows = rows_of(put, number)
        segments.put(rows, rows[:, 0])
        known += as_list([rows])
        number += len(put)
        taken = as_list(segments.take(np.array(wanted, np.int64)))
        assert sorted(taken) == sorted(row for row in known if row[0] in wanted)
        known = [row for row in known if row[0] not in wanted]
        assert len(segments) == len(known)
    assert sorted(as_list(segments.take_all())) == sorted(known)
    assert len(segments) == 0


def test_rows_are_also_taken_by_what_they_are() -> None:
    segments = made()
    rows = rows_of([1, 2, 3, 4], 0)
    segments.put(rows, rows[:, 0])
    assert as_list(segments.take(np.array([2]), lambda rows: rows[:, 1] == 3)) == [(2, 1), (4, 3)]
    assert as_list(segments.take(np.array([2, 4]))) == []


def test_what_need_not_wait_goes_when_rows_are_moved() -> None:
    needed = {1, 2}
    segments = made(needed)
    for number, key in enumerate([1, 2, 1, 2]):
        rows = rows_of([key], number)
        segments.put(rows, rows[:, 0])
    assert len(segments) == 4
    needed.remove(2)
    for number in range(4, 12):
        rows = rows_of([1], number)
        segments.put(rows, rows[:, 0])
    assert 2 not in {key for key, _ in as_list(segments.take_all())}


def test_millions_of_rows_are_in_a_few_segments() -> None:
    segments = made()
    for number in range(1000):
        rows = rows_of([number], number)
        segments.put(rows, rows[:, 0])
    assert len(segments._segments) <= 11
