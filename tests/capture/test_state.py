"""The state between runs: plain types, the same after a round trip, and refused if it does not fit together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from tests.capture import hostile
from tests.capture.feeds import CLIENT_HELLO, connection
from tests.capture.following import plain
from tests.capture.reloading import reloaded
from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.read import ResumePoint
from wirelake.capture.settings import ReadSettings
from wirelake.capture.state import State
from wirelake.capture.tcp import Tracker
from wirelake.capture.tcp_state import TrackerState
from wirelake.errors import LakeError
from wirelake.generate import generate, write_pcap, write_tap
from wirelake.ingest.carry import pack, unpack
from wirelake.kernels import tcp
from wirelake.protocols import BUILT_IN

PLAIN = {int, str, bytes, bytearray, bool, float, type(None)}


def types_of(kind: Any) -> Iterator[Any]:
    """All types that a value of a type may be made of."""
    if get_origin(kind) is np.ndarray:
        yield kind
    elif get_args(kind):
        for inner in get_args(kind):
            if inner is not ... and not isinstance(inner, (str, int)):
                yield from types_of(inner)
    elif is_dataclass(kind) or hasattr(kind, "_fields"):
        for inner in get_type_hints(kind).values():
            yield from types_of(inner)
    else:
        yield kind


@pytest.mark.parametrize("kind", [State, ResumePoint])
def test_a_state_is_made_of_plain_values_and_arrays_of_numbers(kind: Any) -> None:
    found = list(types_of(kind))
    arrays = [inner for inner in found if get_origin(inner) is np.ndarray]
    assert {inner for inner in found if get_origin(inner) is not np.ndarray} <= PLAIN
    dtypes = {np.dtype(get_args(get_args(inner)[1])[0]) for inner in arrays}
    assert dtypes <= {np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.uint8)}


def captures(place: Path) -> list[Path]:
    """Captures that leave much open: held segments, searches, connections that are not identified, taps."""
    traffic = generate(BUILT_IN, seed=5, messages=300, connections=2, corrupt=0.05, gaps=0.02, disorder=0.2)
    write_pcap(traffic, place / "a.pcap")
    (place / "a.pcap").write_bytes((place / "a.pcap").read_bytes()[:70_000])
    write_tap(traffic, place / "b.tap")
    (place / "b.tap").write_bytes((place / "b.tap").read_bytes()[:40_000])
    return [place / "a.pcap", place / "b.tap"]


@pytest.fixture(scope="module")
def open_state(tmp_path_factory: pytest.TempPathFactory) -> State:
    decoder = CaptureDecoder(ReadSettings())
    for path in captures(tmp_path_factory.mktemp("captures")):
        for _ in decoder.run(CaptureRange(str(path), path.name)):
            pass
    return decoder.state()


def test_a_packed_state_comes_back_as_it_was(open_state: State) -> None:
    again = reloaded(open_state)
    assert again.tracker is not None and open_state.tracker is not None
    assert len(open_state.tracker.held) and open_state.tracker.taps.connections
    assert pack(again) == pack(open_state)
    for name in ("keys", "flows", "streams", "nodes", "holding", "now", "held"):
        np.testing.assert_array_equal(getattr(again.tracker, name), getattr(open_state.tracker, name), strict=True)
    assert again.tracker.names == open_state.tracker.names
    assert reloaded(State()) == State()


def test_the_tls_bytes_of_a_range_and_a_waiting_chunk_come_back(tmp_path: Path) -> None:
    packets = [packet for packet in plain(tmp_path / "plain.pcap", packets=20) if packet.data]
    streams = [replace(packets[0], data=CLIENT_HELLO, foreign=None)]
    path = hostile.write_pcap(tmp_path / "a.pcap", streams)
    decoder = CaptureDecoder(ReadSettings(ports={}))
    for _ in decoder.run(CaptureRange(str(path), "a")):
        pass
    again = CaptureDecoder(ReadSettings(ports={}), reloaded(decoder.state()))
    assert again.streams.accounts().to_pylist() == decoder.streams.accounts().to_pylist() != []
    assert connection().id not in decoder.state().only(set()).streams.connections  # type: ignore[union-attr]


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
        damage("streams", holding + tcp.HEAD, 1 << 40),
        damage("streams", holding + tcp.TAIL, 8),
        damage("streams", holding + tcp.HELD, 1 << 20),
        damage("streams", holding + tcp.HELD_BYTES, 0),
        damage("streams", holding + tcp.LISTED, 0),
        damage("nodes", tcp.FOLLOWING, 1 << 40),
        damage("nodes", tcp.PLACE, 1 << 40),
        damage("nodes", tcp.SIZE, -1),
        damage("holding", 0, -16),
        damage("holding", 0, holding + 1),
        damage("holding", 0, len(tracker.streams)),
        damage("now", tcp.HOLDING, 1 << 40),
        damage("now", tcp.USED, 0),
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
    path = captures(tmp_path)[0]
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
        except (ValueError, IndexError, AssertionError, MemoryError, OverflowError, RuntimeError):
            pass
