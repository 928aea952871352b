"""Columns without a value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from wirelake.columnar.nulls import LONGEST, nulls

KINDS = (pa.int64(), pa.string(), pa.list_(pa.string()), pa.struct([("a", pa.int8()), ("b", pa.binary())]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 1, 7, 5000, 3])
def test_they_are_those_of_arrow(kind: pa.DataType, size: int) -> None:
    made = nulls(size, kind)
    assert made.equals(pa.nulls(size, kind))
    assert made.null_count == size


def test_columns_of_a_kind_share_their_memory() -> None:
    first, second = nulls(4000, pa.int64()), nulls(100, pa.int64())
    assert first.buffers()[1].address == second.buffers()[1].address


def test_one_that_is_very_long_is_not_kept() -> None:
    assert nulls(LONGEST + 1, pa.int8()).null_count == LONGEST + 1
    assert len(nulls(LONGEST + 1, pa.int8()).buffers()[1]) < 2 * LONGEST
