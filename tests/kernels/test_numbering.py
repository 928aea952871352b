"""Different values, numbered in the order in which they first occur."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from wirelake.gold.arrays import numbered


@pytest.mark.parametrize("different", [1, 7, 1000, 1 << 62])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000])
def test_numbers_are_those_of_a_dictionary(size: int, different: int) -> None:
    values = np.random.default_rng(size).integers(-different, different, size)
    distinct, places = numbered(values)
    expected = pa.array(values).dictionary_encode()
    assert distinct.tolist() == expected.dictionary.to_pylist()
    assert places.tolist() == expected.indices.to_pylist()


def test_columns_of_records_need_not_lie_together() -> None:
    rows = np.zeros(5, [("key", "<i8"), ("other", "<i4")])
    rows["key"] = [9, 9, 4, 9, 4]
    distinct, places = numbered(rows["key"])
    assert distinct.tolist() == [9, 4]
    assert places.tolist() == [0, 0, 1, 0, 1]
