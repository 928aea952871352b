"""Sums, by the check values that their catalogues give for "123456789"."""

from __future__ import annotations

import pytest

from wirelake.codec.checksums import SUMS
from wirelake.spec import nodes as n
from wirelake.spec.check_wires import SUM_BYTES

CHECKS: dict[n.Sum, int] = {
    "crc32": 0xCBF43926,
    "crc16_modbus": 0x4B37,
    "crc16_ccitt": 0x29B1,
    "adler32": 0x091E01DE,
    "sum8": 0xDD,
    "sum16": 0x01DD,
    "xor8": 0x31,
}


@pytest.mark.parametrize("kind", SUMS)
def test_a_sum_has_its_check_value_and_fits(kind: n.Sum) -> None:
    assert SUMS[kind](b"123456789") == CHECKS[kind]
    assert all(SUMS[kind](bytes([byte]) * size) < 1 << 8 * SUM_BYTES[kind] for byte in (0, 255) for size in (0, 1, 999))


def test_every_sum_that_can_be_declared_can_be_computed() -> None:
    assert set(SUMS) == set(SUM_BYTES)
