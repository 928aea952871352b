"""Functions over columns: whatever the chunks, slices and nulls."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.gold import arrays

CHUNKED = pa.chunked_array([[1, None], [], [3]], pa.int64())


def test_columns_become_arrays_however_they_are_chunked() -> None:
    assert arrays.integers(CHUNKED, -1).tolist() == [1, -1, 3]
    assert arrays.integers(CHUNKED.cast(pa.timestamp("us", "UTC"))).tolist() == [1, 0, 3]
    assert arrays.integers(pa.chunked_array([], pa.int32())).tolist() == []
    assert arrays.integers(pa.nulls(2, pa.int8()), 7).tolist() == [7, 7]
    assert arrays.valid(CHUNKED).tolist() == [True, False, True]
    assert arrays.flags(pa.array([True, None, False])).tolist() == [True, False, False]


def test_texts_become_numbers() -> None:
    texts, places = arrays.coded(pa.array(["b", None, "a", "b"]))
    assert texts.to_pylist() == ["b", "a"] and places.tolist() == [0, -1, 1, 0]
    assert arrays.by_text(pa.array(["aa", "b", "aa"]), len).tolist() == [2, 1, 2]
    assert arrays.by_text(pa.array([], pa.string()), len).tolist() == []


def test_places_of_numbers_are_found_in_any_order() -> None:
    numbers = np.array([30, 10, 20])
    assert arrays.places(numbers, np.array([10, 30, 40, 5])).tolist() == [1, 0, -1, -1]
    assert arrays.places(numbers[:0], np.array([10])).tolist() == [-1]


@pytest.mark.parametrize("rows", [[], [2, 0], [0, 1, 2]])
def test_rows_are_taken_and_columns_without_values_stay_null(rows: list[int]) -> None:
    table = pa.table({"n": CHUNKED, "nothing": pa.nulls(3, pa.string())})
    expected = table.take(pa.array(rows, pa.int64())).to_pylist()
    assert arrays.taken(table, np.array(rows, np.int64)).to_pylist() == expected
    mask = np.isin(np.arange(3), rows)
    assert arrays.where(table, mask).to_pylist() == [
        row for row, kept in zip(table.to_pylist(), mask, strict=True) if kept
    ]


def test_a_table_has_what_was_made_then_what_is_left_then_nulls() -> None:
    schema = pa.schema([("made", pa.int64()), ("left", pa.string()), ("absent", pa.bool_())])
    rest = pa.table({"left": ["a", "b"], "made": ["no", "no"], "more": [1, 2]})
    made = {"made": pa.array([1, 2], pa.int32())}
    expected = [{"made": 1, "left": "a", "absent": None}, {"made": 2, "left": "b", "absent": None}]
    assert arrays.table_of(schema, made, rest).to_pylist() == expected
    assert arrays.table_of(schema, made)["left"].to_pylist() == [None, None]
    assert arrays.replaced(rest, {"left": pa.array(["c", "d"])})["left"].to_pylist() == ["c", "d"]


def test_runs_of_several_columns_change_with_any_of_them() -> None:
    first, second = np.array([1, 1, 1, 2]), np.array([5, 5, 6, 6])
    assert arrays.run_starts(first).tolist() == [0, 3, 4]
    assert arrays.run_starts(first, second).tolist() == [0, 2, 3, 4]
    assert arrays.run_starts(first[:0]).tolist() == [0]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 3))
def test_hex_and_hashes_are_right_for_any_slice(values: list[bytes | None], skip: int) -> None:
    column = pa.array(values, pa.binary()).slice(skip)
    assert arrays.hexed(column).to_pylist() == [None if one is None else one.hex() for one in values[skip:]]
    hashes = arrays.hashed(column).tolist()
    assert hashes == [arrays.hashed(pa.array([one or b""], pa.binary()))[0] for one in values[skip:]]
    assert len(set(hashes)) == len({one or b"" for one in values[skip:]})
