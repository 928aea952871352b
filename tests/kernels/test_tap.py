from __future__ import annotations

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from wirelake.kernels.tap import crc32, crc_tables

TABLES = crc_tables()


@given(st.binary(max_size=200), st.integers(0, 20), st.integers(0, 2**32 - 1))
def test_a_checksum_is_that_of_zlib(data: bytes, begin: int, seed: int) -> None:
    begin = min(begin, len(data))
    found = crc32(np.frombuffer(data or b"x", np.uint8), begin, len(data), seed, TABLES)
    assert int(found) == zlib.crc32(data[begin:], seed)
