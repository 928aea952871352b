"""The compiled assembler and the same functions as plain Python agree, on pieces that mean nothing in particular."""

from __future__ import annotations

from random import Random

import numpy as np
from numpy.typing import NDArray

from wirelake.kernels import piece_codes, pieces

from .without_numba import plain_walks

SECOND = 1_000_000


def piece_rows(source: Random, size: int) -> tuple[piece_codes.PieceRows, NDArray[np.int64]]:
    def column(*choices: int) -> NDArray[np.int64]:
        return np.array([source.choice(choices) for _ in range(size)], np.int64)

    roles = column(piece_codes.PIECE, piece_codes.PIECE, piece_codes.PIECE, piece_codes.CLOSES)
    gaps = column(1, SECOND, 61 * SECOND)
    rows = piece_codes.PieceRows(
        roles,
        column(0, 1),
        column(-1, 0, 0, 1, 1, 2),
        column(2, 3),
        column(7, 7, 8),
        column(0, 0, 1),
        gaps.cumsum(),
        gaps,
    )
    return rows, np.sort(column(0, 1, 2))


def test_the_compiled_assembler_is_the_plain_one() -> None:
    _, plain = plain_walks()
    faults: set[int] = set()
    for seed in range(60):
        rows, key = piece_rows(Random(seed), 60)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(key)) + 1, [60]])
        results = []
        for walk in (pieces.assemble, plain.assemble):
            columns = [np.zeros(60, np.int64) for _ in piece_codes.Groups._fields]
            groups = piece_codes.Groups(*columns)
            walk(np.arange(60), starts, rows, groups)
            results.append(np.stack(columns))
        assert (results[0] == results[1]).all(), seed
        faults |= set(results[0][6].tolist())
    assert faults == set(range(6))
