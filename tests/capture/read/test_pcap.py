"""Packet files of every kind give the bytes that were sent."""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.capture import hostile
from tests.capture.following import Followed, Follower, follow, plain
from tests.capture.hostile import LOW32
from tests.capture.reloading import reloaded
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker
from wirelake.generate import generate, write_pcap
from wirelake.protocols import BUILT_IN


@pytest.fixture
def packets(tmp_path: Path) -> list[hostile.Packet]:
    return plain(tmp_path / "plain.pcap")


def sent(packets: list[hostile.Packet]) -> list[tuple[Any, ...]]:
    return [
        (stream.client, stream.server, stream.first_us, bytes(stream.to_server), bytes(stream.to_client), stream.ended)
        for stream in hostile.streams(packets)
    ]


def told(found: list[Followed]) -> list[tuple[Any, ...]]:
    return [
        (*one.ends, one.connection.first_us, one.stream(0), one.stream(1), one.connection.ended)
        for one in sorted(found, key=lambda one: one.connection.first_us or 0)
    ]


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_a_generated_capture_gives_the_bytes_and_times_that_were_sent(protocol: str, tmp_path: Path) -> None:
    traffic = generate(protocol, messages=400, connections=3)
    count = write_pcap(traffic, tmp_path / "a.pcap")
    found, (counts,) = follow(tmp_path / "a.pcap")
    frames: dict[Any, list[Any]] = defaultdict(list)
    for event in traffic:
        frames[event.connection.client, event.direction].append(event)
    assert len(found) == len({client for client, _ in frames})
    assert counts.packets == count and not counts.foreign_packets and not counts.broken
    assert counts.missing_bytes == counts.repeated_bytes == counts.early_bytes == counts.cut_packets == 0
    for one in found:
        assert one.connection.is_whole and one.connection.ended
        for number, direction in enumerate(("to_server", "to_client")):
            events = frames[one.ends[0], direction]
            assert one.stream(number) == b"".join(event.frame for event in events)
            at, readable = 0, {}
            for piece in one.pieces[number]:
                readable[piece.offset + piece.length] = piece.ts
            for event in events:
                at += len(event.frame)
                assert min(ts for end, ts in readable.items() if end >= at) == event.ts_us


LINKS = ("ethernet", "vlan", "qinq", "raw", "ipv4", "sll", "sll2", "null", "loop")


@pytest.mark.parametrize("big_endian", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("link", LINKS)
def test_every_link_type_and_byte_order_of_pcap_is_read(
    link: hostile.Link, big_endian: bool, packets: list[hostile.Packet], tmp_path: Path
) -> None:
    path = hostile.write_pcap(tmp_path / "a.pcap", packets, link=link, big_endian=big_endian, nanoseconds=big_endian)
    found, (counts,) = follow(path)
    assert told(found) == sent(packets)
    assert counts.packets == len(packets) and counts.foreign_packets == 0


@pytest.mark.parametrize("link", [12, 14])
def test_the_other_numbers_of_raw_ip_are_read(link: int, packets: list[hostile.Packet], tmp_path: Path) -> None:
    path = hostile.write_pcap(tmp_path / "a.pcap", packets, link="raw")
    path.write_bytes(path.read_bytes()[:20] + struct.pack("<I", link) + path.read_bytes()[24:])
    assert told(follow(path)[0]) == sent(packets)


@pytest.mark.parametrize("extension", [False, True])
@pytest.mark.parametrize("link", ["ethernet", "raw", "sll", "sll2", "null", "loop"])
def test_ipv6_is_read(link: hostile.Link, extension: bool, packets: list[hostile.Packet], tmp_path: Path) -> None:
    packets = hostile.ipv6(packets)
    found, (counts,) = follow(hostile.write_pcap(tmp_path / "a.pcap", packets, link=link, extension=extension))
    assert told(found) == sent(packets)
    assert found[0].connection.client == "fd00::a00:1" and counts.foreign_packets == 0


@pytest.mark.parametrize("big_endian", [False, True], ids=["little", "big"])
@pytest.mark.parametrize("nanoseconds", [False, True], ids=["us", "ns"])
def test_pcapng_with_sections_and_interfaces_is_read(
    big_endian: bool, nanoseconds: bool, packets: list[hostile.Packet], tmp_path: Path
) -> None:
    path = hostile.write_pcapng(
        tmp_path / "a.pcapng", packets, links=LINKS, big_endian=big_endian, nanoseconds=nanoseconds, sections=3
    )
    found, (counts,) = follow(path)
    assert told(found) == sent(packets)
    assert counts.packets == len(packets) and not counts.notes and not counts.broken


def test_packets_without_times_are_read(packets: list[hostile.Packet], tmp_path: Path) -> None:
    found, _ = follow(hostile.write_pcapng(tmp_path / "a.pcapng", packets, simple=True))
    assert {one.ends[0]: (one.stream(0), one.stream(1)) for one in found} == {row[0]: row[3:5] for row in sent(packets)}
    assert {one.connection.first_us for one in found} == {None}
    assert {piece.ts for one in found for piece in one.pieces[0]} == {-1}


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    return hostile._block(order, kind, body)


def pcapng(path: Path, interface: bytes, blocks: list[bytes], order: str = "<") -> Path:
    section = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    path.write_bytes(section + block(1, interface, order) + b"".join(blocks))
    return path


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "ticks"),
    [
        (0x00, lambda us: us // 1_000_000),
        (0x03, lambda us: us // 1000),
        (0x09, lambda us: us * 1000),
        (0x0A, lambda us: us * 10000),
        (0x80 | 20, lambda us: -(-(us << 20) // 1_000_000)),
        (0x80 | 33, lambda us: -(-(us << 33) // 1_000_000)),
    ],
    ids=["s", "ms", "ns", "0.1 ns", "2^-20", "2^-33"],
)
def test_units_and_offsets_of_time_are_understood(
    order: str, resolution: int, ticks: Any, packets: list[hostile.Packet], tmp_path: Path
) -> None:
    shift_s = 1_699_999_000
    options = hostile._option(order, 9, bytes([resolution])) + hostile._option(
        order, 14, struct.pack(order + "q", shift_s)
    )
    interface = struct.pack(order + "HHI", 101, 0, 0) + options + bytes(4)
    blocks = []
    for packet in packets:
        data = hostile.link_packet(packet, "raw")
        time = ticks(packet.ts_ns // 1000 - shift_s * 1_000_000)
        head = struct.pack(order + "IIIII", 0, time >> 32, time & hostile.LOW32, len(data), len(data))
        blocks.append(block(6, head + data, order))
    found, _ = follow(pcapng(tmp_path / "a.pcapng", interface, blocks, order))
    unit = {0: 1_000_000, 3: 1000}.get(resolution, 1)
    whole = [(row[0], row[1], row[2] // unit * unit, *row[3:]) for row in sent(packets)]
    assert sorted(told(found)) == sorted(whole)


@pytest.mark.parametrize("order", ["<", ">"])
def test_obsolete_packet_blocks_are_read(order: str, packets: list[hostile.Packet], tmp_path: Path) -> None:
    blocks = []
    for packet in packets:
        data, time = hostile.link_packet(packet, "raw"), packet.ts_ns // 1000
        head = struct.pack(order + "HHIIII", 0, 7, time >> 32, time & hostile.LOW32, len(data), len(data))
        blocks.append(block(2, head + data, order))
    path = pcapng(tmp_path / "a.pcapng", struct.pack(order + "HHI", 101, 0, 0), blocks, order)
    assert told(follow(path)[0]) == sent(packets)


def test_what_is_no_tcp_is_counted(packets: list[hostile.Packet], tmp_path: Path) -> None:
    mixed = hostile.foreign(packets, Random(1))
    found, (counts,) = follow(hostile.write_pcap(tmp_path / "a.pcap", mixed))
    assert told(found) == sent(packets)
    assert counts.foreign_packets == len(mixed) - len(packets) > 20
    assert counts.foreign_bytes == sum(len(hostile.link_packet(one)) for one in mixed if one.foreign is not None)
    assert counts.packets == len(mixed) and counts.bytes == (tmp_path / "a.pcap").stat().st_size - 24 - 16 * len(mixed)


def raw_packets(path: Path, packets: list[tuple[hostile.Packet, bytes]]) -> Path:
    """A pcap of raw IP with these bytes."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101)
    for packet, data in packets:
        seconds, rest = divmod(packet.ts_ns // 1000, 1_000_000)
        out += struct.pack("<IIII", seconds, rest, len(data), len(data)) + data
    path.write_bytes(out)
    return path


def test_ip_options_fragments_and_lengths_of_offloading_are_understood(
    packets: list[hostile.Packet], tmp_path: Path
) -> None:
    changed = []
    for number, packet in enumerate(packets):
        ip = bytearray(hostile.link_packet(packet, "raw"))
        if number % 3 == 0:
            ip[2:4] = b"\0\0"
        elif number % 3 == 1:
            ip[0] = 0x47
            ip[2:4] = (len(ip) + 8).to_bytes(2, "big")
            ip[20:20] = b"\x01" * 8
        changed.append((packet, bytes(ip)))
        for fragment in (0x2000, 0x2010):
            ip[4:6] = number.to_bytes(2, "big")
            ip[6:8] = fragment.to_bytes(2, "big")
            changed.append((packet, bytes(ip)))
    found, (counts,) = follow(raw_packets(tmp_path / "a.pcap", changed))
    assert told(found) == sent(packets)
    assert (counts.fragments, counts.joined_fragments, counts.foreign) == (2 * len(packets), 0, {})


def test_an_ipv6_fragment_is_set_aside_unless_it_is_the_whole(packets: list[hostile.Packet], tmp_path: Path) -> None:
    packets = hostile.ipv6(packets)
    changed = []
    for number, packet in enumerate(packets):
        ip = bytearray(hostile.link_packet(packet, "raw"))
        ip[4:6] = (len(ip) - 40 + 8).to_bytes(2, "big")
        ip[6] = 44
        for offset in (0, 1, 0x0101):
            head = bytes([6, 0]) + offset.to_bytes(2, "big") + number.to_bytes(4, "big")
            changed.append((packet, bytes(ip[:40]) + head + bytes(ip[40:])))
    found, (counts,) = follow(raw_packets(tmp_path / "a.pcap", changed))
    assert told(found) == sent(packets)
    assert (counts.fragments, counts.joined_fragments, counts.foreign) == (2 * len(packets), 0, {})


def test_headers_that_claim_too_much_are_foreign_and_do_no_harm(tmp_path: Path) -> None:
    rng = Random(5)
    packet = plain(tmp_path / "plain.pcap", packets=1)[9]
    made = []
    for _ in range(3000):
        data = bytearray(hostile.link_packet(packet, "raw"))
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(min(60, len(data)))] = rng.getrandbits(8)
        made.append((packet, bytes(data[: rng.randint(0, len(data))])))
    _, (counts,) = follow(raw_packets(tmp_path / "a.pcap", made))
    assert counts.packets == 3000 and counts.foreign_packets > 300


@pytest.mark.parametrize("size", [70, 200, 1000])
def test_what_the_snap_length_cut_off_is_a_gap(size: int, packets: list[hostile.Packet], tmp_path: Path) -> None:
    found, (counts,) = follow(hostile.write_pcap(tmp_path / "a.pcap", packets, snap=size))
    assert counts.cut_packets == sum(len(hostile.link_packet(one)) > size for one in packets) > 10
    missing = 0
    for one, (*_, to_server, to_client, ended) in zip(found, sent(packets), strict=True):
        assert one.connection.ended == ended
        for direction, data in enumerate((to_server, to_client)):
            expected = bytearray(data)
            for offset, length in one.gaps(direction):
                expected[offset : offset + length] = bytes(length)
                missing += length
            assert one.stream(direction) == expected
    assert counts.missing_bytes == missing == sum(max(0, len(one.data) - (size - 54)) for one in packets)


@pytest.mark.parametrize("write", [hostile.write_pcap, hostile.write_pcapng])
def test_of_a_torn_last_packet_is_kept_what_there_is(write: Any, packets: list[hostile.Packet], tmp_path: Path) -> None:
    while not packets[-1].data:
        packets.pop()
    last = packets[-1]
    packets[-1] = replace(last, data=last.data + bytes(100))
    path = hostile.cut(write(tmp_path / "a.pcap", packets), 70)
    found, (counts,) = follow(path)
    stream = next(
        one
        for one in found
        if last.source_port in (one.ends[0][1], one.ends[1][1])
        and one.ends[0][1] in (last.source_port, last.target_port)
    )
    direction = 0 if last.target_port == 7771 else 1
    assert stream.pieces[direction][-1].data is None
    assert stream.pieces[direction][-2].data is not None
    assert stream.pieces[direction][-2].data[: len(last.data)] == last.data
    assert "the last packet is cut" in counts.broken and counts.cut_packets == 1


@pytest.mark.parametrize("write", [hostile.write_pcap, hostile.write_pcapng])
def test_a_file_that_grows_is_read_packet_by_whole_packet(
    write: Any, packets: list[hostile.Packet], tmp_path: Path
) -> None:
    content = write(tmp_path / "whole.pcap", packets).read_bytes()
    path = tmp_path / "a.pcap"
    tracker, follower, place = Tracker(), Follower(), None
    for size in [10, *range(200, len(content), 3001), len(content)]:
        path.write_bytes(content[:size])
        reader = open_capture(path, tracker, start=place, growing=True)
        for chunks in reader:
            follower.add(chunks)
        has_head = size > 24
        assert not has_head or (not reader.counts.broken and not reader.counts.cut_packets)
        place = reader.resume_point()
    assert told(list(follower.all.values())) == sent(packets)


@pytest.mark.parametrize("left", [1, 15])
def test_a_torn_packet_head_is_told(left: int, packets: list[hostile.Packet], tmp_path: Path) -> None:
    path = hostile.write_pcap(tmp_path / "a.pcap", packets)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(left))
    found, (counts,) = follow(path)
    assert told(found) == sent(packets)
    assert counts.broken == f"the last {left} bytes, up to {size + left}, are an incomplete packet"


@pytest.mark.parametrize("rubbish", [b"\xff", b"\0"])
def test_rubbish_behind_good_packets_ends_the_file_there(
    rubbish: bytes, packets: list[hostile.Packet], tmp_path: Path
) -> None:
    for write in (hostile.write_pcap, hostile.write_pcapng):
        path = write(tmp_path / "a.pcap", packets)
        size = path.stat().st_size
        path.write_bytes(path.read_bytes() + rubbish * 1000)
        found, (counts,) = follow(path, window=1000)
        assert told(found) == sent(packets)
        assert counts.broken == f"not a packet at byte {size}; nothing behind it is read"


def test_a_cut_head_of_a_file_is_told(tmp_path: Path) -> None:
    path = hostile.write_pcap(tmp_path / "a.pcap", [])
    hostile.cut(path, 3)
    found, (counts,) = follow(path)
    assert not found and counts.broken == "the head of the file is cut at byte 21"


def test_packets_of_unknown_link_types_are_noted(packets: list[hostile.Packet], tmp_path: Path) -> None:
    path = hostile.write_pcap(tmp_path / "a.pcap", packets)
    path.write_bytes(path.read_bytes()[:20] + struct.pack("<I", 147) + path.read_bytes()[24:])
    found, (counts,) = follow(path)
    assert not found and counts.foreign_packets == len(packets)
    assert counts.notes == ["packets of link type 147 are not understood"]


def test_packets_of_unknown_interfaces_are_noted(tmp_path: Path) -> None:
    head = struct.pack("<IIIII", 3, 0, 0, 4, 4)
    path = pcapng(tmp_path / "a.pcapng", struct.pack("<HHI", 101, 0, 0), [block(6, head + b"abcd")])
    _, (counts,) = follow(path)
    assert counts.packets == counts.foreign_packets == 1
    assert counts.notes == ["there are packets of interfaces that are not described"]


def flood_of_interfaces(path: Path, count: int, packets: list[hostile.Packet]) -> Path:
    """A pcapng file with many interfaces, the last of which has the packets."""
    plain, last = block(1, struct.pack("<HHI", 147, 0, 0)), block(1, struct.pack("<HHI", 101, 0, 0))
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    blocks = []
    for packet in packets:
        data, time = hostile.link_packet(packet, "raw"), packet.ts_ns // 1000
        blocks.append(block(6, struct.pack("<IIIII", count - 1, time >> 32, time & LOW32, len(data), len(data)) + data))
    path.write_bytes(section + plain * (count - 1) + last + b"".join(blocks))
    return path


@pytest.mark.parametrize("window", [1 << 20, 100_000])
def test_sixteen_thousand_interfaces_are_read(window: int, packets: list[hostile.Packet], tmp_path: Path) -> None:
    path = flood_of_interfaces(tmp_path / "a.pcapng", 16_000, packets)
    found, (counts,) = follow(path, window=window)
    assert told(found) == sent(packets) and not counts.notes


def test_interfaces_take_time_in_proportion(tmp_path: Path) -> None:
    few, many = (flood_of_interfaces(tmp_path / f"{count}.pcapng", count, []) for count in (6000, 60_000))
    follow(few)
    assert seconds_to_read(many) < 40 * max(seconds_to_read(few), 0.001)


def seconds_to_read(path: Path) -> float:
    def once() -> float:
        begin = time.perf_counter()
        follow(path)
        return time.perf_counter() - begin

    return min(once() for _ in range(3))


def test_a_million_interfaces_are_refused_by_name_and_the_state_stays_small(
    packets: list[hostile.Packet], tmp_path: Path
) -> None:
    path = flood_of_interfaces(tmp_path / "a.pcapng", 1_000_000, packets)
    reader = open_capture(path, Tracker())
    assert sum(map(len, reader)) == 0
    known = reader.resume_point().packets
    assert known is not None and len(known.interfaces) == 1 << 16
    assert reader.counts.packets == reader.counts.foreign_packets == len(packets)
    assert "a section describes more than 65536 interfaces; the others are not read" in reader.counts.notes


def test_interfaces_are_known_where_reading_goes_on(packets: list[hostile.Packet], tmp_path: Path) -> None:
    path = flood_of_interfaces(tmp_path / "a.pcapng", 100, packets)
    tracker, follower, start = Tracker(), Follower(), None
    while True:
        reader = open_capture(path, tracker, start=start, window=1000)
        chunks = next(iter(reader), None)
        if chunks is None:
            break
        follower.add(chunks)
        start = reloaded(reader.resume_point())
    assert told(list(follower.all.values())) == sent(packets)


def test_positions_are_those_of_the_file(packets: list[hostile.Packet], tmp_path: Path) -> None:
    path = hostile.write_pcapng(tmp_path / "a.pcapng", packets)
    content = path.read_bytes()
    found, _ = follow(path, window=3000)
    for one in found:
        for piece in one.pieces[0] + one.pieces[1]:
            assert content[piece.position : piece.position + piece.length] == piece.data
