"""Compile every kernel by ingesting a little traffic the way workers do: Numba caches what it compiles."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..capture.write.tap_to_pcapng import export_pcapng
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
    write_pcap(traffic, place / "some.pcap")
    taps = write_tap(traffic, place / "some.tap")
    export_pcapng(taps, place / "some.pcapng")
    return iter((place / "some.pcap", place / "some.pcapng", *taps))


def _messages(path: Path) -> int:
    """Ingest a capture into a lake of its own: the others hold the same connections."""
    lake = Lake.open(path.with_name(f"{path.name}.lake"), settings={"buckets": 1}, durable=False)
    report = ingest(InlineRunner(), [str(path)], lake, final=True, partition_bytes=PARTITION_BYTES)
    return sum(report.messages.values())
