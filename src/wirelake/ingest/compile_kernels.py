"""Compile every kernel by ingesting a little traffic the way workers do: Numba caches what it compiles."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..generate import generate, write_pcap, write_tap
from ..generate.traffic import Traffic
from ..lake import Lake
from ..protocols import BUILT_IN
from .inline_runner import InlineRunner
from .run import ingest

MESSAGES = 600
"""Enough that some are in pieces, and that every rule is broken."""
PARTITION_BYTES = 1 << 16
"""Small, so that some partitions continue where others ended."""


def compile_kernels(seed: int = 1, messages: int = MESSAGES) -> int:
    """Ingest a little of everything; return the number of messages."""
    with tempfile.TemporaryDirectory(prefix="wirelake-kernels-") as place:
        traffic = generate(BUILT_IN, seed=seed, messages=messages, connections=2, violations=0.1, corrupt=0.02)
        return sum(_messages(path) for path in _captures(traffic, Path(place)))


def _captures(traffic: Traffic, place: Path) -> Iterator[Path]:
    packets = place / "some.pcap"
    write_pcap(traffic, packets)
    yield packets
    blocks = place / "some.pcapng"
    blocks.write_bytes(as_pcapng(packets.read_bytes()))
    yield blocks
    yield from write_tap(traffic, place / "some.tap")


def _messages(path: Path) -> int:
    """Ingest a capture into a lake of its own: the others hold the same connections."""
    lake = Lake.open(path.with_name(f"{path.name}.lake"), settings={"buckets": 1}, durable=False)
    report = ingest(InlineRunner(), [str(path)], lake, final=True, partition_bytes=PARTITION_BYTES)
    return sum(report.messages.values())


def as_pcapng(pcap: bytes) -> bytes:
    """Return the packets of a little-endian pcap file with microseconds as pcapng blocks."""
    (link,) = struct.unpack_from("<I", pcap, 20)
    blocks = [
        _block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        _block(1, struct.pack("<HHI", link, 0, 0)),
    ]
    place = 24
    while place < len(pcap):
        seconds, micros, captured, length = struct.unpack_from("<4I", pcap, place)
        data = pcap[place + 16 : place + 16 + captured]
        ts = seconds * 1_000_000 + micros
        blocks.append(_block(6, struct.pack("<5I", 0, ts >> 32, ts & 0xFFFFFFFF, captured, length) + data))
        place += 16 + captured
    return b"".join(blocks)


def _block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size
