"""Tricks of TCP, each beside what tshark follows of it. Where the two differ, the difference is stated."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.capture import hostile
from tests.capture.following import Followed, follow
from tests.capture.hostile import ACK, FIN, LOW32, PSH, RST, SYN, Packet
from tests.capture.test_tcp import CLIENT, SERVER, S, Talk, tshark_streams
from wirelake.capture.chunks import Counts
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker

URG = 0x20
SCALE_7 = b"\x01\x03\x03\x07"
FAST_OPEN = b"\x22\x0acookie12\x01\x01"
GAP = b"[%d bytes missing in capture file]\0"


def talk(initial: tuple[int, int] = (1000, 5000)) -> Talk:
    return Talk(initial).open()


def seen(path: Path, packets: Iterable[Packet], **how: Any) -> tuple[list[Followed], Counts]:
    found, (counts,) = follow(hostile.write_pcap(path / "a.pcap", packets, **how))
    return found, counts


def both(found: list[Followed]) -> tuple[bytes, bytes]:
    """The bytes of both directions of connections that are one for tshark."""
    return b"".join(one.stream(0) for one in found), b"".join(one.stream(1) for one in found)


SAME: dict[str, Talk] = {
    "overlap with other content": talk().send(0, b"aaaa").send(2, b"bbbb").answer(ack=6).send(6, b"z"),
    "overlap with other content, held": talk().send(4, b"cccc").send(2, b"bbbb").send(0, b"aa").answer(ack=8),
    "overlap with other content, filled": talk().send(4, b"cccc").send(0, b"aaaaaaaaaa").answer(ack=10),
    "overlap at the same place": talk().send(2, b"bbb").send(2, b"ccccc").send(0, b"aa").answer(ack=7),
    "retransmission cut otherwise": (
        talk().send(0, b"abcd").send(0, b"ab").send(2, b"cdef").send(1, b"bcdefgh").send(7, b"hi").answer(ack=9)
    ),
    "SYN with data": Talk().put(True, SYN, 0, b"abc").put(False, SYN | ACK, ack=3).put(True, ACK, 3).send(3, b"def"),
    "Fast Open": (
        Talk().put(True, SYN, 0, b"abc").send(3, b"def").put(False, SYN | ACK, ack=6).answer(0, b"xyz", ack=6)
        .send(6, b"ghi", ack=3)
    ),
    "Fast Open, data in both SYN": (
        Talk().put(True, SYN, 0, b"abc").put(False, SYN | ACK, 0, b"XYZ", ack=3).send(3, b"def", ack=3)
    ),
    "Fast Open, refused": (
        Talk().put(True, SYN, 0, b"abc").put(False, SYN | ACK, ack=0).put(True, ACK).send(0, b"abc").send(3, b"def")
    ),
    "Fast Open, accepted in part": (
        Talk().put(True, SYN, 0, b"abcdef").put(False, SYN | ACK, ack=3).send(3, b"defghi").answer(0, b"x", ack=9)
    ),
    "Fast Open, SYN repeated without data": (
        Talk().put(True, SYN, 0, b"abc").put(True, SYN).put(False, SYN | ACK, ack=0).send(0, b"abcdef")
    ),
    "RST outside of the window": (
        talk().send(0, b"abc").put(False, RST, 1 << 20).send(3, b"def").answer(0, b"xyz", ack=6)
    ),
    "RST before the window": (
        talk().send(0, b"abc").answer(0, b"xyz", ack=3).send(3, b"d", ack=3).put(False, RST, 1).send(4, b"ef")
        .answer(3, b"uvw", ack=6)
    ),
    "RST with text": talk().send(0, b"abc").put(True, RST | ACK, 3, b"reason"),
    "half-close": (
        talk().put(True, FIN | ACK, 0, b"abc").answer(0, b"xyz", ack=4).answer(3, b"uvw", ack=4)
        .put(False, FIN | ACK, 6, ack=4).put(True, ACK, 4, ack=7)
    ),
    "data after FIN": talk().send(0, b"abc").put(True, FIN | ACK, 3).send(3, b"def").answer(0, b"xyz", ack=6),
    "simultaneous open": (
        Talk().put(True, SYN).put(False, SYN).put(True, SYN | ACK).put(False, SYN | ACK).send(0, b"abc")
        .answer(0, b"xyz", ack=3)
    ),
    "keep-alive with a byte": (
        talk().send(0, b"abc").answer(ack=3).put(True, ACK, 2, b"\0").answer(ack=3).send(3, b"def")
    ),
    "keep-alive without a byte": talk().send(0, b"abc").answer(ack=3).put(True, ACK, 2).answer(ack=3).send(3, b"def"),
    "zero-window probe, not taken": (
        talk().send(0, b"abc").answer(ack=3).put(True, ACK, 3, b"d").answer(ack=3).send(3, b"def").answer(ack=6)
    ),
    "zero-window probe, taken": (
        talk().send(0, b"abc").answer(ack=3).put(True, ACK, 3, b"d").answer(ack=4).send(4, b"ef").answer(ack=6)
    ),
    "urgent pointer": talk().put(True, ACK | URG, 0, b"abc").send(3, b"def"),
    "no SYN": Talk().send(0, b"abc").answer(0, b"xyz", ack=3).send(3, b"def", ack=3),
    "no FIN of one side": talk().send(0, b"abc").put(True, FIN | ACK, 3).answer(0, b"xyz", ack=4),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_the_bytes_are_those_that_tshark_follows(name: str, tmp_path: Path) -> None:
    packets = SAME[name].packets
    (one,), counts = seen(tmp_path, packets)
    assert [both([one])] == tshark_streams(tmp_path / "a.pcap", 1)
    pieces = [piece for side in (0, 1) for piece in one.pieces[side]]
    given = sum(len(piece.data or b"") for piece in pieces)
    carried = sum(len(packet.data) for packet in packets)
    assert carried == given + counts.repeated_bytes + counts.outside_bytes + counts.early_bytes


def test_a_cookie_of_fast_open_and_other_options_change_nothing(tmp_path: Path) -> None:
    packets = SAME["Fast Open"].packets
    options = [FAST_OPEN + SCALE_7 if packet.flags & SYN else b"" for packet in packets]
    (one,), _ = seen(tmp_path, [replace(packet, options=more) for packet, more in zip(packets, options, strict=True)])
    assert both([one]) == (b"abcdefghi", b"xyz") and one.connection.is_whole
    assert [both([one])] == tshark_streams(tmp_path / "a.pcap", 1)


@pytest.mark.parametrize("from_client", [False, True])
def test_bytes_behind_a_reset_are_a_connection_of_their_own(from_client: bool, tmp_path: Path) -> None:
    """tshark, which knows no end, shows them in the same stream."""
    made = talk().send(0, b"abc").answer(0, b"xyz", ack=3).put(from_client, RST, 3, ack=3)
    made.send(1, b"bcdef", ack=3).answer(3, b"uvw", ack=6)
    (one, later), counts = seen(tmp_path, made.packets)
    assert both([one]) == (b"abc", b"xyz") and one.connection.ended == "reset"
    assert both([later]) == (b"def", b"uvw") and later.connection.ended == "" and counts.repeated_bytes == 2
    assert one.ends == later.ends and not later.connection.is_whole and one.connection.id != later.connection.id
    assert [both([one, later])] == tshark_streams(tmp_path / "a.pcap", 1)


def test_resets_that_cross_bytes_on_their_way_make_no_more_connections(tmp_path: Path) -> None:
    made = talk().send(0, b"abc")
    for number in range(20):
        made.put(False, RST, 0).send(3 + number, b"x")
    (one, later), _ = seen(tmp_path, made.packets)
    assert (one.connection.ended, later.connection.ended) == ("reset", "")
    assert both([one, later])[0] == b"abc" + b"x" * 20
    made.answer(0, b"y", ack=23).put(True, RST, 23)
    (_, later), _ = seen(tmp_path, made.packets)
    assert later.connection.ended == "reset"


@pytest.mark.parametrize("scaled", [False, True])
def test_the_window_of_a_reset_is_scaled_if_both_sides_offered_it(scaled: bool, tmp_path: Path) -> None:
    for both_offer in (False, True):
        made = talk().answer(0, b"x").send(0, b"abc", ack=1).put(False, RST, 1_000_000)
        packets = [
            replace(packet, options=SCALE_7)
            if packet.flags & SYN and scaled and (both_offer or packet.source == CLIENT[0])
            else packet
            for packet in made.packets
        ]
        (one,), _ = seen(tmp_path, packets)
        assert one.connection.ended == ("reset" if scaled and both_offer else "")


def test_a_reset_of_a_handshake_must_acknowledge_its_syn(tmp_path: Path) -> None:
    made = Talk().put(True, SYN).put(False, RST | ACK, 77, ack=500).put(False, SYN | ACK).put(True, ACK)
    (one,), _ = seen(tmp_path, made.send(0, b"abc").packets)
    assert one.connection.ended == "" and one.stream(0) == b"abc"


def test_bytes_behind_the_end_of_a_connection_are_counted_as_outside(tmp_path: Path) -> None:
    made = talk().send(0, b"abc").put(True, FIN | ACK, 3).put(False, FIN | ACK, 0, ack=4).put(True, ACK, 4, ack=1)
    made.send(4, b"def", ack=1).send(0, b"abc")
    (one,), counts = seen(tmp_path, made.packets)
    assert both([one]) == (b"abc", b"") and (counts.outside_bytes, counts.repeated_bytes) == (3, 3)
    assert [both([one])] == tshark_streams(tmp_path / "a.pcap", 1)


def test_bytes_behind_the_number_of_a_fin_leave_a_gap_of_one_byte(tmp_path: Path) -> None:
    made = talk().send(0, b"abc").put(True, FIN | ACK, 3).send(4, b"def").answer(0, b"xyz", ack=7)
    (one,), _ = seen(tmp_path, made.packets)
    assert one.gaps(0) == [(3, 1)] and both([one]) == (b"abc\0def", b"xyz")
    assert tshark_streams(tmp_path / "a.pcap", 1) == [(b"abc" + GAP % 1 + b"def", b"xyz")]


def test_a_fin_that_is_held_and_was_not_the_end_is_forgotten(tmp_path: Path) -> None:
    made = talk().send(3, b"def").put(True, FIN | ACK, 6).send(6, b"ghi").put(True, FIN | ACK, 9).send(1, b"bc")
    made.put(False, FIN | ACK, 0, ack=0).send(0, b"a")
    (one,), counts = seen(tmp_path, made.packets)
    assert both([one]) == (b"abcdefghi", b"") and one.connection.ended == "closed" and counts.outside_bytes == 0


def test_ports_that_are_used_again_without_a_syn_are_another_connection(tmp_path: Path) -> None:
    """tshark believes that 1.5 GB are missing."""
    made = talk().send(0, b"abc").put(True, FIN | ACK, 3).put(False, FIN | ACK, 0, ack=4).put(True, ACK, 4, ack=1)
    (one, other), counts = seen(tmp_path, made.send(1_500_000_000, b"def", ack=0).packets)
    assert (both([one]), both([other])) == ((b"abc", b""), (b"def", b"")) and counts.missing_bytes == 0


def test_ports_that_are_used_again_with_a_syn_are_another_connection_for_tshark_too(tmp_path: Path) -> None:
    first, second = talk().send(0, b"abc"), talk((700_000, 900_000)).send(0, b"def").answer(0, b"xyz", ack=3)
    later = [replace(packet, ts_ns=packet.ts_ns + S) for packet in second.packets]
    found, _ = seen(tmp_path, first.packets + later)
    assert [both([one]) for one in found] == [(b"abc", b""), (b"def", b"xyz")] == tshark_streams(tmp_path / "a.pcap", 2)


def test_sequence_numbers_that_wrap_twice_are_followed(tmp_path: Path) -> None:
    """Nine gigabytes, of which the capture has the first ten bytes of each packet."""
    out = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 64, 1))
    count = (9 << 30) // 65_000
    for number in range(count):
        data, ts_ns = number.to_bytes(10, "big"), 1_700_000_000 * S + number * 1000
        packet = Packet(ts_ns, *CLIENT, *SERVER, LOW32 - 5 + number * 65_000 & LOW32, 1, ACK | PSH)
        frame = bytearray(hostile.link_packet(replace(packet, data=data)))
        frame[16:18] = (40 + 65_000).to_bytes(2, "big")
        seconds, rest = divmod(packet.ts_ns // 1000, 1_000_000)
        out += struct.pack("<IIII", seconds, rest, 64, 54 + 65_000) + frame[:64]
    path = tmp_path / "a.pcap"
    path.write_bytes(out)
    at = 0
    for chunks in open_capture(path, Tracker()):
        for k in range(0, len(chunks), 2):
            start = int(chunks.start[k])
            assert int(chunks.offset[k]) == at * 65_000
            assert int.from_bytes(chunks.data[start : start + 10].tobytes(), "big") == at
            at += 1
    assert at == count and count * 65_000 > 2 << 32


@pytest.mark.parametrize(("back_s", "after"), [(0.1, [0, 0, 50_000]), (60, [0, -60_000_000, -59_950_000])])
def test_a_direction_is_in_the_order_of_time_unless_the_clock_was_set_back(
    back_s: float, after: list[int], tmp_path: Path
) -> None:
    made = talk().send(0, b"abc").answer(ack=3)
    first = made.packets[-2].ts_ns // 1000
    made.ts_ns = first * 1000
    made.send(3, b"def", after_ns=int(-back_s * S)).send(6, b"ghi", after_ns=50_000_000 + int(back_s < 1) * S // 10)
    (one,), _ = seen(tmp_path, made.packets)
    assert [piece.ts - first for piece in one.pieces[0]] == after


def test_jumbo_packets_are_read_as_tshark_reads_them(tmp_path: Path) -> None:
    data = Random(1).randbytes(60_000)
    made = talk().send(0, data[:9000]).send(9000, data[9000:]).answer(ack=60_000)
    (one,), _ = seen(tmp_path, made.packets)
    assert [both([one])] == tshark_streams(tmp_path / "a.pcap", 1) == [(data, b"")]


def test_a_header_that_claims_more_than_the_packet_has_hides_nothing_behind_it(tmp_path: Path) -> None:
    made = talk().send(0, b"a" * 100).send(100, b"b" * 100).answer(ack=200)
    path = hostile.write_pcap(tmp_path / "a.pcap", made.packets)
    content = bytearray(path.read_bytes())
    place = content.index(b"a" * 100) - 38
    content[place : place + 2] = (60_000).to_bytes(2, "big")
    path.write_bytes(content)
    (one,), (counts,) = follow(path)
    assert both([one]) == (b"a" * 100 + b"b" * 100, b"") and counts.missing_bytes == 0
    assert [both([one])] == tshark_streams(path, 1)


def test_what_was_cut_by_the_snap_length_is_a_gap_for_tshark_too(tmp_path: Path) -> None:
    made = talk().send(0, b"abcdefgh").send(8, b"i").answer(ack=9)
    (one,), counts = seen(tmp_path, made.packets, snap=54 + 5)
    assert one.stream(0) == b"abcde\0\0\0i" and counts.missing_bytes == 3
    ((to_server, _),) = tshark_streams(tmp_path / "a.pcap", 1)
    assert to_server.startswith(b"abcde")
