"""Play both ends of TCP connections as packets: Ethernet, IPv4 or IPv6, TCP.

``TcpWriter`` makes up what the streams alone do not tell: handshake, sequence and acknowledgement numbers, segments
of at most one MSS, delayed acknowledgements, FIN or RST. It writes packets in the order of their times and keeps only
those that are due a little later.
"""

from __future__ import annotations

import heapq
import ipaddress
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from .pcap import PacketWriter

MSS = 1460
WINDOW = 64240
WINDOW_SCALE = 7
ACK_DELAY_US = 40
STEP_US = 60
"""Time between the packets that open or close a connection."""
_NEVER = 1 << 62

TCP = 6
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

Address = tuple[str, int]


@dataclass(slots=True)
class _End:
    """One end of a connection: where it is, and what it has sent. ``next`` is the number of the next byte it sends."""

    host: bytes
    port: int
    mac: bytes
    next: int
    owes_ack: bool = False
    packets: int = 0
    sent: int = 0
    """Bytes of its stream."""


@dataclass(slots=True)
class _Flow:
    key: int
    client: _End
    server: _End
    pending: bytearray = field(default_factory=bytearray)
    pending_from_client: bool = True


class Segment(NamedTuple):
    """A packet on its way into a capture. ``offset`` is that of its data in the stream; ``make`` gives a packet like it
    with other data at another offset.
    """

    ts_us: int
    key: int
    from_client: bool
    offset: int
    data: bytes
    flags: int
    packet: bytes
    make: Callable[[int, bytes], bytes]


class TcpWriter:
    """TCP connections as packets. Times must not go back from call to call.

    ``line``, if given, takes the packets and decides what the capture gets of them. ``step_us`` is the time between the
    packets that open or close a connection: 0 where data may follow at once.
    """

    def __init__(
        self, writer: PacketWriter, line: Callable[[Segment], None] | None = None, *, step_us: int = STEP_US
    ) -> None:
        self._writer = writer
        self._line = line
        self._step_us = step_us
        self._flows: dict[int, _Flow] = {}
        self._due: list[tuple[int, int, Callable[[int], None]]] = []
        self._order = count()
        self._waiting: list[_Flow] = []
        """Flows with bytes that may still be joined by others of the same moment."""
        self._waiting_us = 0

    def open(self, key: int, client: Address, server: Address, ts_us: int, is_whole: bool = True) -> None:
        """Begin a connection, without a handshake if its beginning was not seen; ``key`` names it in later calls."""
        self._advance(ts_us)
        flow = _Flow(key, _end(client, 1_000_000_007 * (key + 1)), _end(server, 2_000_000_011 * (key + 1)))
        self._flows[key] = flow
        if is_whole:
            self._emit(ts_us, flow, True, SYN)
            self._later(ts_us + self._step_us, lambda at: self._emit(at, flow, False, SYN | ACK))
            self._later(ts_us + 2 * self._step_us, lambda at: self._emit(at, flow, True, ACK))

    def send(self, key: int, from_client: bool, data: bytes, ts_us: int) -> None:
        """Send bytes of one side. What it sends at the same moment shares segments."""
        self._advance(ts_us)
        flow = self._flows[key]
        if flow.pending and flow.pending_from_client != from_client:
            self._flush(flow)
        if not flow.pending:
            self._waiting.append(flow)
            self._waiting_us = ts_us
            flow.pending_from_client = from_client
        flow.pending += data

    def skip(self, key: int, from_client: bool, count: int, ts_us: int) -> None:
        """Leave out bytes of one side: the capture misses them."""
        self._advance(ts_us)
        flow = self._flows[key]
        self._flush(flow)
        sender = flow.client if from_client else flow.server
        sender.next = (sender.next + count) & 0xFFFFFFFF
        sender.sent += count

    def close(self, key: int, by_client: bool, reset: bool, ts_us: int) -> None:
        self._advance(ts_us)
        flow = self._flows.pop(key)
        self._flush(flow)
        if reset:
            self._emit(ts_us, flow, by_client, RST | ACK)
            flow.client.owes_ack = flow.server.owes_ack = False
            return
        self._emit(ts_us, flow, by_client, FIN | ACK)
        self._later(ts_us + self._step_us, lambda at: self._emit(at, flow, not by_client, FIN | ACK))
        self._later(ts_us + 2 * self._step_us, lambda at: self._emit(at, flow, by_client, ACK))

    def finish(self) -> None:
        """Write what is still due."""
        self._advance(_NEVER)

    # --- time

    def _later(self, ts_us: int, act: Callable[[int], None]) -> None:
        heapq.heappush(self._due, (ts_us, next(self._order), act))

    def _advance(self, ts_us: int) -> None:
        """Write everything that comes before this time."""
        if self._waiting and self._waiting_us < ts_us:
            for flow in self._waiting:
                self._flush(flow)
            self._waiting.clear()
        while self._due and self._due[0][0] <= ts_us:
            at, _, act = heapq.heappop(self._due)
            act(at)

    # --- segments

    def _flush(self, flow: _Flow) -> None:
        data, flow.pending = bytes(flow.pending), bytearray()
        most = _mss(flow.client.host)
        for at in range(0, len(data), most):
            flags = ACK | PSH if at + most >= len(data) else ACK
            self._emit(self._waiting_us, flow, flow.pending_from_client, flags, data[at : at + most])
        receiver = flow.server if flow.pending_from_client else flow.client
        if data and not receiver.owes_ack:
            receiver.owes_ack = True
            from_client = not flow.pending_from_client
            self._later(self._waiting_us + ACK_DELAY_US, lambda at: self._acknowledge(at, flow, from_client))

    def _acknowledge(self, ts_us: int, flow: _Flow, from_client: bool) -> None:
        """Send an acknowledgement, unless data has carried it meanwhile."""
        if (flow.client if from_client else flow.server).owes_ack:
            self._emit(ts_us, flow, from_client, ACK)

    def _emit(self, ts_us: int, flow: _Flow, from_client: bool, flags: int, data: bytes = b"") -> None:
        sender, receiver = (flow.client, flow.server) if from_client else (flow.server, flow.client)
        sender.owes_ack = False
        acknowledged = receiver.next if flags & ACK else 0
        packet = _packet(sender, receiver, sender.next, acknowledged, flags, data)
        if self._line is None:
            self._writer.packet(ts_us, packet)
        else:
            first = sender.next - sender.sent

            def make(offset: int, other: bytes) -> bytes:
                return _packet(sender, receiver, (first + offset) & 0xFFFFFFFF, acknowledged, flags, other)

            self._line(Segment(ts_us, flow.key, from_client, sender.sent, data, flags, packet, make))
        sender.next = (sender.next + len(data) + (1 if flags & (SYN | FIN) else 0)) & 0xFFFFFFFF
        sender.sent += len(data)
        sender.packets += 1


def _end(address: Address, first: int) -> _End:
    host = ipaddress.ip_address(address[0]).packed
    return _End(host, address[1], b"\x02\x00" + host[-4:], first & 0xFFFFFFFF)


def _mss(host: bytes) -> int:
    """The head of IPv6 is 20 bytes longer."""
    return MSS if len(host) == 4 else MSS - 20


def _packet(sender: _End, receiver: _End, sequence: int, acknowledged: int, flags: int, data: bytes) -> bytes:
    options = struct.pack(">BBHBBBB", 2, 4, _mss(sender.host), 1, 3, 3, WINDOW_SCALE) if flags & SYN else b""
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack(">HHIIBBH", sender.port, receiver.port, sequence, acknowledged, offset, flags, WINDOW)
    length = len(head) + 4 + len(options) + len(data)
    kind = struct.pack(">HH", TCP, length) if len(sender.host) == 4 else struct.pack(">II", length, TCP)
    tcp_sum = checksum(sender.host + receiver.host + kind + head + b"\0\0\0\0" + options + data)
    ethertype, ip = _ip(sender, receiver, length)
    return b"".join((receiver.mac, sender.mac, ethertype, ip, head, tcp_sum.to_bytes(2, "big"), b"\0\0", options, data))


def _ip(sender: _End, receiver: _End, length: int) -> tuple[bytes, bytes]:
    """Return the ethertype and the IP head of a packet with this many bytes of TCP."""
    if len(sender.host) == 16:
        return b"\x86\xdd", struct.pack(">IHBB", 6 << 28, length, TCP, 64) + sender.host + receiver.host
    head = struct.pack(">BBHHHBB", 0x45, 0, 20 + length, sender.packets & 0xFFFF, 0x4000, 64, TCP)
    total = checksum(head + b"\0\0" + sender.host + receiver.host)
    return b"\x08\x00", head + total.to_bytes(2, "big") + sender.host + receiver.host


def checksum(data: bytes) -> int:
    """The internet checksum: 65536 leaves 1 when divided by 65535, the remainder is the sum of words with carries."""
    if len(data) % 2:
        data += b"\0"
    return 0xFFFF - (int.from_bytes(data, "big") % 0xFFFF or 0xFFFF)
