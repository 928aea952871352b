"""IP packets in what networks put around them: tags, labels, tunnels, fragments. All give the bytes of packets."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable
from random import Random

from tests.capture import hostile
from tests.capture.hostile import Packet
from wirelake.capture.write.tcp import checksum

MACS = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02"
VENDOR_MACS = b"\0\0\x0c\0\0\x01\0\0\x0c\0\0\x02"
"""Of a vendor: tshark tells Ethernet behind MPLS by these."""
OUTER, OUTER_SIX = ("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")


def ethertype(ip: bytes) -> bytes:
    return b"\x86\xdd" if ip[0] >> 4 == 6 else b"\x08\0"


def ethernet(ip: bytes) -> bytes:
    return MACS + ethertype(ip) + ip


def ipv4(protocol: int, payload: bytes, identification: int = 1, cut: int = 0, options: bytes = b"") -> bytes:
    ends = b"".join(ipaddress.IPv4Address(end).packed for end in OUTER)
    return ipv4_head(ends, protocol, len(payload), identification, cut, options) + payload


def ipv4_head(
    ends: bytes, protocol: int, size: int, identification: int = 1, cut: int = 0, options: bytes = b""
) -> bytes:
    words = 5 + len(options) // 4
    head = struct.pack(">BBHHHBB", 0x40 | words, 0, words * 4 + size, identification, cut, 64, protocol)
    return head + checksum(head + b"\0\0" + ends + options).to_bytes(2, "big") + ends + options


def ipv6(protocol: int, payload: bytes) -> bytes:
    ends = b"".join(ipaddress.IPv6Address(end).packed for end in OUTER_SIX)
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + ends + payload


def gre(flags: int, kind: int, payload: bytes) -> bytes:
    fields = b"".join(b"\0\0\0\x07" for bit in (0x8000, 0x2000, 0x1000) if flags & bit)
    packet = struct.pack(">HH", flags, kind) + fields + payload
    if flags & 0x8000:
        packet = packet[:4] + checksum(packet[:4] + bytes(4) + packet[8:]).to_bytes(2, "big") + bytes(2) + packet[8:]
    return packet


def udp(source: int, target: int, payload: bytes) -> bytes:
    return struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload


def label(number: int, is_last: bool) -> bytes:
    return struct.pack(">I", number << 12 | is_last << 8 | 64)


def gre_type(ip: bytes) -> int:
    return int.from_bytes(ethertype(ip), "big")


WRAPPINGS: dict[str, Callable[[bytes], bytes]] = {
    "VLAN": lambda ip: MACS + b"\x81\0\0\x2a" + ethertype(ip) + ip,
    "QinQ": lambda ip: MACS + b"\x88\xa8\0\x07\x81\0\0\x2a" + ethertype(ip) + ip,
    "three VLANs": lambda ip: MACS + b"\x88\xa8\0\x07\x81\0\0\x2a\x81\0\0\x2b" + ethertype(ip) + ip,
    "LLC and SNAP": lambda ip: (
        MACS + (len(ip) + 8).to_bytes(2, "big") + b"\xaa\xaa\x03\0\0\0" + ethertype(ip) + ip
        if len(ip) < 1400 else ethernet(ip)
    ),
    "MPLS": lambda ip: MACS + b"\x88\x47" + label(100, True) + ip,
    "MPLS, three labels": lambda ip: MACS + b"\x88\x47" + label(1, False) + label(2, False) + label(3, True) + ip,
    "Ethernet in MPLS": lambda ip: MACS + b"\x88\x47" + label(100, True) + bytes(4) + VENDOR_MACS + ethertype(ip) + ip,
    "Ethernet in MPLS without control word": lambda ip: (
        MACS + b"\x88\x47" + label(100, True) + VENDOR_MACS + ethertype(ip) + ip
    ),
    "PPPoE": lambda ip: (
        MACS + b"\x88\x64\x11\0\0\x07" + (len(ip) + 2).to_bytes(2, "big")
        + (b"\0\x57" if ip[0] >> 4 == 6 else b"\0\x21") + ip
    ),
    "GRE": lambda ip: ethernet(ipv4(47, gre(0, gre_type(ip), ip))),
    "GRE with checksum, key and sequence": lambda ip: ethernet(ipv4(47, gre(0xB000, gre_type(ip), ip))),
    "GRE over IPv6": lambda ip: ethernet(ipv6(47, gre(0x2000, gre_type(ip), ip))),
    "Ethernet in GRE": lambda ip: ethernet(ipv4(47, gre(0x2000, 0x6558, ethernet(ip)))),
    "VLAN in GRE": lambda ip: ethernet(ipv4(47, gre(0, 0x6558, WRAPPINGS["VLAN"](ip)))),
    "MPLS in GRE": lambda ip: ethernet(ipv4(47, gre(0, 0x8847, label(9, True) + ip))),
    "ERSPAN": lambda ip: ethernet(ipv4(47, gre(0x1000, 0x88BE, b"\x10\0\0\x01\0\0\0\0" + ethernet(ip)))),
    "VXLAN": lambda ip: ethernet(ipv4(17, udp(50000, 4789, b"\x08\0\0\0\0\0\x07\0" + ethernet(ip)))),
    "VXLAN over IPv6": lambda ip: ethernet(ipv6(17, udp(50000, 4789, b"\x08\0\0\0\0\0\x07\0" + ethernet(ip)))),
    "IP in IPv4": lambda ip: ethernet(ipv4(41 if ip[0] >> 4 == 6 else 4, ip)),
    "IP in IPv6": lambda ip: ethernet(ipv6(41 if ip[0] >> 4 == 6 else 4, ip)),
    "options and authentication": lambda ip: ethernet(
        ipv4(51, b"\x2f\x04\0\0\0\0\0\x01\0\0\0\x01" + bytes(12) + gre(0, gre_type(ip), ip), options=b"\x01" * 8)
    ),
    "everything": lambda ip: WRAPPINGS["QinQ"](
        ipv4(47, gre(0, 0x6558, MACS + b"\x88\x47" + label(5, True)
        + ipv4(17, udp(1, 4789, b"\x08\0\0\0\0\0\x07\0" + ethernet(ipv4(4, ipv4(41 if ip[0] >> 4 == 6 else 4, ip)))))))
    ),
}  # fmt: skip


def extended(ip: bytes) -> bytes:
    """IPv6 with every extension header that may stand before TCP."""
    kinds, bodies = (0, 60, 43, 44, 51, 60), (
        bytes([0, 1, 4, 0, 0, 0, 0]), bytes([1, 1, 12, *bytes(12)]), bytes([0, 253, 0, 0, 0, 0, 0]), bytes(7),
        b"\x04" + bytes(22), bytes([0, 1, 4, 0, 0, 0, 0]),
    )  # fmt: skip
    extensions = b"".join(bytes([after]) + body for after, body in zip((*kinds[1:], 6), bodies, strict=True))
    return ip[:4] + (len(ip) - 40 + len(extensions)).to_bytes(2, "big") + b"\0" + ip[7:40] + extensions + ip[40:]


def fragments(ip: bytes, number: int, size: int = 64, overlap: int = 0) -> list[bytes]:
    """The packet in fragments of that many bytes of payload, and ``overlap`` more."""
    is_six = ip[0] >> 4 == 6
    payload = ip[40:] if is_six else ip[20:]
    made = []
    for at in range(0, len(payload), size):
        part = payload[at : at + size + overlap]
        is_more = at + len(part) < len(payload)
        if is_six:
            head = bytes([ip[6], 0]) + (at | is_more).to_bytes(2, "big") + number.to_bytes(4, "big")
            made.append(ip[:4] + (len(part) + 8).to_bytes(2, "big") + b"\x2c" + ip[7:40] + head + part)
        else:
            made.append(ipv4_head(ip[12:20], ip[9], len(part), number & 0xFFFF, at // 8 | is_more << 13) + part)
    return made


def ip_of(packet: Packet) -> bytes:
    return hostile.ip_packet(packet)[1]


def in_fragments(packets: list[Packet], rng: Random, overlap: int = 0) -> list[tuple[Packet, bytes]]:
    """Packets with payload in fragments that come in any order, each with its packet."""
    made = []
    for number, packet in enumerate(packets):
        parts = fragments(ip_of(packet), number, 8 * rng.randint(3, 80), overlap) if packet.data else [ip_of(packet)]
        rng.shuffle(parts)
        made += [(packet, part) for part in parts]
    return made
