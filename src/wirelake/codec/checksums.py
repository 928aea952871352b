"""Sums over the bytes of a frame."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Callable
from functools import lru_cache, reduce
from operator import xor

from ..spec import nodes as n


@lru_cache(maxsize=1)
def _modbus_table() -> tuple[int, ...]:
    def step(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (0xA001 if value & 1 else 0)
        return value

    return tuple(map(step, range(256)))


def _crc16_modbus(data: bytes) -> int:
    table, value = _modbus_table(), 0xFFFF
    for byte in data:
        value = value >> 8 ^ table[(value ^ byte) & 0xFF]
    return value


SUMS: dict[n.Sum, Callable[[bytes], int]] = {
    "crc32": zlib.crc32,
    "crc16_modbus": _crc16_modbus,
    "crc16_ccitt": lambda data: binascii.crc_hqx(data, 0xFFFF),
    "adler32": zlib.adler32,
    "sum8": lambda data: sum(data) & 0xFF,
    "sum16": lambda data: sum(data) & 0xFFFF,
    "xor8": lambda data: reduce(xor, data, 0),
}
"""What computes each kind of sum."""
