"""Write pcapng files: one section, one Ethernet interface, packets with times in microseconds."""

from __future__ import annotations

import struct
from typing import BinaryIO

from .pcap import LINKTYPE_ETHERNET, SNAP_LENGTH

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER = 0x1A2B3C4D
_APPLICATION, _NAME, _RESOLUTION = 4, 2, 9
"""Options: of a section, who wrote it; of an interface, its name and the power of ten of its times."""
_MICROSECONDS = b"\x06"
_PACKET_HEAD = struct.Struct("<IIIIIII")


class PcapngWriter:
    def __init__(self, file: BinaryIO, *, application: str = "wirelake", interface: str = "tap") -> None:
        self._file = file
        self.packets = 0
        head = struct.pack("<IHHq", BYTE_ORDER, 1, 0, -1)
        file.write(_block(SECTION, head + _options((_APPLICATION, application.encode()))))
        head = struct.pack("<HHI", LINKTYPE_ETHERNET, 0, SNAP_LENGTH)
        options = _options((_NAME, interface.encode()), (_RESOLUTION, _MICROSECONDS))
        file.write(_block(INTERFACE, head + options))

    def packet(self, ts_us: int, data: bytes) -> None:
        rest = -len(data) % 4
        size = _PACKET_HEAD.size + len(data) + rest + 4
        head = _PACKET_HEAD.pack(PACKET, size, 0, ts_us >> 32 & 0xFFFFFFFF, ts_us & 0xFFFFFFFF, len(data), len(data))
        self._file.write(b"".join((head, data, bytes(rest), size.to_bytes(4, "little"))))
        self.packets += 1


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def _options(*options: tuple[int, bytes]) -> bytes:
    """Return the options, each filled to words of four bytes, and the mark of their end."""
    filled = (struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in options)
    return b"".join(filled) + bytes(4)
