"""Shorter programs against whole ones: a few columns must be those of all columns, for good and for bad frames."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.differential import READING_IDS, READINGS, mutate, valid_frames
from wirelake.columnar import decode_frames
from wirelake.columnar.shorten_program import shorten
from wirelake.kernels import columns as k
from wirelake.protocols import load
from wirelake.spec.columns import columns


@pytest.mark.parametrize(("protocol", "options"), READINGS, ids=READING_IDS)
def test_a_few_columns_are_those_of_all_columns(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(7)
    frames = valid_frames(protocol, 400, rng, **options)
    frames += [mutate(frame, rng) for frame in frames]
    names = list(columns(load(protocol)))
    every = decode_frames(protocol, frames, names, **options)
    for _ in range(12):
        chosen = rng.sample(names, rng.choice((1, 2, 2, 3)))
        few = decode_frames(protocol, frames, chosen, **options)
        # As text, where a NaN is like another.
        assert repr(few.records.to_pylist()) == repr(every.records.select(chosen).to_pylist()), chosen
        assert few.quarantined.equals(every.quarantined), chosen
        assert few.slow.keys() == every.slow.keys(), chosen


def _op(op: int, slot: int = -1, *operands: int) -> list[int]:
    return [op, slot, *operands, *[0] * (6 - len(operands))]


def test_fields_that_are_not_wanted_are_passed_over_together() -> None:
    ops = [_op(k.FIXED, -1, 16), _op(k.INT, -1, 8, 0, 0, 0, -1), _op(k.RUN, 0, 4, 0, k.TEXT, 0, k.NO_LIMIT), _op(k.END)]
    made, entries = shorten(ops, [0])
    assert made == [[k.RUN, 0, 4, 0, k.TEXT, 0, k.NO_LIMIT, 24], _op(k.END)]
    assert entries == [0]


def test_a_number_that_is_judged_or_kept_is_still_read() -> None:
    ranged = _op(k.INT, -1, 4, k.RANGED, 1, 9, -1)
    kept = _op(k.INT, -1, 4, 0, 0, 0, 3)
    wanted = _op(k.INT, 0, 4, 0, 0, 0, -1)
    assert shorten([ranged, kept, wanted, _op(k.END)], [0])[0] == [ranged, kept, wanted, _op(k.END)]


def test_nothing_is_joined_across_the_target_of_a_jump() -> None:
    ops = [
        _op(k.IF_EMPTY, -1, 3),
        _op(k.FIXED, -1, 2),
        _op(k.FIXED, -1, 3),
        _op(k.FIXED, -1, 4),
        _op(k.JUMP, -1, 5),
        _op(k.END),
    ]
    made, _ = shorten(ops, [0])
    assert made == [_op(k.IF_EMPTY, -1, 2), _op(k.SKIP, -1, 5), _op(k.SKIP, -1, 4), _op(k.END)]


def test_entries_are_where_their_programs_begin_now() -> None:
    ops = [_op(k.FIXED, -1, 1), _op(k.FIXED, -1, 1), _op(k.END), _op(k.FIXED, -1, 2), _op(k.FIXED, -1, 2), _op(k.END)]
    made, entries = shorten(ops, [0, 3])
    assert entries == [0, 2]
    assert [made[entry] for entry in entries] == [_op(k.SKIP, -1, 2), _op(k.SKIP, -1, 4)]
