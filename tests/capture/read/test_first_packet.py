"""The time of the first packet is found whatever it is a packet of, and believed only if it is sane."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture import hostile
from tests.capture.following import plain
from tests.capture.packing import PACK, in_members
from wirelake.capture import tap_format
from wirelake.capture.read.files import CaptureFile, open_binary
from wirelake.capture.read.first_packet import EARLIEST_US, LATEST_US, LOOK_BYTES, FirstPacket, first_packet
from wirelake.capture.read.listing import peek
from wirelake.generate import generate, write_tap

NOON_US = 1_700_000_000_000_000
NOTHING, BARE = FirstPacket(None, False), FirstPacket(None, True)


def looked_at(path: Path, content: bytes, kind: str) -> FirstPacket:
    path.write_bytes(content)
    with open_binary(path) as file:
        return first_packet(CaptureFile(file, str(path)), kind)


def pcap(*times_us: int, size: int = 60, order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    unit = 1000 if magic == 0xA1B23C4D else 1
    packets = [
        struct.pack(order + "IIII", us // 1_000_000, us % 1_000_000 * unit, size, size) + bytes(size) for us in times_us
    ]
    return struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1) + b"".join(packets)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(resolution: int = 6, offset: int = 0, order: str = "<") -> bytes:
    options = struct.pack(order + "HHBxxxHHqHH", 9, 1, resolution, 14, 8, offset, 0, 0)
    return block(1, struct.pack(order + "HHI", 1, 0, 65535) + options, order)


def packet(time: int, face: int = 0, order: str = "<") -> bytes:
    return block(6, struct.pack(order + "IIIII", face, time >> 32, time & 0xFFFFFFFF, 4, 4) + b"data", order)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_the_first_packet_of_a_pcap_counts_whatever_it_holds(order: str, magic: int, tmp_path: Path) -> None:
    content = pcap(NOON_US + 7, NOON_US, order=order, magic=magic)
    assert looked_at(tmp_path / "a", content, "pcap") == (NOON_US + 7, False)


@pytest.mark.parametrize("insane_us", [0, EARLIEST_US - 1, LATEST_US, 0xFFFFFFFF * 1_000_000])
def test_a_time_that_nobody_believes_is_passed_over(insane_us: int, tmp_path: Path) -> None:
    assert looked_at(tmp_path / "a", pcap(insane_us, NOON_US), "pcap") == (NOON_US, False)
    assert looked_at(tmp_path / "a", pcap(insane_us), "pcap") == NOTHING


def test_the_search_goes_on_behind_the_first_window_and_ends_at_a_limit(tmp_path: Path) -> None:
    noise = LOOK_BYTES // 1016
    assert looked_at(tmp_path / "a", pcap(*[0] * (noise - 2), NOON_US, size=1000), "pcap") == (NOON_US, False)
    assert looked_at(tmp_path / "a", pcap(*[0] * (noise + 2), NOON_US, size=1000), "pcap") == NOTHING


@pytest.mark.parametrize(
    ("end", "found"), [(0, BARE), (23, BARE), (24, BARE), (39, BARE), (40, (NOON_US, False)), (70, (NOON_US, False))]
)
def test_a_pcap_without_a_packet_is_bare(end: int, found: FirstPacket, tmp_path: Path) -> None:
    assert looked_at(tmp_path / "a", pcap(NOON_US)[:end], "pcap") == found


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("resolution", "offset", "time"),
    [
        (6, 0, NOON_US),
        (9, 0, NOON_US * 1000 + 999),
        (3, 0, NOON_US // 1000),
        (6, 1_600_000_000, NOON_US - 1_600_000_000_000_000),
        (0x80 | 20, 0, (NOON_US // 1_000_000) << 20),
    ],
)
def test_times_of_a_pcapng_have_the_unit_of_their_interface(
    order: str, resolution: int, offset: int, time: int, tmp_path: Path
) -> None:
    blocks = [section(order), interface(order=order), interface(resolution, offset, order), packet(time, 1, order)]
    assert looked_at(tmp_path / "a", b"".join(blocks), "pcapng") == (NOON_US, False)


def test_blocks_without_a_time_are_passed_over(tmp_path: Path) -> None:
    names, simple = block(4, bytes(1 << 20)), block(3, struct.pack("<I", 4) + b"data")
    start = section() + interface()
    assert looked_at(tmp_path / "a", start + names + packet(NOON_US), "pcapng") == (NOON_US, False)
    assert looked_at(tmp_path / "a", start + simple + packet(NOON_US), "pcapng") == (NOON_US, False)
    assert looked_at(tmp_path / "a", start + packet(5, 3) + section() + interface() + packet(NOON_US), "pcapng") == (
        NOON_US,
        False,
    )
    assert looked_at(tmp_path / "a", start + simple, "pcapng") == NOTHING
    assert looked_at(tmp_path / "a", start + block(4, bytes(LOOK_BYTES)), "pcapng") == NOTHING


def test_a_pcapng_without_a_packet_is_bare(tmp_path: Path) -> None:
    start = section() + interface()
    for content in (start, start[:30], start + block(4, bytes(100)), start + packet(NOON_US)[:19]):
        assert looked_at(tmp_path / "a", content, "pcapng") == BARE


@given(content=st.binary(max_size=300))
@settings(max_examples=300)
def test_any_bytes_give_some_answer(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    looked_at(path, pcap()[:24] + content, "pcap")
    looked_at(path, section() + content, "pcapng")
    looked_at(path, section() + interface()[:8] + content, "pcapng")
    looked_at(path, tap_format.MAGIC + content, "tap")


def test_many_interfaces_take_linear_time(tmp_path: Path) -> None:
    content = section() + interface() * 60_000 + packet(NOON_US, 59_999)
    assert looked_at(tmp_path / "a", content, "pcapng") == (NOON_US, False)


def test_a_tap_has_the_time_of_its_first_record(tmp_path: Path) -> None:
    write_tap(generate("mb", messages=5, start_us=NOON_US), tmp_path / "a.tap")
    content = (tmp_path / "a.tap").read_bytes()
    first_us = tap_format.FILE_HEAD.unpack(content[: tap_format.FILE_HEAD.size])[-1]
    assert 0 <= first_us - NOON_US < 1_000_000
    assert looked_at(tmp_path / "b", content, "tap") == (first_us, False)
    assert looked_at(tmp_path / "b", content[: tap_format.FILE_HEAD_BYTES], "tap") == BARE
    head = tap_format.FILE_HEAD
    undated = head.pack(*head.unpack(content[: head.size])[:-1], 0) + content[head.size :]
    assert looked_at(tmp_path / "b", undated, "tap") == (first_us, False)


@pytest.mark.parametrize("suffix", PACK)
def test_a_packed_capture_that_is_cut_has_the_same_first_packet(suffix: str, tmp_path: Path) -> None:
    packets = [replace(one, ts_ns=one.ts_ns + 10**18) for one in plain(tmp_path / "plain.pcap")]
    unpacked = hostile.write_pcap(tmp_path / "a.pcap", packets).read_bytes()
    content = in_members(suffix, unpacked, 2000)
    expected = peek(str(tmp_path / "a.pcap"))
    for end in (len(content), len(content) * 3 // 4):
        path = tmp_path / f"b{suffix}"
        path.write_bytes(content[:end])
        found = peek(str(path))
        assert (found.kind, found.first_us, found.is_bare) == ("pcap", expected.first_us, False)
        assert found.compression == {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}[suffix] and not expected.compression
