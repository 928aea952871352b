"""Captures that end inside a packet, grow while they are read, cannot be decoded or are no files at all."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import wirelake.capture.decode as decoding
from tests.ingest.histories import LEAVE_OUT, feed
from tests.ingest.lakes import Content, table
from tests.ingest.ledger import check_ledger
from wirelake.capture.read import Reader, open_capture
from wirelake.generate import generate, write_pcap, write_tap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.report import Report
from wirelake.ingest.runner import CaptureFailed, IngestError, Task
from wirelake.ingest.tasks.decode import DecodeTask
from wirelake.lake import Lake

SMALL = 1 << 12
YEAR_2106 = 4_294_967_295


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    (tmp_path / "eth0").mkdir()
    traffic = generate(("casual", "ceda"), seed=4, messages=300, connections=3, gaps=0.01)
    write_pcap(traffic, tmp_path / "eth0" / "part.pcap", files=3)
    return sorted((tmp_path / "eth0").iterdir())


def content(place: Path) -> Content:
    return Content(Lake.open(place, create=False), LEAVE_OUT)


def fed(place: Path, paths: Sequence[Path], **options: Any) -> Report:
    return feed(InlineRunner(), [str(path) for path in paths], place, sensor="eth0", **options)


def tear(path: Path, count: int = 31) -> bytes:
    """Cut the last bytes of a capture; return it as it was."""
    whole = path.read_bytes()
    path.write_bytes(whole[:-count])
    return whole


# --- captures that grow while they are read


class Growing(InlineRunner):
    """Lets a capture grow behind the index, before anything is decoded."""

    def __init__(self, grow: Callable[[], object]) -> None:
        super().__init__()
        self._grow = grow

    def submit(self, task: Task, after: Sequence[Future[Any]] = (), priority: int = 0) -> Future[Any]:
        if isinstance(getattr(task, "task", task), DecodeTask):
            self._grow()
        return super().submit(task, after, priority)


@pytest.mark.parametrize("kind", ["pcap", "tap"])
@pytest.mark.parametrize("share", [0.5, 0.73])
def test_what_a_capture_gets_between_the_index_and_the_decoding_is_read_by_the_next_ingest(
    tmp_path: Path, kind: str, share: float
) -> None:
    path = tmp_path / f"capture.{kind}"
    write = {"pcap": write_pcap, "tap": write_tap}[kind]
    write(generate("casual", seed=4, messages=300), path)
    whole = path.read_bytes()
    fed(tmp_path / "once", [path], final=True)
    path.write_bytes(part := whole[: int(len(whole) * share)])
    runner = Growing(lambda: path.write_bytes(whole))
    two_partitions = len(part) // 2 + 4096  # so one task indexes all of it before the first decode task
    feed(runner, [str(path)], tmp_path / "lake", sensor="eth0", partition_bytes=two_partitions)
    assert path.stat().st_size == len(whole)
    check_ledger(Lake.open(tmp_path / "lake", create=False), is_final=False)
    assert fed(tmp_path / "lake", [path], final=True).captures == 1
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


# --- captures that end inside a packet


@pytest.mark.parametrize("torn", [0, 1, 2])
@pytest.mark.parametrize("partition_bytes", [None, SMALL])
def test_a_torn_capture_gives_the_same_lake_file_by_file_as_at_once(
    parts: list[Path], tmp_path: Path, torn: int, partition_bytes: int | None
) -> None:
    tear(parts[torn])
    report = fed(tmp_path / "once", parts, final=True, partition_bytes=partition_bytes)
    assert [note for note in report.notes if "the last packet is cut" in note]
    for path in parts:
        fed(tmp_path / "lake", [path], partition_bytes=partition_bytes)
    fed(tmp_path / "lake", parts, final=True)
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []
    check_ledger(Lake.open(tmp_path / "lake", create=False), is_final=True)
    assert fed(tmp_path / "lake", parts, final=True).commit is None


def test_a_torn_packet_waits_for_its_rest_while_its_capture_is_the_last(parts: list[Path], tmp_path: Path) -> None:
    fed(tmp_path / "once", parts, final=True)
    whole = tear(parts[1])
    fed(tmp_path / "lake", parts[:2])
    assert not fed(tmp_path / "lake", parts[:2]).commit
    parts[1].write_bytes(whole)
    fed(tmp_path / "lake", parts, final=True)
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


def test_a_capture_whose_torn_packet_was_taken_is_late_when_it_grows_and_rebuilt(
    parts: list[Path], tmp_path: Path
) -> None:
    fed(tmp_path / "once", parts, final=True)
    whole = tear(parts[0])
    fed(tmp_path / "lake", parts[:2])
    parts[0].write_bytes(whole)
    fed(tmp_path / "lake", parts, final=True, late="rebuild")
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


@pytest.mark.parametrize("partition_bytes", [None, SMALL])
def test_a_capture_that_grows_though_nothing_was_to_come_goes_on_with_its_torn_packet(
    parts: list[Path], tmp_path: Path, partition_bytes: int | None
) -> None:
    whole = tear(parts[0], len(parts[0].read_bytes()) // 2)
    fed(tmp_path / "lake", parts[:1], final=True, partition_bytes=partition_bytes)
    parts[0].write_bytes(whole)
    report = fed(tmp_path / "lake", parts[:1], final=True, partition_bytes=partition_bytes)
    assert report.captures == 1 and report.notes == []
    assert fed(tmp_path / "lake", parts[:1], final=True).commit is None
    packets = [row["position"] for row in table(tmp_path / "lake", "bronze/chunks")]
    fed(tmp_path / "once", parts[:1], final=True)
    assert set(packets) == {row["position"] for row in table(tmp_path / "once", "bronze/chunks")}


def test_a_torn_capture_that_is_gone_is_named(parts: list[Path], tmp_path: Path) -> None:
    tear(parts[0])
    fed(tmp_path / "lake", parts[:1])
    parts[0].unlink()
    report = fed(tmp_path / "lake", parts[1:])
    assert [note for note in report.notes if "part-0000.pcap: it is gone, and with it" in note]
    assert report.captures == 2


def test_a_rebuild_takes_a_torn_packet_before_final_once(parts: list[Path], tmp_path: Path) -> None:
    tear(parts[1])
    fed(tmp_path / "once", parts[:2], final=True)
    fed(tmp_path / "once", parts, final=True)
    fed(tmp_path / "lake", parts[1:2], final=True)
    fed(tmp_path / "lake", parts, final=True, late="rebuild")
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


@pytest.mark.parametrize("messages", [300, 3000])
def test_a_file_that_had_its_size_before_its_bytes_is_read_on(messages: int, tmp_path: Path) -> None:
    """Some programs that copy make room first: zeros, until the bytes come."""
    path = tmp_path / "a.pcap"
    write_pcap(generate("casual", seed=4, messages=messages, connections=3), path)
    whole = path.read_bytes()
    fed(tmp_path / "once", [path], final=True)
    half, size = 24, len(whole)
    while half < size // 2:
        half += 16 + struct.unpack_from("<I", whole, half + 8)[0]
    path.write_bytes(whole[:half] + bytes(size - half))
    report = fed(tmp_path / "lake", [path])
    assert report.notes == [f"{path}: not a packet at byte {half}; nothing behind it is read"]
    os.utime(path)
    copy = shutil.copy(path, tmp_path / "copy.pcap")
    assert fed(tmp_path / "lake", [path, copy]).captures == 0
    path.write_bytes(whole)
    assert fed(tmp_path / "lake", [path], final=True).captures == 1
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


# --- captures that cannot be read


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a capture at which every reader fails."""

    def open_or_fail(path: str, *given: Any, **options: Any) -> Reader:
        if Path(path).name == "poison.pcap":
            raise ZeroDivisionError("division by zero")
        return open_capture(path, *given, **options)

    monkeypatch.setattr(decoding, "open_capture", open_or_fail)
    return "poison.pcap"


def test_a_poison_capture_is_set_aside_by_name_and_the_rest_goes_on(
    parts: list[Path], tmp_path: Path, poison: str
) -> None:
    fed(tmp_path / "once", parts, final=True)
    (tmp_path / "eth1").mkdir()
    write_pcap(generate("mb", seed=9, messages=50), tmp_path / "eth1" / poison)
    path = str(tmp_path / "eth1" / poison)
    report = feed(InlineRunner(), [*map(str, parts), path], tmp_path / "lake", final=True, sensor="eth0")
    assert list(report.set_aside) == [path] and "division by zero" in report.set_aside[path]
    assert report.captures == 3
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []
    assert path not in Lake.open(tmp_path / "lake", create=False).inputs()


def test_a_poison_capture_is_tried_again_by_the_next_ingest(
    parts: list[Path], tmp_path: Path, poison: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "eth0" / poison
    write_pcap(generate("mb", seed=9, messages=50, start_us=1_800_000_000_000_000), path)
    assert fed(tmp_path / "lake", [*parts, path]).set_aside
    with pytest.raises(CaptureFailed, match=r"poison.pcap"):
        fed(tmp_path / "lake", [path])
    monkeypatch.undo()
    report = fed(tmp_path / "lake", [*parts, path])
    assert (report.set_aside, report.captures, report.skipped) == ({}, 1, 3)
    assert "mb" in report.messages


def test_a_poison_capture_among_others_keeps_no_later_ones_waiting(
    parts: list[Path], tmp_path: Path, poison: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed(tmp_path / "once", parts, final=True)
    folder, path = tmp_path / "eth0", str(tmp_path / "eth0" / poison)
    os.rename(parts[1], path)
    last = parts[2].rename(tmp_path / "last.pcap")

    def ingested(**options: Any) -> Report:
        return feed(InlineRunner(), [str(folder)], tmp_path / "lake", sensor="eth0", **options)

    assert ingested().captures == 1
    last.rename(parts[2])
    assert (ingested().captures, list(ingested().set_aside)) == (1, [path])
    more = folder / "more.pcap"
    write_pcap(generate("mb", seed=9, messages=50, start_us=1_800_000_000_000_000), more)
    report = ingested()
    assert (report.captures, list(report.set_aside)) == (1, [path])
    assert "--late rebuild" in report.set_aside[path]
    os.utime(path)  # somebody may have repaired it: it is no longer what was set aside
    with pytest.raises(IngestError, match=r"poison.pcap belongs before captures"):
        ingested()
    assert list(ingested(late="rebuild").set_aside) == [path]
    monkeypatch.undo()
    assert ingested(late="rebuild").set_aside == {}
    fed(tmp_path / "once", [more], final=True)
    ingested(final=True)
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


def test_what_is_no_capture_in_a_directory_is_noted_and_left_out(parts: list[Path], tmp_path: Path) -> None:
    fed(tmp_path / "once", parts, final=True)
    folder = tmp_path / "eth0"
    os.mkfifo(folder / "pipe.pcap")
    (folder / "broken.pcap").symlink_to(folder / "nowhere")
    (folder / "nonsense.pcap").write_bytes(bytes(range(200)))
    (folder / "empty.pcap").touch()
    report = feed(InlineRunner(), [str(folder)], tmp_path / "lake", sensor="eth0", final=True)
    noted = {name for name in ("pipe", "broken", "nonsense", "empty") if any(f"{name}.pcap" in n for n in report.notes)}
    assert noted >= {"pipe", "nonsense", "empty"}
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


def test_a_capture_that_became_nonsense_is_left_out_until_it_is_restored(parts: list[Path], tmp_path: Path) -> None:
    fed(tmp_path / "once", parts, final=True)
    fed(tmp_path / "lake", parts[:2])
    whole = parts[1].read_bytes()
    parts[1].write_bytes(b"nonsense")
    report = feed(InlineRunner(), [str(tmp_path / "eth0")], tmp_path / "lake", sensor="eth0")
    assert [note for note in report.notes if "part-0001.pcap" in note]
    parts[1].write_bytes(whole)
    fed(tmp_path / "lake", parts, final=True)
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []


def test_absurd_times_are_quarantined_and_neither_order_nor_ingest_suffers(parts: list[Path], tmp_path: Path) -> None:
    data = bytearray(parts[1].read_bytes())
    at = 24
    for _ in range(5):
        at += 16 + struct.unpack_from("<I", data, at + 8)[0]
    struct.pack_into("<I", data, at, YEAR_2106)
    parts[1].write_bytes(data)
    fed(tmp_path / "once", parts, final=True)
    for path in parts:
        fed(tmp_path / "lake", [path])
    fed(tmp_path / "lake", parts, final=True)
    assert content(tmp_path / "lake").differences(content(tmp_path / "once")) == []
    rules = {row["rule"] for row in table(tmp_path / "lake", "silver/quarantine")}
    assert "time_range" in rules


def test_a_copied_directory_is_read_once(parts: list[Path], tmp_path: Path) -> None:
    fed(tmp_path / "lake", parts)
    shutil.copytree(tmp_path / "eth0", tmp_path / "backup")
    report = feed(InlineRunner(), [str(tmp_path / "backup")], tmp_path / "lake")
    assert (report.captures, report.skipped, report.messages) == (0, 3, {})
