"""Read pcap and pcapng files in windows, each as Chunks.

The kernels in ``kernels/packets.py`` and ``kernels/pcapng.py`` walk the packets. Reading ends at the first fault, and
``counts.broken`` says what it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..chunks import Chunks, Counts
from ..fragments import Fragment
from ..lazy_kernels import layers, packets, pcapng
from ..magic import PCAP
from ..tcp import Tracker
from . import PacketFormat, ResumePoint
from .files import CaptureFile

SPARE = 16
"""Bytes behind the last one that the kernel may look at."""

PCAP_HEAD = 24
_MICROSECONDS = 6
_INTERFACES = 16
BEHIND_BYTES = 16
"""What is remembered of bytes that are no packet: a file may get its bytes later, in place of zeros."""
_MOST_NESTED = 8
"""Fragments in tunnels whose packets were fragments."""

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
        self.source = source
        self._is_growing = growing
        self._torn_at: int | None = None
        """Where an incomplete packet begins that was taken."""
        self._taken_to = start.seen if start is not None and start.is_torn else 0
        """Where it ended: it is taken again only if there is more of it."""
        self._behind = ""
        """What there is instead of a packet, if reading ended with that."""
        self._counters = np.zeros(packets.COUNTERS, np.int64)
        self._places = np.zeros(layers.PLACES, np.int64)
        if start is not None and start.packets is not None:
            self._format, self.position = start.packets, start.position
            source.seek(start.position)
        else:
            tracker.begin_file()
            self._format = self._read_head() if kind == "pcap" else PacketFormat()
        self._counters[packets.IS_BIG] = self._format.is_big
        self._counters[packets.INTERFACES] = len(self._format.interfaces)
        self._interfaces = np.array(self._format.interfaces, np.int64).reshape(-1)
        self._make_room_for_interfaces()

    def resume_point(self) -> ResumePoint:
        """Return where a later reader goes on: at the beginning, if the head of the file is not all there."""
        is_torn = self._torn_at is not None
        position = self.position if self._torn_at is None else self._torn_at
        if self.kind == "pcap":
            has_head = bool(self._format.interfaces)
            if not has_head:
                return ResumePoint(0)
            return ResumePoint(position, packets=self._format, is_torn=is_torn, behind=self._behind)
        rows = self._interfaces.reshape(-1, pcapng.INTERFACE_ROW)[: self._counters[packets.INTERFACES]].tolist()
        interfaces = tuple((link, snap, unit, offset) for link, snap, unit, offset in rows)
        known = replace(self._format, is_big=bool(self._counters[packets.IS_BIG]), interfaces=interfaces)
        return ResumePoint(position, packets=known, is_torn=is_torn, behind=self._behind)

    def __iter__(self) -> Iterator[Chunks]:
        rest, source = np.empty(0, np.uint8), self.source
        while not (source.is_over or self.counts.broken):
            self.tracker.tidy()
            held = len(self.tracker.held)
            data = source.more(self.tracker.held, rest, spare=SPARE)
            walk = _Walk(data, held, self._is_at_end(), self.position - held)
            self._walk(walk)
            chunks = self.tracker.feed(walk.all_data(), walk.segments, walk.count, walk.shift, self.counts)
            self.position = walk.place + walk.shift
            rest = data[walk.place :]
            if walk.place > held:
                yield chunks
        self.counts.broken = self.counts.broken or source.broken

    def _is_at_end(self) -> bool:
        """Tell whether nothing comes behind the bytes at hand."""
        return self.source.is_over and not self._is_growing

    def _break(self, what: str, position: int, then: str = "") -> None:
        self.counts.broken = self.counts.broken or f"{what} at byte {position}{then}"

    # --- heads

    def _read_head(self) -> PacketFormat:
        head = self.source.head(PCAP_HEAD)
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

    # --- packets

    def _walk(self, walk: _Walk) -> None:
        """Take all packets that are there; at the end of the file also one that is incomplete."""
        counters = self._counters
        counters[: packets.IS_BIG] = 0
        counters[packets.LAST_US] = self._format.last_us
        self._take_packets(walk, is_end=False)
        if walk.is_end and walk.place < len(walk.data) and not self.counts.broken:
            self._torn_at = walk.place + walk.shift
            if walk.end > self._taken_to:
                self._take_packets(walk, is_end=True)
        walk.count = int(counters[packets.SEGMENTS])
        self._format = replace(self._format, last_us=int(counters[packets.LAST_US]))
        self._count(walk)
        if walk.is_end and not self.counts.broken:
            self._note_end(walk)

    def _take_packets(self, walk: _Walk, is_end: bool) -> None:
        counters, outcome = self._counters, packets.NEW_FLOWS
        while outcome != packets.SHORT:
            counters[packets.FLOWS] = self.tracker.count
            outcome = self._run(walk, is_end)
            self.tracker.count = int(counters[packets.FLOWS])
            if outcome == packets.NEW_FLOWS:
                self.tracker.grow()
            elif outcome == packets.NEW_INTERFACES:
                self._make_room_for_interfaces()
            elif outcome == packets.FRAGMENTED:
                self._take_fragment(walk)
            elif outcome == packets.BROKEN:
                self._behind = walk.data[walk.place : walk.place + BEHIND_BYTES].tobytes().hex()
                self._break("not a packet", walk.place + walk.shift, "; nothing behind it is read")
                break

    def _run(self, walk: _Walk, is_end: bool) -> int:
        form = self._format
        window = (walk.data, walk.place, len(walk.data), is_end)
        filled = (self.tracker.keys, self.tracker.table, walk.segments, self._places, self._counters)
        if self.kind == "pcap":
            link = form.interfaces[0][0]
            walk.place, outcome = packets.walk_pcap(*window, form.is_big, form.is_nano, link, form.largest, *filled)
        else:
            walk.place, outcome = pcapng.walk_pcapng(*window, form.largest, self._interfaces, *filled)
        return int(outcome)

    def _make_room_for_interfaces(self) -> None:
        known = len(self._interfaces)
        room = min(max(_INTERFACES, 2 * known // pcapng.INTERFACE_ROW), pcapng.MOST_INTERFACES) * pcapng.INTERFACE_ROW
        self._interfaces = np.pad(self._interfaces, (0, max(room - known, 0)))

    def _note_end(self, walk: _Walk) -> None:
        if self.source.broken:
            self.counts.broken = self.source.broken
        elif self._counters[packets.TORN]:
            self.counts.broken = f"the last packet is cut at byte {walk.end}"
        elif walk.place < len(walk.data):
            rest = len(walk.data) - walk.place
            self.counts.broken = f"the last {rest} bytes, up to {walk.end}, are an incomplete packet"
        walk.place = len(walk.data)

    def _take_fragment(self, walk: _Walk) -> None:
        """Take the fragment that the walk has come to. What it completes may be a fragment itself, of a tunnel."""
        data, origin = walk.data, int(self._places[layers.BODY_AT])
        for _ in range(_MOST_NESTED):
            fragment = self._fragment(data)
            if fragment is None or (done := self.tracker.fragments.add(fragment)) is None:
                return
            packet, count = done
            self.counts.joined_fragments += count
            data = np.frombuffer(packet + bytes(SPARE), np.uint8)
            if not self._take_datagram(walk, data, len(packet), fragment.ts, origin):
                return

    def _fragment(self, data: NDArray[np.uint8]) -> Fragment | None:
        """Return the fragment that the kernel found; None if not all of it was captured."""
        ip, body, end, offset, identification, protocol, is_last, is_six, cut = self._places.tolist()
        if not body < end <= cut:
            return None
        head = data[ip : ip + (40 if is_six else 20)].tobytes()
        if is_six:
            ends, whole = head[8:40], b"\x60" + bytes(5) + bytes([protocol]) + head[7:]
        else:
            ends, whole = head[12:20], b"\x45\0\0\0" + head[4:6] + bytes(2) + head[8:]
        ts = int(self._counters[packets.LAST_US])
        content = data[body:end].tobytes()
        return Fragment(ends, identification, protocol, offset, bool(is_last), ts, b"" if offset else whole, content)

    def _take_datagram(self, walk: _Walk, data: NDArray[np.uint8], size: int, ts: int, origin: int) -> bool:
        """Take a packet that was put together; return whether it is a fragment."""
        counters, tracker = self._counters, self.tracker
        before = int(counters[packets.SEGMENTS])
        if tracker.count >= len(tracker.keys) // packets.KEY:
            tracker.grow()
        filled = (tracker.keys, tracker.table, walk.segments, self._places, counters)
        is_fragment = bool(packets.walk_datagram(data, size, ts, *filled))
        tracker.count = int(counters[packets.FLOWS])
        if counters[packets.SEGMENTS] > before:
            row = before * packets.SEGMENT
            walk.segments[row + packets.START] += walk.add(data)
            walk.segments[row + packets.FLAGS] |= origin + 1 << packets.ORIGIN_BITS
        return is_fragment

    def _count(self, walk: _Walk) -> None:
        counts, counters = self.counts, self._counters.tolist()
        counts.packets += counters[packets.PACKETS]
        counts.bytes += counters[packets.BYTES]
        for kind, count in zip(layers.FOREIGN_KINDS, counters[packets.FOREIGN :], strict=False):
            if count:
                counts.foreign[kind] = counts.foreign.get(kind, 0) + count
        counts.foreign_bytes += counters[packets.FOREIGN_BYTES]
        counts.fragments += counters[packets.FRAGMENTS]
        counts.strange_times += counters[packets.STRANGE_TIMES]
        counts.cut_packets += counters[packets.CUT]
        if "link" in counts.foreign:
            links = set(self._interfaces[pcapng.INTERFACE_LINK :: pcapng.INTERFACE_ROW].tolist()) - layers.LINKS
            self._note(f"packets of link type {', '.join(map(str, sorted(links)))} are not understood")
        if "interface" in counts.foreign:
            self._note("there are packets of interfaces that are not described")
        if counters[packets.LOST_INTERFACES]:
            self._note(f"a section describes more than {pcapng.MOST_INTERFACES} interfaces; the others are not read")

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
        self._added: list[NDArray[np.uint8]] = []
        self._size = len(data)

    def add(self, data: NDArray[np.uint8]) -> int:
        """Add bytes that are not in the file as they are; return where they begin."""
        self._added.append(data)
        self._size += len(data)
        return self._size - len(data)

    def all_data(self) -> NDArray[np.uint8]:
        return np.concatenate([self.data, *self._added]) if self._added else self.data
