"""What the matching walk reads: times until which rows are waited for, and rows that are handed on."""

from __future__ import annotations

import numpy as np

from wirelake.gold.arrays import FOR_EVER
from wirelake.gold.match_rows import concatenated, from_table, rows_of, to_table, until_us, window_us
from wirelake.kernels import match_codes as codes


def test_a_reply_may_take_its_limit_and_a_grace_period() -> None:
    limits = np.array([0, 5_000_000, 300_000_000])
    assert window_us(limits).tolist() == [FOR_EVER, 65_000_000, 600_000_000]
    assert until_us(np.array([1, 2, 3]), limits).tolist() == [FOR_EVER, 65_000_002, 600_000_003]


def test_rows_survive_the_way_through_a_table() -> None:
    rows = rows_of(key=np.array([7, 8]), role=np.array([codes.OPEN, codes.EARLY]), ts=np.array([1, 2]))
    again = from_table(to_table(rows))
    assert all(again[name].tolist() == rows[name].tolist() for name in codes.ROW.names or ())


def test_rows_are_put_behind_each_other() -> None:
    first, second = rows_of(key=np.array([1, 2])), rows_of(key=np.array([3]))
    assert concatenated([first, second]).key.tolist() == [1, 2, 3]
    assert len(concatenated([])) == 0
