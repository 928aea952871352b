"""The time of the first packet of a capture, by which captures are put in order. No packet is looked into."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from .. import tap_format as tap
from ..magic import PCAP, PCAPNG
from . import LARGEST_BLOCK
from .files import CaptureFile
from .pcap import LARGEST_SNAP, PCAP_HEAD

LOOK_BYTES = 4 << 20
"""How far into a capture the first time is looked for."""
EARLIEST_US, LATEST_US = 631_152_000_000_000, 4_102_444_800_000_000
"""1990 to 2100, without its first day: other times are damage, and order nothing."""
_WINDOW_BYTES = 1 << 16
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_BINARY = 1 << 8
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_RESOLUTION, _OFFSET = 9, 14
"""Options of an interface."""
_MICROSECONDS = 6


class FirstPacket(NamedTuple):
    us: int | None
    """None if no packet near the beginning has a believable time."""
    is_bare: bool
    """The capture holds nothing but its head."""


def first_packet(source: CaptureFile, kind: str) -> FirstPacket:
    """Return what the first ``LOOK_BYTES`` of a pcap, pcapng or tap file say."""
    beginning = Beginning(source)
    times = {"pcap": _pcap_times, "pcapng": _pcapng_times, "tap": _tap_times}[kind]
    is_bare = True
    for us in times(beginning):
        is_bare = False
        if us is not None and EARLIEST_US <= us < LATEST_US:
            return FirstPacket(us, is_bare)
    return FirstPacket(None, is_bare and not beginning.is_full)


class Beginning:
    """The first bytes of a capture, read as they are asked for, up to a limit."""

    def __init__(self, source: CaptureFile) -> None:
        self._source, self._data = source, bytearray()

    @property
    def is_full(self) -> bool:
        return len(self._data) >= LOOK_BYTES

    def at(self, place: int, size: int) -> bytes:
        """Return some bytes, fewer if the capture or the limit ends there."""
        data = self._data
        while len(data) < place + size and not self.is_full and (more := self._source.head(_WINDOW_BYTES)):
            data += more
        return bytes(data[place : place + size])


def _pcap_times(beginning: Beginning) -> Iterator[int | None]:
    head = beginning.at(0, PCAP_HEAD)
    if len(head) < PCAP_HEAD:
        return
    order, is_nano = PCAP[head[:4]]
    packet, place = struct.Struct(order + "IIII"), PCAP_HEAD
    while len(head := beginning.at(place, packet.size)) == packet.size:
        seconds, fraction, captured, _ = packet.unpack(head)
        if captured > LARGEST_SNAP:
            return
        yield seconds * 1_000_000 + (fraction // 1000 if is_nano else fraction)
        place += packet.size + captured


def _pcapng_times(beginning: Beginning) -> Iterator[int | None]:
    place, order, units = 0, "<", list[tuple[int, int]]()
    while len(head := beginning.at(place, 12)) == 12:
        if head[:4] == PCAPNG:
            order, units = _ORDERS.get(head[8:], "<"), []
        kind, length = struct.unpack_from(order + "II", head)
        if length % 4 or not 12 <= length <= LARGEST_BLOCK:
            return
        if kind == _INTERFACE and length >= 20:
            body = beginning.at(place + 8, length - 12)
            units.append(_unit_and_offset(body, order))
        elif kind == _SIMPLE_PACKET:
            yield None
        elif kind in (_OLD_PACKET, _PACKET) and len(body := beginning.at(place + 8, 12)) == 12:
            yield _pcapng_time(kind, body, order, units)
        place += length


def _unit_and_offset(body: bytes, order: str) -> tuple[int, int]:
    """Return the unit of an interface's times, and the seconds to add to them."""
    unit, offset, at = _MICROSECONDS, 0, 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, at)
        value = body[at + 4 : at + 4 + length]
        if code == 0 or len(value) < length:
            break
        if code == _RESOLUTION and length >= 1:
            unit = value[0] & 0x7F | (value[0] & 0x80) << 1
        elif code == _OFFSET and length >= 8:
            (offset,) = struct.unpack_from(order + "q", value)
        at += 4 + length + -length % 4
    return unit, offset


def _pcapng_time(kind: int, body: bytes, order: str, units: list[tuple[int, int]]) -> int | None:
    face, high, low = struct.unpack(order + ("III" if kind == _PACKET else "HxxII"), body)
    if face >= len(units):
        return None
    unit, offset = units[face]
    time: int = high << 32 | low
    per_second: int = 1 << (unit & 0x7F) if unit & _BINARY else 10**unit
    us: int = time * 1_000_000 // per_second + offset * 1_000_000
    return us


def _tap_times(beginning: Beginning) -> Iterator[int | None]:
    """Yield the time in the head of the file, which is that of its first record, and then those of all records."""
    head = beginning.at(0, tap.FILE_HEAD_BYTES)
    place = tap.FILE_HEAD_BYTES
    if not beginning.at(place, 1):
        return
    yield tap.FILE_HEAD.unpack(head[: tap.FILE_HEAD.size])[-1]
    size = 4 + tap.RECORD_HEAD.size
    while len(head := beginning.at(place, size + 8)) == size + 8:
        length, mark, *_ = tap.RECORD_HEAD.unpack(head[4:size])
        if mark != tap.MARK or length > tap.MAX_BODY:
            return
        yield int.from_bytes(head[size:], "little", signed=True)
        place += size + length
