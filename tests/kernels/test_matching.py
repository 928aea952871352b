"""The compiled matcher and the same functions as plain Python agree, on rows that mean nothing in particular."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from wirelake.kernels import match_codes as codes
from wirelake.kernels import matching

from .without_numba import plain_walks

SECOND = 1_000_000


def match_rows(source: Random, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Remembered rows, then new ones in the order of time, of a few keys."""
    rows = np.zeros((size, codes.ROW_COLUMNS), np.int64)
    found = np.zeros((size, codes.MATCH_COLUMNS), np.int64)
    found[:, codes.REQUEST] = -1
    old, ts = size // 5, 0
    for row in range(size):
        ts += source.choice((0, 1, SECOND, 20 * SECOND, 70 * SECOND))
        kinds = (codes.OPEN, codes.ANSWERED, codes.CLOSED, codes.EARLY)
        role = source.choice(kinds) if row < old else source.choice((codes.ASKS, codes.REPLIES, codes.CLOSES))
        bits = source.getrandbits(9)
        values = {
            codes.KEY: source.randrange(4),
            codes.ROLE: role,
            codes.BITS: bits,
            codes.PAIR: source.choice((2, 2, 4)),
            codes.CODE: source.choice((1, 3)),
            codes.LANE: source.randrange(2),
            codes.SIDE: source.randrange(2),
            codes.TS: ts,
            codes.UNTIL: ts + source.choice((5 * SECOND, 60 * SECOND, 1 << 60)),
            codes.ORDINAL: row * source.choice((1, 200)),
            codes.ADDRESS: source.randrange(2),
            codes.NUMBER: row,
        }
        for column, value in values.items():
            rows[row, column] = value
        found[row, codes.DONE_US], found[row, codes.DONE_ORDINAL] = ts, row
    return rows, found


def test_the_compiled_matcher_is_the_plain_one() -> None:
    plain, _ = plain_walks()
    assert not hasattr(plain.match, "py_func") and hasattr(matching.match, "py_func")
    instead, closing = np.array([[4, 3]], np.int64), np.array([2], np.int64)
    parts: set[int] = set()
    for seed in range(60):
        rows, found = match_rows(Random(seed), 80)
        results = []
        for walk in (matching.match, plain.match):
            mine = found.copy()
            walk(rows, np.full((4, codes.KEY_LISTS), -1, np.int32), instead, closing, mine)
            results.append(mine)
        assert (results[0] == results[1]).all(), seed
        parts |= set(results[0][:, codes.PART].tolist())
    assert parts == set(range(7))
