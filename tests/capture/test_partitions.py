"""However captures are cut into partitions, their rows are those of decoding them in one go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture import hostile
from tests.capture.packing import PACK, in_members
from tests.capture.reloading import reloaded
from wirelake.capture.decode import CaptureDecoder, CaptureRange, DecodedWindow
from wirelake.capture.partitions import Plan, decode_partition, plan
from wirelake.capture.settings import ReadSettings
from wirelake.capture.state import State
from wirelake.generate import generate, write_pcap, write_raw, write_tap
from wirelake.protocols import BUILT_IN

KINDS = ("pcap", "pcapng", "tap", "raw")


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[CaptureRange]]:
    place = tmp_path_factory.mktemp("captures")
    traffic = generate(BUILT_IN, seed=11, messages=250, connections=2, corrupt=0.04, gaps=0.01, disorder=0.1)
    write_pcap(traffic, place / "a.pcap", files=3)
    pcap = sorted(place.glob("*.pcap"))
    pcapng = [hostile.write_pcapng(path.with_suffix(".pcapng"), hostile.read(path)) for path in pcap]
    (place / "taps").mkdir()
    (place / "raw").mkdir()
    found = {
        "pcap": pcap,
        "pcapng": pcapng,
        "tap": write_tap(traffic, place / "taps", rotate_bytes=40_000),
        "raw": write_raw(traffic, place / "raw"),
    }
    return {
        kind: [CaptureRange(str(path), path.name, kind, size=path.stat().st_size) for path in paths]
        for kind, paths in found.items()
    }


def is_raw(window: DecodedWindow) -> bool:
    """Raw files have no packets: there the order is that of windows, and says nothing within a stream."""
    return not window.output.messages or all(connection.server == "" for connection in window.chunks.connections)


def rows(windows: Iterable[DecodedWindow]) -> dict[str, Any]:
    messages: list[str] = []
    quarantine: list[str] = []
    accounts: dict[tuple[str, str], Any] = {}
    for window in windows:
        output = window.output
        for batch in (batch for batches in output.messages.values() for batch in batches):
            messages += map(str, batch.drop_columns(["order"] if is_raw(window) else []).to_pylist())
        quarantine += map(str, output.quarantine.to_pylist())
        accounts |= {(row["connection"], row["direction"]): row for row in output.accounts.to_pylist()}
    for row in accounts.values():
        assert row["bytes_in"] == row["bytes_decoded"] + row["bytes_quarantined"] and not row["bytes_pending"]
    return {"messages": sorted(messages), "quarantine": sorted(quarantine), "accounts": accounts}


def of_plan(planned: Plan) -> dict[str, Any]:
    decoded = (decode_partition(partition, ReadSettings())[1] for partition in planned.partitions)
    return rows(window for windows in decoded for window in windows)


def in_one_go(ranges: Iterable[CaptureRange]) -> dict[str, Any]:
    decoder = CaptureDecoder(ReadSettings())
    windows = [window for captured in ranges for window in decoder.run(captured)]
    return rows([*windows, *decoder.finish()])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(size=st.integers(1 << 10, 15_000))
def test_any_size_of_partitions_gives_the_same_rows(
    kind: str, size: int, captured: dict[str, list[CaptureRange]]
) -> None:
    planned = plan(captured[kind], ReadSettings(), partition_bytes=size, is_last=True)
    assert len(planned.partitions) > 1
    assert [partition.number for partition in planned.partitions] == list(range(len(planned.partitions)))
    assert of_plan(planned) == in_one_go(captured[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_come_one_by_one_give_the_same_rows(kind: str, captured: dict[str, list[CaptureRange]]) -> None:
    state, windows = State(), []
    for number, each in enumerate(captured[kind]):
        is_last = number == len(captured[kind]) - 1
        planned = plan([each], ReadSettings(), before=state, partition_bytes=9_000, is_last=is_last)
        windows += [window for part in planned.partitions for window in decode_partition(part, ReadSettings())[1]]
        if planned.after is None:  # the planner has read nothing: the only partition knows
            decoder, decoded = decode_partition(planned.partitions[0], ReadSettings())
            assert list(decoded) and planned.partitions[0].is_only
            planned.after = decoder.state()
        state = reloaded(planned.after)
    assert rows(windows) == in_one_go(captured[kind])


def test_captures_that_fit_into_one_partition_are_not_read(captured: dict[str, list[CaptureRange]]) -> None:
    seen = []
    planned = plan(captured["pcap"], ReadSettings(), on_partition=seen.append)
    assert seen == planned.partitions and planned.after is None and planned.resume_points == {}
    (only,) = seen
    assert only.is_only and only.ranges == tuple(captured["pcap"]) and only.size == sum(r.size for r in only.ranges)


def test_the_planner_says_how_far_it_is_and_where_it_left_each_capture(captured: dict[str, list[CaptureRange]]) -> None:
    consumed: list[int] = []
    planned = plan(captured["pcap"], ReadSettings(), partition_bytes=9_000, progress=consumed.append)
    heads = 24 * len(captured["pcap"])
    assert sum(consumed) + heads == sum(each.size for each in captured["pcap"])
    assert {path: point.position for path, point in planned.resume_points.items()} == {
        each.path: each.size for each in captured["pcap"]
    }


@pytest.mark.parametrize("suffix", PACK)
def test_partitions_of_a_compressed_capture_double_and_give_the_same_rows(suffix: str, tmp_path: Path) -> None:
    write_pcap(generate(BUILT_IN, seed=11, messages=1500, connections=2, corrupt=0.04), tmp_path / "a.pcap")
    content = (tmp_path / "a.pcap").read_bytes()
    packed = tmp_path / f"a.pcap{suffix}"
    packed.write_bytes(PACK[suffix](content))
    each = CaptureRange(str(packed), "a.pcap", "pcap", size=packed.stat().st_size)
    planned = plan([each], ReadSettings(), partition_bytes=20_000, is_last=True)
    ranges = [one for partition in planned.partitions for one in partition.ranges]
    unpacked_before = sum(one.start.position for one in ranges if one.start is not None)
    assert len(ranges) > 3 and unpacked_before < 2 * len(content)
    assert all(one.start is None or one.size >= one.start.position for one in ranges[:-1])
    plain = CaptureRange(str(tmp_path / "a.pcap"), "a.pcap", "pcap", size=len(content))
    assert of_plan(planned) == in_one_go([plain])
    assert len(plan([plain], ReadSettings(), partition_bytes=20_000).partitions) > len(content) // 30_000


@pytest.mark.parametrize("suffix", PACK)
def test_a_damaged_compressed_capture_gives_the_same_rows_in_partitions(suffix: str, tmp_path: Path) -> None:
    write_pcap(generate(BUILT_IN, seed=11, messages=1500, connections=2), tmp_path / "a.pcap")
    content = bytearray(in_members(suffix, (tmp_path / "a.pcap").read_bytes(), 60_000, 120_000))
    content[len(content) * 2 // 3 : len(content) * 2 // 3 + 9] = b"\xff" * 9
    packed = tmp_path / f"a.pcap{suffix}"
    packed.write_bytes(content)
    each = CaptureRange(str(packed), "a.pcap", "pcap", size=len(content))
    planned = plan([each], ReadSettings(), partition_bytes=10_000, is_last=True)
    assert len(planned.partitions) > 2
    assert of_plan(planned) == in_one_go([each])
