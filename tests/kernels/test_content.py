"""What the kernel takes for UTF-8 and MessagePack, against Python."""

from __future__ import annotations

import random
from itertools import product

import msgpack
import numpy as np
import pytest

from wirelake.codec.content import check_msgpack
from wirelake.errors import DecodeError
from wirelake.kernels import content as k


def test_utf8_is_what_python_accepts() -> None:
    rng = random.Random(1)
    leads, seconds = (0xC0, 0xC2, 0xE0, 0xED, 0xF0, 0xF4, 0xF5), (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF)
    cases = [bytes(four) for four in product(leads, seconds, (0x7F, 0x80), (0x80, 0xC0))]
    cases += [rng.randbytes(rng.randrange(8)) for _ in range(3000)]
    cases += ["".join(chr(rng.choice((65, 0xE9, 0x20AC, 0x1F600))) for _ in range(5)).encode() for _ in range(200)]
    cases += [b"a" * i + raw for i in (0, 30, 31, 32, 33, 63, 64, 65) for raw in (b"", b"\xc3\xa9", b"\xa9", b"\xc3")]
    for raw in cases:
        try:
            raw.decode()
            valid = True
        except UnicodeDecodeError:
            valid = False
        # Texts are looked at in blocks where the buffer has room for one behind them, else byte by byte.
        for padding in (b"\x80", b"\x80" * 40):
            buf = np.frombuffer(raw + padding, np.uint8)
            assert k.is_utf8(buf, len(buf), 0, len(raw)) == valid, raw.hex()


def _accepts(raw: bytes, need_map: bool = False) -> bool:
    counts, maps = np.zeros(k.MAX_DEPTH + 1, np.int64), np.zeros(k.MAX_DEPTH + 1, np.int64)
    buf = np.frombuffer(raw + b"\0", np.uint8)
    return bool(k.is_msgpack(buf, len(buf), 0, len(raw), need_map, counts, maps))


def test_messagepack_that_is_accepted_is_well_formed() -> None:
    rng = random.Random(2)
    accepted = 0
    for _ in range(20_000):
        likely = (0x81, 0x92, 0xA1, 0xC0, 0xC4, 0xCA, 0xD4, 0xDA, 0xDC, 0xDE, 1, 2, rng.randrange(256))
        raw = bytes(rng.choice(likely) for _ in range(rng.randrange(1, 12)))
        if _accepts(raw):
            accepted += 1
            check_msgpack(raw)
    assert accepted > 1000


def test_messagepack_that_a_library_packs_is_accepted() -> None:
    rng = random.Random(3)

    def value(depth: int) -> object:
        kind = rng.randrange(9 if depth else 6)
        if kind < 6:
            number = rng.randrange(-(1 << 63), 1 << 64)
            return rng.choice((None, True, number, rng.random(), "é" * rng.randrange(70), rng.randbytes(300)))
        if kind < 8:
            return [value(depth - 1) for _ in range(rng.randrange(20))]
        return {str(i): value(depth - 1) for i in range(rng.randrange(20))}

    for _ in range(500):
        made = value(3)
        raw = msgpack.packb(made)
        check_msgpack(raw)
        assert _accepts(raw)
        assert _accepts(raw, need_map=True) == isinstance(made, dict)
        assert not _accepts(raw + b"\xc0")
        assert not _accepts(raw[:-1])


def test_messagepack_deeper_than_the_limit_is_left_to_the_record_codec() -> None:
    deep = b"\x91" * k.MAX_DEPTH + b"\xc0"
    assert not _accepts(deep)
    with pytest.raises(DecodeError):
        check_msgpack(b"\x91" * (k.MAX_DEPTH + 1) + b"\xc0")
