"""Write pcap files, alone or in a rotated set, and pcapng files: packets with times in microseconds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, Protocol

MAGIC_US = 0xA1B2C3D4
LINKTYPE_ETHERNET = 1
FILE_HEAD_BYTES, PACKET_HEAD_BYTES = 24, 16
SNAP_LENGTH = 262144


class PacketWriter(Protocol):
    """A file of packets."""

    def packet(self, ts_us: int, data: bytes) -> None: ...


class PcapWriter:
    """A pcap file with times in microseconds."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.packets = 0
        file.write(struct.pack("<IHHiIII", MAGIC_US, 2, 4, 0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET))

    def packet(self, ts_us: int, data: bytes) -> None:
        seconds, microseconds = divmod(ts_us, 1_000_000)
        self._file.write(struct.pack("<IIII", seconds, microseconds, len(data), len(data)) + data)
        self.packets += 1


class RotatingPcapWriter(PcapWriter):
    """A set of pcap files, ``name-0000.pcap`` and so on, each of limited bytes or packets."""

    def __init__(self, path: Path, *, file_bytes: int | None = None, file_packets: int | None = None) -> None:
        self._path = path
        self._file_bytes, self._file_packets = file_bytes or 1 << 62, file_packets or 1 << 62
        self.paths: list[Path] = []
        super().__init__(self._next())

    def _next(self) -> BinaryIO:
        path = self._path.with_name(f"{self._path.stem}-{len(self.paths):04d}{self._path.suffix}")
        self.paths.append(path)
        self._size, self._count = FILE_HEAD_BYTES, 0
        return path.open("wb")

    def packet(self, ts_us: int, data: bytes) -> None:
        size = PACKET_HEAD_BYTES + len(data)
        if self._count and (self._size + size > self._file_bytes or self._count >= self._file_packets):
            self._file.close()
            packets = self.packets
            super().__init__(self._next())
            self.packets = packets
        self._size += size
        self._count += 1
        super().packet(ts_us, data)

    def __enter__(self) -> RotatingPcapWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


# --- pcapng

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
BYTE_ORDER = 0x1A2B3C4D
_APPLICATION, _NAME, _RESOLUTION = 4, 2, 9
"""Options: of a section, who wrote it; of an interface, its name and the power of ten of its times."""
_MICROSECONDS = b"\x06"
_PACKET_HEAD = struct.Struct("<IIIIIII")


class PcapngWriter:
    """A pcapng file: one section, one Ethernet interface."""

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
