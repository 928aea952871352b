"""pcap files are rotated by bytes and by packets, and together are one capture."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker
from wirelake.capture.write.pcap import FILE_HEAD_BYTES, PACKET_HEAD_BYTES, PcapngWriter, RotatingPcapWriter
from wirelake.capture.write.tcp import TcpWriter


def packets_of(path: Path) -> list[bytes]:
    content, at, packets = path.read_bytes(), FILE_HEAD_BYTES, []
    while at < len(content):
        (size,) = struct.unpack_from("<I", content, at + 8)
        packets.append(content[at + PACKET_HEAD_BYTES : at + PACKET_HEAD_BYTES + size])
        at += PACKET_HEAD_BYTES + size
    return packets


@pytest.mark.parametrize("limit", [{"file_packets": 3}, {"file_bytes": FILE_HEAD_BYTES + 3 * (PACKET_HEAD_BYTES + 50)}])
def test_a_set_of_files_has_all_packets_in_order(limit: dict[str, int], tmp_path: Path) -> None:
    sent = [bytes([number]) * 50 for number in range(10)]
    with RotatingPcapWriter(tmp_path / "a.pcap", **limit) as writer:
        for number, data in enumerate(sent):
            writer.packet(number, data)
    assert [path.name for path in writer.paths] == [f"a-000{number}.pcap" for number in range(4)]
    assert [len(packets_of(path)) for path in writer.paths] == [3, 3, 3, 1]
    assert [packet for path in writer.paths for packet in packets_of(path)] == sent
    assert writer.packets == 10


def test_a_packet_that_is_larger_than_a_file_gets_one_of_its_own(tmp_path: Path) -> None:
    with RotatingPcapWriter(tmp_path / "a.pcap", file_bytes=100) as writer:
        writer.packet(0, bytes(500))
        writer.packet(1, bytes(500))
    assert [len(packets_of(path)) for path in writer.paths] == [1, 1]


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
