from __future__ import annotations

import io
import struct
from dataclasses import dataclass

import pytest

from wirelake.capture.write.pcap import PcapWriter
from wirelake.capture.write.tcp import ACK, FIN, MSS, PSH, RST, SYN, TcpWriter, checksum

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 7771)


@dataclass
class Packet:
    ts_us: int
    from_client: bool
    flags: int
    sequence: int
    acknowledged: int
    data: bytes


def read(raw: bytes) -> list[Packet]:
    """The packets of a file, each with good checksums; numbers relative to the first of each side."""
    assert struct.unpack("<IHHiIII", raw[:24]) == (0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
    at = 24
    packets = []
    first: dict[bool, int] = {}
    while at < len(raw):
        seconds, microseconds, length, original = struct.unpack_from("<IIII", raw, at)
        frame = raw[at + 16 : at + 16 + length]
        at += 16 + length
        assert length == original == len(frame)
        ip, tcp = frame[14:34], frame[34:]
        assert frame[12:14] == b"\x08\x00" and ip[0] == 0x45 and ip[9] == 6
        assert int.from_bytes(ip[2:4], "big") == length - 14
        assert folded(ip) == 0xFFFF
        assert folded(ip[12:20] + struct.pack(">HH", 6, len(tcp)) + tcp) == 0xFFFF
        from_client = ip[12:16] == bytes([10, 0, 0, 1])
        _, _, sequence, acknowledged, offset, flags = struct.unpack_from(">HHIIBB", tcp)
        first.setdefault(from_client, sequence)
        packets.append(
            Packet(
                seconds * 1_000_000 + microseconds,
                from_client,
                flags,
                (sequence - first[from_client]) % 2**32,
                (acknowledged - first.get(not from_client, 0)) % 2**32 if flags & ACK else 0,
                tcp[(offset >> 4) * 4 :],
            )
        )
    return packets


def folded(data: bytes) -> int:
    """The sum of the 16-bit words, added one by one with the carry put back."""
    total = 0
    for (word,) in struct.iter_unpack(">H", data + b"\0" * (len(data) % 2)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


def written(*steps: tuple[str, tuple[object, ...]]) -> list[Packet]:
    file = io.BytesIO()
    writer = PcapWriter(file)
    tcp = TcpWriter(writer)
    for name, arguments in steps:
        getattr(tcp, name)(*arguments)
    tcp.finish()
    packets = read(file.getvalue())
    assert writer.packets == len(packets)
    assert [packet.ts_us for packet in packets] == sorted(packet.ts_us for packet in packets)
    return packets


def test_a_connection_has_a_handshake_data_acknowledgements_and_an_end() -> None:
    packets = written(
        ("open", (0, CLIENT, SERVER, 1_000_000)),
        ("send", (0, True, b"hello", 1_001_000)),
        ("send", (0, False, b"hi", 1_002_000)),
        ("close", (0, True, False, 1_003_000)),
    )
    assert [(p.from_client, p.flags, p.sequence, p.acknowledged, p.data) for p in packets] == [
        (True, SYN, 0, 0, b""),
        (False, SYN | ACK, 0, 1, b""),
        (True, ACK, 1, 1, b""),
        (True, PSH | ACK, 1, 1, b"hello"),
        (False, ACK, 1, 6, b""),
        (False, PSH | ACK, 1, 6, b"hi"),
        (True, ACK, 6, 3, b""),
        (True, FIN | ACK, 6, 3, b""),
        (False, FIN | ACK, 3, 7, b""),
        (True, ACK, 7, 4, b""),
    ]
    assert packets[3].ts_us == 1_001_000


def test_a_quick_answer_carries_the_acknowledgement() -> None:
    packets = written(
        ("open", (0, CLIENT, SERVER, 0)),
        ("send", (0, True, b"a", 1_000)),
        ("send", (0, False, b"b", 1_010)),
    )
    assert [(p.from_client, p.data) for p in packets[3:]] == [(True, b"a"), (False, b"b"), (True, b"")]


def test_what_is_sent_at_once_shares_segments_and_long_data_is_cut() -> None:
    packets = written(
        ("open", (0, CLIENT, SERVER, 0)),
        ("send", (0, True, b"one", 1_000)),
        ("send", (0, True, b"two", 1_000)),
        ("send", (0, True, b"x" * 4000, 2_000)),
    )
    data = [packet for packet in packets if packet.data]
    assert [len(packet.data) for packet in data] == [6, MSS, MSS, 4000 - 2 * MSS]
    assert [bool(packet.flags & PSH) for packet in data] == [True, False, False, True]
    assert [packet.sequence for packet in data] == [1, 7, 7 + MSS, 7 + 2 * MSS]


def test_a_change_of_direction_at_the_same_moment_keeps_the_order() -> None:
    packets = written(
        ("open", (0, CLIENT, SERVER, 0)),
        ("send", (0, True, b"a", 1_000)),
        ("send", (0, False, b"b", 1_000)),
        ("send", (0, True, b"c", 1_000)),
    )
    assert [packet.data for packet in packets if packet.data] == [b"a", b"b", b"c"]


def test_connections_at_the_same_time_do_not_mix() -> None:
    other = ("10.0.0.1", 40001)
    packets = written(
        ("open", (0, CLIENT, SERVER, 0)),
        ("open", (1, other, SERVER, 10)),
        ("send", (0, True, b"a", 500)),
        ("send", (1, True, b"b", 500)),
        ("close", (0, False, True, 510)),
        ("send", (1, True, b"c", 520)),
    )
    assert [packet.data for packet in packets if packet.data] == [b"a", b"b", b"c"]
    assert [packet.flags for packet in packets].count(RST | ACK) == 1


def test_the_checksum_is_the_one_of_the_internet() -> None:
    header = bytes.fromhex("450000730000400040110000c0a80001c0a800c7")
    assert checksum(header) == 0xB861
    assert checksum(b"\xff\xff") == 0
    assert checksum(b"\x01") == 0xFEFF


def test_only_ipv4_addresses_are_taken() -> None:
    with pytest.raises(ValueError, match="IPv4"):
        TcpWriter(PcapWriter(io.BytesIO())).open(0, ("10.0.0", 1), SERVER, 0)


def test_bytes_that_the_capture_misses_are_counted_by_the_numbers() -> None:
    packets = written(
        ("open", (0, CLIENT, SERVER, 0)),
        ("send", (0, True, b"abc", 1_000)),
        ("skip", (0, True, 1000, 1_000)),
        ("send", (0, True, b"def", 1_000)),
        ("skip", (0, False, 7, 2_000)),
        ("close", (0, True, False, 3_000)),
    )
    assert [(p.sequence, p.data) for p in packets if p.data] == [(1, b"abc"), (1004, b"def")]
    ends = [(p.from_client, p.sequence, p.acknowledged) for p in packets if p.flags & FIN]
    assert ends == [(True, 1007, 8), (False, 8, 1008)]


def test_a_connection_whose_beginning_was_not_seen_has_no_handshake() -> None:
    packets = written(("open", (0, CLIENT, SERVER, 0, False)), ("send", (0, False, b"abc", 1_000)))
    assert [(p.from_client, p.flags, p.data) for p in packets] == [(False, PSH | ACK, b"abc"), (True, ACK, b"")]


def test_data_at_the_moment_of_the_handshake_comes_behind_it() -> None:
    file = io.BytesIO()
    tcp = TcpWriter(PcapWriter(file), step_us=0)
    tcp.open(0, CLIENT, SERVER, 5_000)
    tcp.send(0, False, b"abc", 5_000)
    tcp.close(0, True, False, 5_000)
    tcp.finish()
    packets = read(file.getvalue())
    assert [p.flags for p in packets] == [SYN, SYN | ACK, ACK, PSH | ACK, FIN | ACK, FIN | ACK, ACK]
    assert {p.ts_us for p in packets} == {5_000}
