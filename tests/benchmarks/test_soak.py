"""The small sister of ``make soak``: eight times the stream, the same memory."""

from __future__ import annotations

import pytest

from benchmarks.soak import MIB, chunks, run_apart
from benchmarks.traffic import make_frames

TOLERANCE = 1.25
"""Small batches beside a large process: a page more or less must not matter."""


@pytest.mark.parametrize(("decoder", "protocol"), [("columnar", "casual"), ("columnar", "ceda"), ("record", "mb")])
def test_memory_is_bounded_by_the_batch_and_not_by_the_stream(decoder: str, protocol: str) -> None:
    short = run_apart(decoder, protocol, 8 * MIB, 1 * MIB)
    long = run_apart(decoder, protocol, (64 if decoder == "columnar" else 32) * MIB, 1 * MIB)
    assert long.messages > 3 * short.messages
    assert long.peak_bytes < TOLERANCE * short.peak_bytes


def test_a_stream_is_its_base_again_and_again() -> None:
    base = b"".join(make_frames("casual", 6000))
    pieces = list(chunks(base, 3))
    assert b"".join(pieces) == 3 * base
    assert len(pieces) > 3
