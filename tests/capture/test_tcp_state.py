"""The state of TCP connections is refused if its rows do not fit together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.capture.reloading import open_captures
from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.settings import ReadSettings
from wirelake.capture.state import State
from wirelake.capture.tcp import Tracker
from wirelake.capture.tcp_state import TrackerState
from wirelake.errors import CaptureError, LakeError
from wirelake.ingest.carry import pack, unpack
from wirelake.kernels import tcp_rows


def damaged(state: TrackerState, name: str, place: int, value: int) -> TrackerState:
    array = getattr(state, name).copy()
    array[place] = value
    return replace(state, **{name: array})


def stored(tracker: TrackerState) -> bytes:
    """Return a carry as only a stranger writes it: ours is checked before."""
    state = State()
    object.__setattr__(state, "tracker", tracker)
    return pack(state)


def test_rows_that_name_places_which_do_not_exist_are_refused(open_state: State) -> None:
    tracker = open_state.tracker
    assert tracker is not None
    tracker.check()
    holding = int(tracker.holding[0])
    damage = partial(damaged, tracker)
    for bad in (
        damage("streams", holding + tcp_rows.HEAD, 1 << 40),
        damage("streams", holding + tcp_rows.TAIL, 8),
        damage("streams", holding + tcp_rows.HELD, 1 << 20),
        damage("streams", holding + tcp_rows.HELD_BYTES, 0),
        damage("nodes", tcp_rows.FOLLOWING, 1 << 40),
        damage("nodes", tcp_rows.PLACE, 1 << 40),
        damage("nodes", tcp_rows.SIZE, -1),
        damage("holding", 0, -16),
        damage("holding", 0, holding + 1),
        damage("holding", 0, len(tracker.streams)),
        damage("now", tcp_rows.HOLDING, 1 << 40),
        damage("now", tcp_rows.USED, 0),
        replace(tracker, names=tracker.names[1:]),
        replace(tracker, now=tracker.now[:-1]),
        replace(tracker, held=tracker.held[:-1]),
    ):
        with pytest.raises(ValueError, match="does not fit together"):
            State(bad)
        with pytest.raises(LakeError, match="does not fit together"):
            unpack(stored(bad), State)


def test_any_number_of_a_state_may_be_wrong_and_nothing_crashes(open_state: State, tmp_path: Path) -> None:
    """Rows that pass the check may still be nonsense: then chunks are, or an error is raised, and that is all."""
    path = open_captures(tmp_path)[0]
    rng = Random(7)
    tracker = open_state.tracker
    assert tracker is not None
    for _ in range(150):
        name = rng.choice(["flows", "streams", "nodes", "now"])
        place, value = rng.randrange(len(getattr(tracker, name))), rng.choice([-1, 0, 1, 7, 16, 1 << 20, 1 << 62])
        try:
            state = State(damaged(tracker, name, place, value))
            assert state.tracker is not None
            decoder = CaptureDecoder(ReadSettings(), State(state.tracker))
            for _ in decoder.run(CaptureRange(str(path), "a")):
                pass
            Tracker(state.tracker).finish()
        except (CaptureError, ValueError, IndexError, AssertionError, MemoryError, OverflowError, RuntimeError):
            pass
