"""pcapng files have the packets and times that were written, as our own reader finds them."""

from __future__ import annotations

from pathlib import Path

from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker
from wirelake.capture.write.pcapng import PcapngWriter
from wirelake.capture.write.tcp import TcpWriter


def test_streams_and_times_come_back(tmp_path: Path) -> None:
    path, start_us = tmp_path / "a.pcapng", 1_700_000_000_123_457
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        tcp = TcpWriter(writer)
        tcp.open(0, ("10.0.0.1", 4000), ("10.0.0.2", 7771), start_us)
        for number in range(5):
            tcp.send(0, True, b"x" * number, start_us + 1000 * (number + 1))
        tcp.finish()
    reader = open_capture(path, Tracker())
    (chunks,) = reader
    assert chunks.length.tolist() == [1, 2, 3, 4]
    assert chunks.ts.tolist() == [start_us + 1000 * number for number in (2, 3, 4, 5)]
    assert reader.counts.packets == writer.packets and not reader.counts.broken
