"""Header lines: the kernel splits them as Python does."""

from __future__ import annotations

import random

import numpy as np

from wirelake.kernels import words as k


def _split(line: bytes, window: int, padding: bytes) -> list[bytes]:
    buf = np.frombuffer(line + padding, np.uint8)
    at, length = np.zeros(k.MAX_WORDS + 1, np.int64), np.zeros(k.MAX_WORDS + 1, np.int64)
    count, behind = k.split_line(buf, len(buf), 0, min(window, len(line)), ord(":"), ord("\n"), at, length)
    words = [line[at[i] : at[i] + length[i]] for i in range(count)]
    assert not words or behind == line.index(b"\n") + 1
    return words


def test_lines_are_split_as_python_splits_them() -> None:
    rng = random.Random(4)
    for _ in range(2000):
        line = bytes(
            rng.choice(b"abc:::\n" if rng.random() < 0.3 else b"abcdefghijklmnop:") for _ in range(rng.randrange(120))
        )
        window = rng.choice((20, 64, 1000))
        found, _, _ = line[:window].partition(b"\n")
        want = found.split(b":") if b"\n" in line[:window] else []
        for padding in (b"", b":\n" * 20):
            assert _split(line, window, padding) == (want if len(want) <= k.MAX_WORDS else [])
