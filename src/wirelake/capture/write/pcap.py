"""Write pcap files: packets with times in microseconds, in one file or in a rotated set."""

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
