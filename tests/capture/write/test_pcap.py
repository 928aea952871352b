"""pcap files are rotated by bytes and by packets, and together are one capture."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from wirelake.capture.write.pcap import FILE_HEAD_BYTES, PACKET_HEAD_BYTES, RotatingPcapWriter


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
