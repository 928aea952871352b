"""The small sisters of the floods of ``make soak``: captures that are made to cost much take time by their size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.floods import FLOODS, held_everywhere, holes, open_and_warm, out_of_order, read, strange_times
from tests.capture.following import follow
from tests.capture.test_tcp import tshark_streams
from wirelake.capture.chunks import Chunks
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker
from wirelake.kernels import tcp_held, tcp_rows

SMALL, TIMES, RATIO = 1000, 10, 40


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    open_and_warm()


@pytest.mark.parametrize("name", FLOODS)
def test_ten_times_the_packets_take_about_ten_times_as_long(name: str, tmp_path: Path) -> None:
    make, *_ = FLOODS[name]
    seconds = []
    for count in (SMALL, TIMES * SMALL):
        (tmp_path / "a").write_bytes(make(count))
        seconds.append(min(read(str(tmp_path / "a")).seconds for _ in range(3)))
    assert seconds[1] < RATIO * max(seconds[0], 0.002)


def test_segments_out_of_order_are_what_tshark_follows(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(out_of_order(3000))
    (one,), (counts,) = follow(path)
    assert [(one.stream(0), one.stream(1))] == tshark_streams(path, 1)
    assert counts.missing_bytes == counts.repeated_bytes == 0 and len(one.stream(0)) == 24_000


def test_every_hole_becomes_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(holes(20_000))
    found, (counts,) = follow(path)
    assert len(found) == 1000 and counts.missing_bytes > 0
    # The first hole of each has one byte, the nineteen behind it have ten.
    assert {tuple(length for _, length in one.gaps(0)) for one in found} == {(1, *[10] * 19)}


def test_what_is_held_of_all_connections_has_a_limit(tmp_path: Path) -> None:
    path, tracker = tmp_path / "a.pcap", Tracker()
    path.write_bytes(held_everywhere(60_000))
    taken = 0
    for chunks in open_capture(path, tracker):
        taken += int(chunks.length[chunks.start >= 0].sum())
    held = tracker.held_accounts()
    assert 0.9 * tcp_rows.MOST_HELD_BYTES_OF_ALL < int(held.bytes.sum()) <= tcp_rows.MOST_HELD_BYTES_OF_ALL
    assert taken + int(held.bytes.sum()) == 60_000 * 1400


def test_strange_times_move_no_clock(tmp_path: Path) -> None:
    path, tracker = tmp_path / "a.pcap", Tracker()
    path.write_bytes(strange_times(1000))
    (chunks,) = open_capture(path, tracker)
    assert int(tracker.state().now[tcp_rows.CLOCK]) == int(chunks.ts.max()) < 1_700_000_001_000_000
    assert int((chunks.ts < 0).sum()) == 500


def test_room_for_held_segments_is_given_back_when_they_are_gone(tmp_path: Path) -> None:
    path, tracker = tmp_path / "a.pcap", Tracker()
    path.write_bytes(out_of_order(20_000))
    stream = b"".join(_bytes(chunks) for chunks in open_capture(path, tracker))
    assert stream == b"a" * 160_000 and len(tracker._nodes) > 16_000 * tcp_rows.NODE
    tracker.tidy()
    assert len(tracker._nodes) < 2000 * tcp_rows.NODE


def _bytes(chunks: Chunks) -> bytes:
    return b"".join(
        chunks.data[start : start + length].tobytes()
        for start, length in zip(chunks.start.tolist(), chunks.length.tolist(), strict=True)
    )


@pytest.mark.parametrize("step", [1, 8, 1460])
def test_levels_of_held_segments_follow_no_pattern(step: int) -> None:
    has_level = np.array([tcp_held.level_of(1 + step * k, 12345678901234) > 0 for k in range(100_000)])
    ways = np.diff(np.flatnonzero(has_level))
    # One in four has a level: the way to it, from any place, is about four steps.
    assert 0.24 < has_level.mean() < 0.26 and (ways**2).sum() / ways.sum() < 8
