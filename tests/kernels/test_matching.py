"""The compiled matcher and the same functions as plain Python agree, on rows that mean nothing in particular."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from wirelake.kernels import match_codes as codes
from wirelake.kernels import matching

from .without_numba import plain_walks

SECOND = 1_000_000


def match_rows(source: Random, size: int) -> tuple[Any, Any]:
    """Remembered rows, then new ones in the order of time, of a few keys."""
    rows = np.zeros(size, codes.ROW).view(np.recarray)
    found = np.zeros(size, codes.FOUND).view(np.recarray)
    found.request = -1
    old, ts = size // 5, 0
    for row in range(size):
        ts += source.choice((0, 1, SECOND, 20 * SECOND, 70 * SECOND))
        kinds = (codes.OPEN, codes.ANSWERED, codes.CLOSED, codes.EARLY)
        values = {
            "role": source.choice(kinds) if row < old else source.choice((codes.ASKS, codes.REPLIES, codes.CLOSES)),
            "bits": source.getrandbits(9),
            "pair": source.choice((2, 2, 4)),
            "code": source.choice((1, 3)),
            "lane": source.randrange(2),
            "side": source.randrange(2),
            "ts": ts,
            "until": ts + source.choice((5 * SECOND, 60 * SECOND, 1 << 60)),
            "ordinal": row * source.choice((1, 200)),
            "address": source.randrange(2),
            "number": row,
        }
        for name, value in values.items():
            rows[name][row] = value
        found[row].key, found[row].done_us, found[row].done_ordinal = source.randrange(4), ts, row
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
        parts |= set(results[0].part.tolist())
    assert parts == set(range(7))
