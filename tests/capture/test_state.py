"""The state between runs: plain types, the same after a round trip, and refused if it does not fit together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from pathlib import Path
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
from wirelake.ingest.carry import pack

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


def test_a_packed_state_comes_back_as_it_was(open_state: State) -> None:
    again = reloaded(open_state)
    assert again.tracker is not None and open_state.tracker is not None
    assert len(open_state.tracker.held) and open_state.tracker.taps.connections
    assert pack(again) == pack(open_state)
    for name in ("keys", "flows", "streams", "nodes", "holding", "now", "held"):
        np.testing.assert_array_equal(getattr(again.tracker, name), getattr(open_state.tracker, name), strict=True)
    assert again.tracker.names.tolist() == open_state.tracker.names.tolist()
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
