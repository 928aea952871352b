from __future__ import annotations

import io
from collections import defaultdict
from pathlib import Path

import pytest

from tests.capture import hostile
from wirelake.generate import Missing, Traffic, Truth, generate, write_pcap, write_tap

Streams = dict[tuple[int, str], bytes]


def sent(traffic: Traffic) -> Streams:
    found: dict[tuple[int, str], bytes] = defaultdict(bytes)
    for event in traffic:
        found[event.connection.number, event.direction] += event.frame
    return dict(found)


def captured(packets: list[hostile.Packet]) -> dict[tuple[int, str], dict[int, int]]:
    """Byte by byte, what a capture has at each offset; bytes that come twice must be the same."""
    found: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
    ways: dict[hostile.Way, tuple[int, str]] = {}
    first: dict[hostile.Way, int] = {}
    number = -1
    for packet in packets:
        if packet.flags & hostile.SYN:
            if not packet.flags & hostile.ACK:
                number += 1
                ways[packet.way], ways[packet.back] = (number, "to_server"), (number, "to_client")
            first[packet.way] = packet.sequence + 1
            continue
        stream = found[ways[packet.way]]
        offset = (packet.sequence - first[packet.way]) & hostile.LOW32
        for at, byte in enumerate(packet.data, offset):
            assert stream.setdefault(at, byte) == byte
    return found


def test_disorder_changes_the_packets_and_no_byte(tmp_path: Path) -> None:
    calm = generate(["casual", "mb"], messages=500, connections=2)
    traffic = generate(["casual", "mb"], messages=500, connections=2, disorder=0.3)
    write_pcap(calm, tmp_path / "calm.pcap")
    truth = Truth()
    count = write_pcap(traffic, tmp_path / "wild.pcap", truth=truth)
    packets = hostile.read(tmp_path / "wild.pcap")
    plain = hostile.read(tmp_path / "calm.pcap")
    assert len(packets) == count > len(plain)
    assert [packet.ts_ns for packet in packets] == sorted(packet.ts_ns for packet in packets)
    found = {way: bytes(stream[at] for at in range(len(stream))) for way, stream in captured(packets).items()}
    assert found == sent(traffic) == sent(calm)
    assert truth.missing == []
    sequences = defaultdict(list)
    for packet in packets:
        if packet.data:
            sequences[packet.way].append(packet.sequence)
    assert any(one != sorted(one) for one in sequences.values())
    borders = {(packet.way, packet.sequence) for packet in plain}
    assert any((packet.way, packet.sequence) not in borders for packet in packets), "some are cut otherwise"


def test_the_truth_tells_which_bytes_a_capture_misses(tmp_path: Path) -> None:
    traffic = generate("dsa", messages=800, gaps=0.05, disorder=0.1)
    truth = Truth()
    write_pcap(traffic, tmp_path / "a.pcap", truth=truth)
    assert truth.missing
    there = captured(hostile.read(tmp_path / "a.pcap"))
    for way, stream in sent(traffic).items():
        absent = {at for at in range(len(stream)) if at not in there[way]}
        assert absent == _bytes(truth.missing, way)
        assert all(stream[at] == byte for at, byte in there[way].items())


def _bytes(missing: list[Missing], way: tuple[int, str]) -> set[int]:
    return {
        at
        for one in missing
        if (one.connection, one.direction) == way
        for at in range(one.offset, one.offset + one.length)
    }


def test_a_tap_misses_whole_messages(tmp_path: Path) -> None:
    traffic = generate("mb", messages=500, gaps=0.05)
    truth = Truth()
    (path,) = write_tap(traffic, tmp_path / "a.tap", truth=truth)
    whole = write_tap(generate("mb", messages=500), tmp_path / "b.tap")[0]
    assert truth.missing
    # A data record costs 32 bytes besides its data.
    lost = sum(32 + one.length for one in truth.missing)
    assert whole.stat().st_size - path.stat().st_size == lost


def test_addresses_of_the_sixth_version(tmp_path: Path) -> None:
    half = generate("ceda", messages=100, connections=6, ipv6=0.5)
    every = generate("ceda", messages=100, connections=6, ipv6=1.0)
    assert {":" in one.client[0] for one in half.truth.sessions} == {True, False}
    assert all(":" in one.client[0] and ":" in one.server[0] for one in every.truth.sessions)
    assert len({event.connection.name for event in every}) == 6
    plain = generate("ceda", messages=100, connections=6)
    assert [event.frame for event in every] == [event.frame for event in plain]


def test_a_rotated_set_is_the_capture_in_pieces(tmp_path: Path) -> None:
    traffic = generate("casual", messages=1000)
    count = write_pcap(traffic, tmp_path / "one.pcap")
    assert write_pcap(traffic, tmp_path / "five.pcap", files=5) == count
    assert write_pcap(traffic, tmp_path / "small.pcap", rotate_bytes=50_000) == count
    whole = hostile.read(tmp_path / "one.pcap")
    for name in ("five", "small"):
        paths = sorted(tmp_path.glob(f"{name}-*.pcap"))
        assert [packet for path in paths for packet in hostile.read(path)] == whole
        if name == "five":
            sizes = [len(hostile.read(path)) for path in paths]
            assert len(sizes) == 5 and max(sizes) - min(sizes) < 5
        else:
            assert len(paths) > 5 and all(path.stat().st_size <= 50_000 for path in paths)


def test_a_set_needs_a_name() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        write_pcap(generate("mb", messages=10), io.BytesIO(), files=2)


@pytest.mark.parametrize("dial", ["corrupt", "ipv6", "violations", "disorder", "gaps"])
def test_a_dial_is_a_share(dial: str) -> None:
    with pytest.raises(ValueError, match=f"{dial} is a share between 0 and 1, not 1.5"):
        generate("mb", **{dial: 1.5})  # type: ignore[arg-type]
