"""Compiling the kernels ingests every kind of capture. That nothing is left to compile is tested with the archive."""

from __future__ import annotations

from wirelake.generate import generate
from wirelake.ingest.compile_kernels import MESSAGES, compile_kernels
from wirelake.protocols import BUILT_IN


def test_the_messages_of_a_pcap_a_pcapng_and_a_tap_are_found() -> None:
    sent = sum(1 for _ in generate(BUILT_IN, seed=1, messages=MESSAGES, connections=2, violations=0.1))
    assert 0.9 * 3 * sent < compile_kernels() <= 3 * sent
