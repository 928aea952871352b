"""The first look at files: kind, time of the first connection, order."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.capture.read.inputs import Peek, in_order, peek
from wirelake.errors import CaptureError
from wirelake.generate import generate, write_pcap, write_tap


def test_captures_are_sorted_by_their_first_packet_and_raw_files_come_last(tmp_path: Path) -> None:
    for number, name in enumerate(("late.pcap", "early.pcap")):
        write_pcap(generate("mb", messages=5, start_us=(3 - number) * 10**15), tmp_path / name)
    write_tap(generate("mb", messages=5, start_us=10**15), tmp_path / "first.tap")
    (tmp_path / "b.bin").write_bytes(b"raw")
    peeks = [peek(str(path)) for path in sorted(tmp_path.iterdir())]
    assert [Path(each.path).name for each in in_order(peeks)] == ["first.tap", "early.pcap", "late.pcap", "b.bin"]
    assert [each.kind for each in in_order(peeks)] == ["tap", "pcap", "pcap", "raw"]


def test_a_kind_that_is_named_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "stream.dump").write_bytes(b"anything")
    path = str(tmp_path / "stream.dump")
    assert peek(path, "raw") == Peek(path, "raw", None)
    with pytest.raises(CaptureError, match="not a pcap, pcapng or tap file: it begins with 61 6e"):
        peek(path)
