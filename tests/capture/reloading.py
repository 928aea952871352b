"""State as it comes back from bytes: decoded strictly by its types, by another process or another day."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from wirelake.generate import generate, write_pcap, write_tap
from wirelake.ingest.carry import pack, unpack
from wirelake.protocols import BUILT_IN

T = TypeVar("T")


def reloaded(value: T) -> T:
    return unpack(pack(value), type(value))


def open_captures(place: Path) -> list[Path]:
    """Captures that leave much open: held segments, searches, connections that are not identified, taps."""
    traffic = generate(BUILT_IN, seed=5, messages=300, connections=2, corrupt=0.05, gaps=0.02, disorder=0.2)
    write_pcap(traffic, place / "a.pcap")
    (place / "a.pcap").write_bytes((place / "a.pcap").read_bytes()[:70_000])
    write_tap(traffic, place / "b.tap")
    (place / "b.tap").write_bytes((place / "b.tap").read_bytes()[:40_000])
    return [place / "a.pcap", place / "b.tap"]
