"""Hostile captures from plain ones: a capture is read into packets, turned over by small functions, written again.

``read`` and ``streams`` understand what PcapWriter writes (IPv4 over Ethernet, in order, complete); everything else
takes and gives lists of packets, so that mischief can be combined:

>>> rng = Random(7)                                                        # doctest: +SKIP
>>> write_pcapng(path, reorder(retransmit(wrap(read(plain)), rng), rng), big_endian=True)   # doctest: +SKIP
"""

from __future__ import annotations

import ipaddress
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Literal

from tests.capture.packing import PACK
from wirelake.capture.write.tcp import checksum

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
LOW32 = 0xFFFFFFFF

Link = Literal["ethernet", "vlan", "qinq", "raw", "ipv4", "sll", "sll2", "null", "loop"]
Span = tuple[int, int]
"""Stream offset and length."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A TCP segment and when it was captured. ``foreign``, if set, is an ethertype and a body instead."""

    ts_ns: int
    source: str = ""
    source_port: int = 0
    target: str = ""
    target_port: int = 0
    sequence: int = 0
    acknowledged: int = 0
    flags: int = 0
    options: bytes = b""
    data: bytes = b""
    foreign: tuple[int, bytes] | None = None

    @property
    def way(self) -> Way:
        return (self.source, self.source_port, self.target, self.target_port)

    @property
    def back(self) -> Way:
        return (self.target, self.target_port, self.source, self.source_port)

    @property
    def end(self) -> int:
        """Number of the byte behind the data."""
        return (self.sequence + len(self.data)) & LOW32


Way = tuple[str, int, str, int]
"""Source, its port, target, its port: one direction."""


@dataclass(slots=True)
class Stream:
    """What a plain capture holds of one connection."""

    client: tuple[str, int]
    server: tuple[str, int]
    first_us: int
    to_server: bytearray = field(default_factory=bytearray)
    to_client: bytearray = field(default_factory=bytearray)
    ended: str = ""


# --- plain captures


def read(path: str | Path) -> list[Packet]:
    """Packets of a file by PcapWriter."""
    content = Path(path).read_bytes()
    assert content[:4] == b"\xd4\xc3\xb2\xa1", "not a little-endian pcap with microseconds"
    packets, at = [], 24
    while at < len(content):
        seconds, micros, captured, _ = struct.unpack_from("<IIII", content, at)
        packets.append(_parse(content[at + 16 : at + 16 + captured], (seconds * 1_000_000 + micros) * 1000))
        at += 16 + captured
    return packets


def _parse(frame: bytes, ts_ns: int) -> Packet:
    ip = frame[14:]
    source, target = (str(ipaddress.IPv4Address(ip[at : at + 4])) for at in (12, 16))
    tcp = ip[20 : int.from_bytes(ip[2:4], "big")]
    source_port, target_port, sequence, acknowledged, offset, flags = struct.unpack_from(">HHIIBB", tcp)
    head = (offset >> 4) * 4
    return Packet(
        ts_ns, source, source_port, target, target_port, sequence, acknowledged, flags, tcp[20:head], tcp[head:]
    )


def streams(packets: Iterable[Packet]) -> list[Stream]:
    """The bytes of every connection of a plain capture, in the order of their beginnings."""
    found: list[Stream] = []
    running: dict[Way, tuple[Stream, bool]] = {}
    for packet in packets:
        if packet.flags & SYN and not packet.flags & ACK:
            client, server = (packet.source, packet.source_port), (packet.target, packet.target_port)
            found.append(Stream(client, server, packet.ts_ns // 1000))
            running[packet.way], running[packet.back] = (found[-1], True), (found[-1], False)
        stream, to_server = running[packet.way]
        (stream.to_server if to_server else stream.to_client).extend(packet.data)
        if packet.flags & (RST | FIN):
            stream.ended = "reset" if packet.flags & RST else "closed"
    return found


# --- order


def reorder(
    packets: Sequence[Packet], rng: Random, window: int = 6, share: float = 0.3, behind_ack: bool = True
) -> list[Packet]:
    """Data segments come up to ``window`` packets too late, never past the end or a new beginning of their connection.

    Times stay in order: a capture tells when a packet was seen. Without ``behind_ack`` none comes after the packet that
    acknowledges it (tshark gives up bytes that were acknowledged before they were captured).
    """
    result = list(packets)
    for index in range(len(result) - 2, -1, -1):
        if not result[index].data or rng.random() >= share:
            continue
        for _ in range(rng.randint(1, window)):
            if index + 1 >= len(result) or _is_border(result[index], result[index + 1], behind_ack):
                break
            result[index], result[index + 1] = result[index + 1], result[index]
            index += 1
    return _in_time(result, packets)


def _is_border(packet: Packet, other: Packet, behind_ack: bool) -> bool:
    if other.way == packet.back and not behind_ack:
        return True
    return bool(other.flags & (SYN | FIN | RST)) and other.way in (packet.way, packet.back)


def _in_time(packets: Sequence[Packet], times: Sequence[Packet]) -> list[Packet]:
    return [replace(packet, ts_ns=time.ts_ns) for packet, time in zip(packets, times, strict=True)]


def acknowledge_first(packets: Sequence[Packet]) -> list[Packet]:
    """Acknowledgements without data are captured before the data that they acknowledge."""
    result = list(packets)
    for index in range(1, len(result)):
        ack = result[index]
        if ack.data or ack.flags != ACK:
            continue
        at = index
        while at and result[at - 1].way == ack.back and result[at - 1].data:
            result[at], result[at - 1] = result[at - 1], result[at]
            at -= 1
    return _in_time(result, packets)


# --- repetition


def duplicate(packets: Sequence[Packet], rng: Random, share: float = 0.2, window: int = 4) -> list[Packet]:
    """Some packets are seen twice, the second time up to ``window`` packets later."""
    return _with_later(packets, rng, window, lambda packet: [packet] if rng.random() < share else [])


def retransmit(packets: Sequence[Packet], rng: Random, share: float = 0.3, window: int = 4) -> list[Packet]:
    """Bytes that were sent are sent again, with borders of their own: parts of one segment or of several."""
    sent: dict[Way, bytearray] = defaultdict(bytearray)

    def again(packet: Packet) -> list[Packet]:
        if packet.flags & SYN:
            sent.pop(packet.way, None)
        if not packet.data:
            return []
        known = sent[packet.way]
        known += packet.data
        if rng.random() >= share:
            return []
        begin = rng.randrange(max(0, len(known) - 3000), len(known))
        length = rng.randint(1, min(1460, len(known) - begin))
        sequence = (packet.end - (len(known) - begin)) & LOW32
        return [replace(packet, sequence=sequence, data=bytes(known[begin : begin + length]))]

    return _with_later(packets, rng, window, again)


def resegment(packets: Sequence[Packet], rng: Random, share: float = 0.5) -> list[Packet]:
    """Segments are cut in two; some pairs overlap."""
    result = []
    for packet in packets:
        if len(packet.data) < 2 or rng.random() >= share:
            result.append(packet)
            continue
        cut = rng.randrange(1, len(packet.data))
        overlap = rng.randint(0, min(cut, 40))
        rest = (packet.sequence + cut - overlap) & LOW32
        result.append(replace(packet, data=packet.data[:cut], flags=packet.flags & ~FIN))
        result.append(replace(packet, sequence=rest, data=packet.data[cut - overlap :]))
    return result


def _with_later(
    packets: Sequence[Packet], rng: Random, window: int, more: Callable[[Packet], list[Packet]]
) -> list[Packet]:
    result: list[Packet] = []
    waiting: list[tuple[int, Packet]] = []
    for index, packet in enumerate(packets):
        if packet.flags & (SYN | RST):
            # Nothing of a connection that ended appears in the next one of the same addresses.
            due, waiting = _split(waiting, lambda item, p=packet: item[1].way in (p.way, p.back))
        else:
            due, waiting = _split(waiting, lambda item, i=index: item[0] <= i)
        result += [replace(late, ts_ns=packet.ts_ns) for _, late in due]
        result.append(packet)
        waiting += [(index + rng.randint(1, window), extra) for extra in more(packet)]
    return result + [replace(late, ts_ns=result[-1].ts_ns) for _, late in waiting]


def _split(
    items: list[tuple[int, Packet]], is_due: Callable[[tuple[int, Packet]], bool]
) -> tuple[list[tuple[int, Packet]], list[tuple[int, Packet]]]:
    return [item for item in items if is_due(item)], [item for item in items if not is_due(item)]


# --- loss


def drop(
    packets: Sequence[Packet], rng: Random, share: float = 0.1, keep_ends: bool = False
) -> tuple[list[Packet], dict[tuple[int, str], list[Span]]]:
    """A plain capture without some data segments, and what is missing: by connection (number) and direction, the
    spans of its stream. With ``keep_ends`` the last segment of a direction is there, so that every hole shows.
    """
    numbered = list(_numbered(packets))
    last = {where[:2]: index for index, (packet, where) in enumerate(numbered) if packet.data}
    kept, missing = [], defaultdict(list)
    for index, (packet, (number, direction, offset)) in enumerate(numbered):
        is_last = keep_ends and last.get((number, direction)) == index
        if not packet.data or is_last or rng.random() >= share:
            kept.append(packet)
        else:
            _add(missing[number, direction], offset, len(packet.data))
    return kept, dict(missing)


def _add(spans: list[Span], offset: int, length: int) -> None:
    if spans and sum(spans[-1]) == offset:
        spans[-1] = (spans[-1][0], spans[-1][1] + length)
    else:
        spans.append((offset, length))


def _numbered(packets: Iterable[Packet]) -> Iterable[tuple[Packet, tuple[int, str, int]]]:
    """Packets of a plain capture with number of their connection, direction, and stream offset of their data."""
    number, running, offsets = -1, dict[Way, tuple[int, str]](), defaultdict(int)
    for packet in packets:
        if packet.flags & SYN and not packet.flags & ACK:
            number += 1
            running[packet.way], running[packet.back] = (number, "to_server"), (number, "to_client")
        where = running[packet.way]
        yield packet, (*where, offsets[where])
        offsets[where] += len(packet.data)


def without_handshake(packets: Iterable[Packet]) -> list[Packet]:
    """The connections began before the capture."""
    seen: dict[Way, int] = {}
    kept = []
    for packet in packets:
        if packet.flags & SYN:
            seen[packet.way] = packet.sequence
        elif packet.data or packet.flags != ACK or seen.pop(packet.way, None) is None:
            kept.append(packet)
    return kept


# --- numbers


def wrap(packets: Sequence[Packet], after: int = 700) -> list[Packet]:
    """Sequence numbers of every direction pass zero ``after`` bytes behind its beginning."""
    shift: dict[Way, int] = {}
    result = []
    for packet in packets:
        if packet.flags & SYN:
            shift[packet.way] = -after - packet.sequence
        ack = packet.acknowledged + shift[packet.back] if packet.flags & ACK else 0
        result.append(replace(packet, sequence=(packet.sequence + shift[packet.way]) & LOW32, acknowledged=ack & LOW32))
    return result


def reuse_ports(packets: Sequence[Packet], later_us: int = 1_000_000, shift: int = 77_777_777) -> list[Packet]:
    """Everything happens once more ``later_us`` after its end: the same ports, other sequence numbers."""
    begin, end = packets[0].ts_ns, packets[-1].ts_ns
    second = [
        replace(
            packet,
            ts_ns=packet.ts_ns - begin + end + later_us * 1000,
            sequence=(packet.sequence + shift) & LOW32,
            acknowledged=(packet.acknowledged + shift) & LOW32 if packet.flags & ACK else 0,
        )
        for packet in packets
    ]
    return [*packets, *second]


def without_end(packets: Iterable[Packet]) -> list[Packet]:
    """No connection is closed (what follows with the same ports is a new one none the less)."""
    return [packet for packet in packets if not packet.flags & (FIN | RST)]


# --- other packets and addresses


def foreign(packets: Sequence[Packet], rng: Random, share: float = 0.2) -> list[Packet]:
    """Between them ARP and UDP."""
    result = []
    for packet in packets:
        if rng.random() < share:
            body = rng.choice([(0x0806, bytes(28)), (0x0800, _udp(rng.randbytes(rng.randint(0, 60))))])
            result.append(Packet(packet.ts_ns, foreign=body))
        result.append(packet)
    return result


def _udp(data: bytes) -> bytes:
    udp = struct.pack(">HHHH", 53, 5353, 8 + len(data), 0) + data
    return _ipv4_head("10.9.9.1", "10.9.9.2", 17, len(udp)) + udp


def ipv6(packets: Iterable[Packet]) -> list[Packet]:
    """The same in IPv6: 10.0.0.1 becomes fd00::10.0.0.1."""
    return [
        replace(packet, source=_ipv6(packet.source), target=_ipv6(packet.target)) if packet.foreign is None else packet
        for packet in packets
    ]


def _ipv6(address: str) -> str:
    return str(ipaddress.IPv6Address((0xFD00 << 112) + int(ipaddress.IPv4Address(address))))


# --- packets to bytes


def ip_packet(packet: Packet, extension: bool = False) -> tuple[int, bytes]:
    """Ethertype and bytes. ``extension``: IPv6 has hop-by-hop and destination options before TCP."""
    if packet.foreign is not None:
        return packet.foreign
    is_v6 = ":" in packet.source
    source, target = (ipaddress.ip_address(one).packed for one in (packet.source, packet.target))
    options = packet.options + bytes(-len(packet.options) % 4)
    head = struct.pack(
        ">HHIIBBHHH",
        packet.source_port,
        packet.target_port,
        packet.sequence,
        packet.acknowledged,
        (20 + len(options)) // 4 << 4,
        packet.flags,
        64240,
        0,
        0,
    )
    tcp = head + options + packet.data
    pseudo = source + target + (struct.pack(">II", len(tcp), 6) if is_v6 else struct.pack(">HH", 6, len(tcp)))
    tcp = tcp[:16] + checksum(pseudo + tcp).to_bytes(2, "big") + tcp[18:]
    if not is_v6:
        return 0x0800, _ipv4_head(packet.source, packet.target, 6, len(tcp)) + tcp
    # Each extension: what comes next, length in units of 8 behind the first 8, PadN.
    before = bytes([60, 0, 1, 4, 0, 0, 0, 0, 6, 1, 1, 12, *bytes(12)]) if extension else b""
    ip = struct.pack(">IHBB", 6 << 28, len(before) + len(tcp), 0 if extension else 6, 64) + source + target
    return 0x86DD, ip + before + tcp


def _ipv4_head(source: str, target: str, protocol: int, length: int) -> bytes:
    head = struct.pack(">BBHHHBB", 0x45, 0, 20 + length, 1, 0x4000, 64, protocol)
    ends = ipaddress.IPv4Address(source).packed + ipaddress.IPv4Address(target).packed
    return head + checksum(head + b"\0\0" + ends).to_bytes(2, "big") + ends


LINKTYPES: dict[Link, int] = {
    "null": 0,
    "ethernet": 1,
    "vlan": 1,
    "qinq": 1,
    "raw": 101,
    "loop": 108,
    "sll": 113,
    "ipv4": 228,
    "sll2": 276,
}


def link_packet(packet: Packet, link: Link = "ethernet", extension: bool = False, big_endian: bool = False) -> bytes:
    """The bytes of a packet as they are in a capture of this kind. ``big_endian`` is the writing host (for null)."""
    ethertype, ip = ip_packet(packet, extension)
    kind = struct.pack(">H", ethertype)
    macs = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02"
    match link:
        case "ethernet":
            # The shortest Ethernet frame has 60 bytes: the rest is padding that is no data.
            return (macs + kind + ip).ljust(60, b"\xee")
        case "vlan":
            return macs + b"\x81\0\0\x2a" + kind + ip
        case "qinq":
            return macs + b"\x88\xa8\0\x07\x81\0\0\x2a" + kind + ip
        case "raw" | "ipv4":
            return ip
        case "sll":
            return struct.pack(">HHH8s", 0, 1, 6, macs[:6]) + kind + ip
        case "sll2":
            return kind + struct.pack(">HIHBB8s", 0, 3, 1, 0, 6, macs[:6]) + ip
        case "null" | "loop":
            family = 2 if ethertype == 0x0800 else 30
            return struct.pack(">I" if link == "loop" or big_endian else "<I", family) + ip


# --- files


def write_pcap(
    path: str | Path,
    packets: Iterable[Packet],
    *,
    link: Link = "ethernet",
    extension: bool = False,
    big_endian: bool = False,
    nanoseconds: bool = False,
    snap: int = 262144,
) -> Path:
    """A pcap file; ``snap`` is the most that is captured of a packet."""
    order = ">" if big_endian else "<"
    unit = 1 if nanoseconds else 1000
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out = bytearray(struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snap, LINKTYPES[link]))
    for packet in packets:
        data = link_packet(packet, link, extension, big_endian)
        seconds, rest = divmod(packet.ts_ns, 1_000_000_000)
        out += struct.pack(order + "IIII", seconds, rest // unit, min(snap, len(data)), len(data)) + data[:snap]
    return _write(path, out)


def write_pcapng(
    path: str | Path,
    packets: Iterable[Packet],
    *,
    links: Sequence[Link] = ("ethernet",),
    extension: bool = False,
    big_endian: bool = False,
    nanoseconds: bool = False,
    snap: int = 0,
    sections: int = 1,
    simple: bool = False,
) -> Path:
    """A pcapng file: packets go round the interfaces (``links``), each section has them anew; between them blocks of
    kinds that a reader skips. ``simple``: packets without times (and of the first interface only).
    """
    order = ">" if big_endian else "<"
    packets = list(packets)
    size = -(-len(packets) // sections) if packets else 1
    out = bytearray()
    for begin in range(0, max(len(packets), 1), size):
        out += _block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1) + _option(order, 4, b"test"))
        for link in links:
            resolution = _option(order, 9, b"\x09") if nanoseconds else b""
            end = _option(order, 0, b"") if resolution else b""
            out += _block(order, 1, struct.pack(order + "HHI", LINKTYPES[link], 0, snap) + resolution + end)
        for index, packet in enumerate(packets[begin : begin + size]):
            out += _packet_block(packet, index, order, links, extension, nanoseconds, snap, simple)
            if index % 50 == 7:
                out += _block(order, 0x0BAD, b"something else")
        out += _block(order, 5, struct.pack(order + "III", 0, 0, 0))
    return _write(path, out)


def _packet_block(
    packet: Packet,
    index: int,
    order: str,
    links: Sequence[Link],
    extension: bool,
    nanoseconds: bool,
    snap: int,
    simple: bool,
) -> bytes:
    interface = 0 if simple else index % len(links)
    data = link_packet(packet, links[interface], extension, order == ">")
    kept = data[:snap] if snap else data
    if simple:
        return _block(order, 3, struct.pack(order + "I", len(data)) + kept)
    time = packet.ts_ns if nanoseconds else packet.ts_ns // 1000
    head = struct.pack(order + "IIIII", interface, time >> 32, time & LOW32, len(kept), len(data))
    return _block(order, 6, head + kept + bytes(-len(kept) % 4) + _option(order, 1, b"a comment"))


def _block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + length + body + length


def _option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def _write(path: str | Path, content: bytes) -> Path:
    """A name that ends in .gz, .zst or .xz is compressed."""
    path = Path(path)
    path.write_bytes(PACK[path.suffix](content) if path.suffix in PACK else content)
    return path


def cut(path: str | Path, count: int) -> Path:
    """Takes the last bytes off a file."""
    path = Path(path)
    path.write_bytes(path.read_bytes()[:-count])
    return path


def split(packets: Sequence[Packet], count: int) -> list[list[Packet]]:
    """The packets of a rotated set of ``count`` files, about equal."""
    size = -(-len(packets) // count)
    return [list(packets[at : at + size]) for at in range(0, len(packets), size)]


def write_rotated(
    directory: str | Path, packets: Sequence[Packet], count: int, write: Callable[..., Path] = write_pcap, **how: object
) -> list[Path]:
    """A rotated set, ``part-0000.pcap`` and so on."""
    suffix = "pcapng" if write is write_pcapng else "pcap"
    return [
        write(Path(directory) / f"part-{number:04d}.{suffix}", part, **how)
        for number, part in enumerate(split(packets, count))
    ]
