"""Contestants agree with us, so that comparing their speed means something; and they refuse what we refuse."""

from __future__ import annotations

import random

import pytest

import wirelake
from benchmarks import contest, hand_columns, hand_records
from benchmarks.traffic import OPTIONS, PROTOCOLS, make_frames
from tests.differential import mutate
from wirelake.errors import DecodeError


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", [1, 2])
def test_all_contestants_make_the_same_of_the_same_messages(protocol: str, seed: int) -> None:
    contest.assert_agreement(protocol, make_frames(protocol, 300, seed))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_demand_has_its_contestants(protocol: str) -> None:
    names = {contestant.name for contestant in contest.contestants(protocol, make_frames(protocol, 3))}
    asked = {name for demand in contest.DEMANDS for name in (demand.faster, demand.slower)}
    assert asked - names == (set() if protocol == "casual" else {contest.TWO})


def test_a_contestant_that_differs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(frame: bytes) -> object:
        return wirelake.decode("mb", make_frames("mb", 1)[0], framing="tcp")

    monkeypatch.setitem(hand_records.READERS, "mb", wrong)
    with pytest.raises(contest.Disagreement, match="hand-written records"):
        contest.assert_agreement("mb", make_frames("mb", 5))


def _damaged(protocol: str, count: int) -> list[bytes]:
    rng = random.Random(protocol)
    frames = make_frames(protocol, 50)
    return [mutate(rng.choice(frames), rng) for _ in range(count)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hand_written_records_make_the_same_checks(protocol: str) -> None:
    kind = type(wirelake.decode(protocol, make_frames(protocol, 1)[0], **OPTIONS[protocol]))
    read = hand_records.READERS[protocol]
    accepted = refused = 0
    for frame in _damaged(protocol, 3000):
        try:
            message = wirelake.decode(protocol, frame, **OPTIONS[protocol])
        except DecodeError:
            message = None
        if isinstance(message, kind):
            assert repr(read(frame)) == repr(message), frame.hex()
            accepted += 1
        else:
            with pytest.raises(ValueError):
                read(frame)
            refused += 1
    assert accepted > 100
    assert refused > 100


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_hand_written_columns_make_the_same_checks(protocol: str) -> None:
    good = make_frames(protocol, 1)[0]
    read = hand_columns.READERS[protocol]
    accepted = refused = 0
    for frame in _damaged(protocol, 400):
        batch = wirelake.columnar.decode(protocol, good + frame, **OPTIONS[protocol])
        codes = set(batch.records.column("code").to_pylist())
        if batch.quarantined.num_rows or len(codes) > 1:
            with pytest.raises(ValueError):
                read(good + frame)
            refused += 1
        elif batch.records.column("raw_text").null_count == batch.records.num_rows:
            assert repr(read(good + frame).to_pylist()) == repr(batch.records.to_pylist()), frame.hex()
            accepted += 1
    assert accepted > 20
    assert refused > 20
