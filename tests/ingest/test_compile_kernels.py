"""Compiling the kernels reads every kind of capture, and finds every message in each."""

from __future__ import annotations

import subprocess
import sys

AGAIN = """
import sys
from wirelake.ingest.compile_kernels import compile_kernels
from wirelake.kernels.cache import cache_counts
messages = compile_kernels(seed=int(sys.argv[1]))
print(messages, *cache_counts())
"""


def counts(seed: int) -> list[int]:
    done = subprocess.run([sys.executable, "-c", AGAIN, str(seed)], capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_what_it_compiled_serves_other_traffic() -> None:
    counts(1)
    messages, cached, compiled = counts(2)
    assert messages > 3 * 50
    assert (cached > 10, compiled) == (True, 0)
