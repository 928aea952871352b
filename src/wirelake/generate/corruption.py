"""What a bad line does to a frame."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

from ..codec.frame import read_int
from ..spec import nodes as n
from ..spec.resolve import Layout


@dataclass(frozen=True, slots=True)
class Corruption:
    """What was done to a frame after it had been encoded. ``original`` are its bytes before."""

    kind: Literal["flip", "cut", "insert", "length"]
    offset: int
    length: int
    original: bytes


def corrupt(layout: Layout, frame: bytes, rng: Random) -> tuple[bytes, Corruption]:
    """Change a byte, lose bytes, add bytes, or write another length."""
    kind = int(rng.random() * 4)
    at = int(rng.random() * len(frame))
    if kind == 1 and len(frame) > 1:
        count = min(len(frame) - at, 1 + int(rng.expovariate(0.1)))
        return frame[:at] + frame[at + count :], Corruption("cut", at, count, frame)
    if kind == 2:
        garbage = rng.randbytes(1 + int(rng.expovariate(0.05)))
        return frame[:at] + garbage + frame[at:], Corruption("insert", at, len(garbage), frame)
    size = next((part for part in layout.frame.parts if isinstance(part, n.Size)), None)
    if kind == 3 and size is not None and not isinstance(size.wire, n.Varint | n.Digits):
        return _false_length(frame, layout.size_before(size), size, rng)
    flipped = bytes([frame[at] ^ (1 + int(rng.random() * 255))])
    return frame[:at] + flipped + frame[at + 1 :], Corruption("flip", at, 1, frame)


def _false_length(frame: bytes, at: int, size: n.Size, rng: Random) -> tuple[bytes, Corruption]:
    wire = n.Int(1, False, True) if isinstance(size.wire, n.Escaped) else size.wire
    true = read_int(wire, frame, at)
    limit = 1 << wire.size * 8
    false = true
    while false == true:
        near = int(rng.gauss(0, 20)) if rng.random() < 0.5 else int(rng.random() * min(limit, 100_000))
        false = (true + near) % limit
    raw = false.to_bytes(wire.size, "little" if wire.little else "big", signed=wire.signed)
    return frame[:at] + raw + frame[at + wire.size :], Corruption("length", at, wire.size, frame)
