"""Packets in tunnels, tags, labels and fragments: TCP is found where tshark finds it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from tests.capture import hostile, wrapping
from tests.capture.following import Follower, follow, plain
from tests.capture.hostile import Packet
from tests.capture.reloading import reloaded
from tests.capture.test_tcp import sent, streams_of, told, tshark_streams
from tests.capture.wrapping import WRAPPINGS, ethernet, fragments, in_fragments, ip_of
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker


@pytest.fixture
def packets(tmp_path: Path) -> list[Packet]:
    return plain(tmp_path / "plain.pcap", packets=80)


def write(path: Path, frames: Iterable[tuple[Packet, bytes]], snap: int = 1 << 18) -> Path:
    """A pcap of Ethernet with these frames."""
    out = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, 1))
    for packet, frame in frames:
        seconds, rest = divmod(packet.ts_ns // 1000, 1_000_000)
        out += struct.pack("<IIII", seconds, rest, min(snap, len(frame)), len(frame)) + frame[:snap]
    path.write_bytes(out)
    return path


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
@pytest.mark.parametrize("name", WRAPPINGS)
def test_tcp_is_found_in_every_wrapping_as_tshark_finds_it(
    name: str, family: str, packets: list[Packet], tmp_path: Path
) -> None:
    packets = hostile.ipv6(packets) if family == "IPv6" else packets
    path = write(tmp_path / "a.pcap", ((packet, WRAPPINGS[name](ip_of(packet))) for packet in packets))
    found, (counts,) = follow(path)
    assert told(found) == sent(packets) and not counts.foreign
    assert [(one.stream(0), one.stream(1)) for one in found] == tshark_streams(path, len(found))


def test_extension_headers_of_ipv6_are_passed(packets: list[Packet], tmp_path: Path) -> None:
    packets = hostile.ipv6(packets)
    frames = [(packet, ethernet(wrapping.extended(ip_of(packet)))) for packet in packets]
    path = write(tmp_path / "a.pcap", frames)
    found, (counts,) = follow(path)
    assert told(found) == sent(packets) and not counts.foreign
    assert [(one.stream(0), one.stream(1)) for one in found] == tshark_streams(path, len(found))


@pytest.mark.parametrize("overlap", [0, 8])
@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_fragments_in_any_order_are_put_together_as_tshark_does_it(
    family: str, overlap: int, packets: list[Packet], tmp_path: Path
) -> None:
    packets = hostile.ipv6(packets) if family == "IPv6" else packets
    parts = in_fragments(packets, Random(3), overlap)
    path = write(tmp_path / "a.pcap", ((packet, ethernet(part)) for packet, part in parts))
    found, (counts,) = follow(path, window=4096)
    assert told(found) == sent(packets) and not counts.foreign
    assert counts.fragments > counts.joined_fragments * 0.9 > 50
    if not overlap:
        assert counts.fragments == counts.joined_fragments
    assert [(one.stream(0), one.stream(1)) for one in found] == tshark_streams(path, len(found))


def test_fragments_of_tunnels_and_in_tunnels_are_put_together(packets: list[Packet], tmp_path: Path) -> None:
    frames = []
    for number, packet in enumerate(packets):
        inner = fragments(ip_of(packet), number, 400) if packet.data else [ip_of(packet)]
        tunnels = [wrapping.ipv4(47, wrapping.gre(0, 0x0800, part), 10 * number + k) for k, part in enumerate(inner)]
        outer = [fragments(tunnel, 10 * number + k, 160) for k, tunnel in enumerate(tunnels)]
        frames += [(packet, WRAPPINGS["VLAN"](part)) for parts in outer for part in parts[::-1]]
    path = write(tmp_path / "a.pcap", frames)
    found, _ = follow(path)
    assert told(found) == sent(packets)
    assert [(one.stream(0), one.stream(1)) for one in found] == tshark_streams(path, len(found))


def test_fragments_are_put_together_wherever_reading_stops(packets: list[Packet], tmp_path: Path) -> None:
    parts = in_fragments(packets, Random(5))
    path = write(tmp_path / "a.pcap", ((packet, ethernet(part)) for packet, part in parts))
    whole, _ = follow(path)
    content = path.read_bytes()
    tracker, follower, start = Tracker(), Follower(), None
    while True:
        reader = open_capture(path, tracker, start=start, window=1024)
        chunks = next(iter(reader), None)
        if chunks is None:
            break
        follower.add(chunks)
        start, tracker = reloaded(reader.resume_point()), Tracker(reloaded(tracker.state()))
    assert streams_of(list(follower.all.values())) == streams_of(whole)
    positions = {piece.position for one in whole for piece in one.pieces[0]}
    assert positions <= set(range(len(content))) and len(positions) > 20


def test_fragments_that_never_become_a_packet_are_counted(packets: list[Packet], tmp_path: Path) -> None:
    parts = [(packet, part) for packet, part in in_fragments(packets, Random(3)) if part[6:8] != b"\x20\0"]
    path = write(tmp_path / "a.pcap", ((packet, ethernet(part)) for packet, part in parts))
    tracker = Tracker()
    found, (counts,) = follow(path, tracker=tracker)
    whole = [packet for packet, part in parts if not part[6] & 0x3F and not part[7]]
    assert counts.fragments == len(parts) - len(whole) > 50 and counts.joined_fragments == 0
    pieces = [piece for one in found for side in (0, 1) for piece in one.pieces[side]]
    assert sum(len(piece.data or b"") for piece in pieces) == sum(len(packet.data) for packet in whole)
    assert tracker.state().fragments.datagrams == []


def test_a_fragment_that_was_not_captured_whole_is_not_used(packets: list[Packet], tmp_path: Path) -> None:
    packet = next(packet for packet in packets if len(packet.data) > 1000)
    frames = [(packet, ethernet(part)) for part in fragments(ip_of(packet), 7, 512)]
    _, (counts,) = follow(write(tmp_path / "a.pcap", frames, snap=500))
    assert (counts.fragments, counts.joined_fragments) == (3, 0)


def test_what_is_foreign_is_counted_by_what_it_is(packets: list[Packet], tmp_path: Path) -> None:
    ip, packet = ip_of(packets[0]), packets[0]
    nested = ip
    for _ in range(70):
        nested = wrapping.ipv4(4, nested)
    frames = {
        "ethertype": [wrapping.MACS + b"\x08\x06" + bytes(28), wrapping.MACS + b"\0\x10" + bytes(16)],
        "udp": [ethernet(wrapping.ipv4(17, wrapping.udp(53, 53, bytes(30))))],
        "protocol": [ethernet(wrapping.ipv4(1, bytes(30))), ethernet(wrapping.ipv4(47, b"\x40\0\x08\0" + bytes(30)))],
        "header": [ethernet(ip)[:30], WRAPPINGS["MPLS"](ip)[:17], WRAPPINGS["GRE"](ip)[:36]],
        "layers": [ethernet(nested)],
    }
    path = write(tmp_path / "a.pcap", ((packet, frame) for listed in frames.values() for frame in listed))
    _, (counts,) = follow(path)
    assert counts.foreign == {name: len(listed) for name, listed in frames.items()}
    assert counts.packets == counts.foreign_packets == 9


def test_wrappings_that_claim_too_much_do_no_harm(packets: list[Packet], tmp_path: Path) -> None:
    rng = Random(5)
    packet = next(packet for packet in packets if packet.data)
    frames = []
    for number in range(6000):
        wrap = rng.choice(list(WRAPPINGS.values()))
        ip = ip_of(packet)
        frame = bytearray(wrap(rng.choice(fragments(ip, number % 9, 24)) if number % 3 else ip))
        for _ in range(rng.randint(0, 4)):
            frame[rng.randrange(12, min(120, len(frame)))] = rng.getrandbits(8)
        frames.append((packet, bytes(frame[: rng.randint(14, len(frame))])))
    _, (counts,) = follow(write(tmp_path / "a.pcap", frames), window=2048)
    assert counts.packets == 6000 and not counts.broken
    assert len(counts.foreign) >= 4 and counts.fragments > 100
