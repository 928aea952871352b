"""The kernel's integers against Python's."""

from __future__ import annotations

import random

import numpy as np
import pytest

from wirelake.kernels.numbers import LITTLE, SIGNED, read_int


@pytest.mark.parametrize("little", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_integers_are_read_as_python_reads_them(size: int, signed: bool, little: bool) -> None:
    rng = random.Random(size)
    flags = (SIGNED if signed else 0) | (LITTLE if little else 0)
    for _ in range(200):
        raw = rng.choice((rng.randbytes(size), b"\xff" * size, b"\x80" + bytes(size - 1), bytes(size)))
        want = int.from_bytes(raw, "little" if little else "big", signed=signed)
        if want >= 1 << 63:
            want -= 1 << 64
        for padding in (b"", bytes(16)):
            buf = np.frombuffer(b"x" + raw + padding, np.uint8)
            assert read_int(buf, len(buf), 1, size, flags) == want
