"""Read pcap and pcapng files in windows, each as Chunks.

The kernel in ``kernels/packets.py`` walks the packets. Here are the parts of a file that are no packets: its head, and
the sections and interfaces of pcapng. Reading ends at the first fault, and ``counts.broken`` says what it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..chunks import Chunks, Counts
from ..lazy_kernels import packets
from ..tcp import Tracker
from . import LARGEST_BLOCK, Interface, PacketFormat, ResumePoint
from .files import CaptureFile

SPARE = 16
"""Bytes behind the last one that the kernel may look at."""

PCAP_HEAD = 24
PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", False),
    b"\xa1\xb2\xc3\xd4": (">", False),
    b"\x4d\x3c\xb2\xa1": ("<", True),
    b"\xa1\xb2\x3c\x4d": (">", True),
}
"""Byte order, and whether times have nanoseconds."""
PCAPNG = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_RESOLUTION, _OFFSET = 9, 14
"""Options of an interface."""
_MICROSECONDS = 6

LARGEST_PACKET = 1 << 18
"""The most that tools write, whatever the head of a file says."""
LARGEST_SNAP = 1 << 24


class PacketReader:
    """Reads a pcap or pcapng file in windows, each as Chunks."""

    def __init__(
        self, source: CaptureFile, kind: str, tracker: Tracker, start: ResumePoint | None = None, growing: bool = False
    ) -> None:
        self.kind = kind
        self.tracker = tracker
        self.counts = Counts()
        self.position = 0
        self._source = source
        self._is_growing = growing
        self._counters = np.zeros(packets.COUNTERS, np.int64)
        if start is not None and start.packets is not None:
            self._format, self.position = start.packets, start.position
            source.seek(start.position)
        else:
            tracker.begin_file()
            self._format = self._read_head() if kind == "pcap" else PacketFormat()

    def resume_point(self) -> ResumePoint:
        """Return where a later reader goes on: at the beginning, if the head of the file is not all there."""
        has_head = self.kind == "pcapng" or bool(self._format.interfaces)
        return ResumePoint(self.position, packets=self._format) if has_head else ResumePoint(0)

    def __iter__(self) -> Iterator[Chunks]:
        rest, source = np.empty(0, np.uint8), self._source
        while not (source.is_over or self.counts.broken):
            self.tracker.tidy()
            held = len(self.tracker.held)
            data = source.more(self.tracker.held, rest, spare=SPARE)
            walk = _Walk(data, held, source.is_end and not self._is_growing, self.position - held)
            self._walk(walk)
            chunks = self.tracker.feed(data, walk.segments, walk.count, walk.shift, self.counts)
            self.position = walk.place + walk.shift
            rest = data[walk.place :]
            if walk.place > held:
                yield chunks
        self.counts.broken = self.counts.broken or source.broken

    def _break(self, what: str, position: int) -> None:
        self.counts.broken = self.counts.broken or f"{what} at byte {position}"

    # --- heads

    def _read_head(self) -> PacketFormat:
        head = self._source.head(PCAP_HEAD)
        self.position = len(head)
        if self.position < PCAP_HEAD:
            self._break("the head of the file is cut", self.position)
            return PacketFormat()
        order, is_nano = PCAP[head[:4]]
        snap, link = struct.unpack(order + "II", head[16:24])
        largest = max(LARGEST_PACKET, snap if snap <= LARGEST_SNAP else 0)
        # The upper half of the link type tells about checksums behind the packets.
        interface = (link & 0xFFFF, snap, _MICROSECONDS, 0)
        return PacketFormat(order == ">", is_nano, largest, (interface,))

    def _special(self, walk: _Walk) -> bool:
        """Take a block that says something about later ones; return False if it is not all there."""
        block = walk.data[walk.place : walk.place + 12].tobytes()
        is_section = block[:4] == PCAPNG
        order = ">" if self._format.is_big else "<"
        if is_section:
            if len(block) < 12:
                return False
            if block[8:12] not in _ORDERS:
                self._break("a section without byte order", walk.place + walk.shift)
                return False
            order = _ORDERS[block[8:12]]
        (length,) = struct.unpack(order + "I", block[4:8])
        if length % 4 or not (28 if is_section else 20) <= length <= LARGEST_BLOCK:
            self._break(f"a block of {length} bytes", walk.place + walk.shift)
            return False
        if walk.place + length > len(walk.data):
            return False
        if is_section:
            self._format = replace(self._format, is_big=order == ">", interfaces=())
        else:
            body = walk.data[walk.place + 8 : walk.place + length - 4].tobytes()
            self._format = replace(self._format, interfaces=(*self._format.interfaces, _interface(body, order)))
        walk.place += length
        return True

    # --- packets

    def _walk(self, walk: _Walk) -> None:
        """Take all packets that are there."""
        counters = self._counters
        counters[:] = 0
        counters[packets.LAST_US] = self._format.last_us
        outcome = packets.NEW_FLOWS
        while outcome != packets.SHORT:
            counters[packets.FLOWS] = self.tracker.count
            outcome = self._run(walk)
            self.tracker.count = int(counters[packets.FLOWS])
            if outcome == packets.NEW_FLOWS:
                self.tracker.grow()
            elif outcome == packets.BROKEN:
                self._break("not a packet", walk.place + walk.shift)
                break
            elif outcome == packets.SPECIAL and not self._special(walk):
                break
        walk.count = int(counters[packets.SEGMENTS])
        self._format = replace(self._format, last_us=int(counters[packets.LAST_US]))
        self._count(walk)
        if walk.is_end and not self.counts.broken:
            self._note_end(walk)

    def _run(self, walk: _Walk) -> int:
        form = self._format
        window = (walk.data, walk.place, len(walk.data), walk.is_end, form.is_big)
        filled = (self.tracker.keys, self.tracker.table, walk.segments, self._counters)
        if self.kind == "pcap":
            link = form.interfaces[0][0]
            walk.place, outcome = packets.walk_pcap(*window, form.is_nano, link, form.largest, *filled)
        else:
            interfaces = np.array(form.interfaces, np.int64).reshape(-1)
            walk.place, outcome = packets.walk_pcapng(*window, form.largest, interfaces, *filled)
        return int(outcome)

    def _note_end(self, walk: _Walk) -> None:
        if self._source.broken:
            self.counts.broken = self._source.broken
        elif self._counters[packets.TORN]:
            self.counts.broken = f"the last packet is cut at byte {walk.end}"
        elif walk.place < len(walk.data):
            rest = len(walk.data) - walk.place
            self.counts.broken = f"the last {rest} bytes, up to {walk.end}, are an incomplete packet"
        walk.place = len(walk.data)

    def _count(self, walk: _Walk) -> None:
        counts = self.counts
        counters = self._counters.tolist()
        counts.packets += counters[packets.PACKETS]
        counts.bytes += counters[packets.BYTES]
        counts.foreign_packets += counters[packets.FOREIGN]
        counts.foreign_bytes += counters[packets.FOREIGN_BYTES]
        counts.cut_packets += counters[packets.CUT]
        if counters[packets.UNKNOWN_LINK]:
            links = {face[0] for face in self._format.interfaces} - packets.LINKS
            self._note(f"packets of link type {', '.join(map(str, sorted(links)))} are not understood")
        if counters[packets.STRAY]:
            self._note("there are packets of interfaces that are not described")

    def _note(self, text: str) -> None:
        if text not in self.counts.notes:
            self.counts.notes.append(text)


class _Walk:
    """A window and how far it was walked. ``data`` from ``place`` on are bytes of the file."""

    def __init__(self, data: NDArray[np.uint8], place: int, is_end: bool, shift: int) -> None:
        self.data, self.place, self.is_end, self.shift = data, place, is_end, shift
        self.end = len(data) + shift
        self.segments = np.empty(((len(data) - place) // packets.SMALLEST + 1) * packets.SEGMENT, np.int64)
        self.count = 0


def _interface(body: bytes, order: str) -> Interface:
    """Return what an interface description says; units and offsets of time are among its options."""
    link, _, snap = struct.unpack_from(order + "HHI", body)
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
    return link, snap, unit, offset
