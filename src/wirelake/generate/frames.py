"""Changes to finished frames: what careless peers append, and what a bad line does to them."""

from __future__ import annotations

from random import Random
from typing import assert_never

from ..codec.frame import read_int, smallest
from ..spec import nodes as n
from ..spec.resolve import Layout
from .truth import Damage


def size_field(layout: Layout) -> tuple[int, n.Size] | None:
    """Where the length of a frame is written, and how."""
    at = 0
    for part in layout.frame.parts:
        match part:
            case n.Size():
                return at, part
            case n.Magic(value=value):
                at += len(value)
            case n.Head(wire=wire) | n.Code(wire=wire):
                at += wire.size
            case n.Kept(name=name):
                at += smallest(next(iter(layout.messages.values())).field(name).wire, layout)
            case n.Line():
                return None
            case _:
                assert_never(part)
    return None


def pad(layout: Layout, frame: bytes, padding: bytes) -> bytes:
    """The frame with bytes behind its last field, counted in its length."""
    found = size_field(layout)
    assert found is not None and isinstance(found[1].wire, n.Int)
    at, wire = found[0], found[1].wire
    size = read_int(wire, frame, at) + len(padding)
    return frame[:at] + _int_bytes(wire, size) + frame[at + wire.size :] + padding


def damage(layout: Layout, frame: bytes, rng: Random) -> tuple[bytes, Damage]:
    """The frame as a bad line delivers it: a byte changed, bytes lost, bytes added, or another length."""
    kind = int(rng.random() * 4)
    at = int(rng.random() * len(frame))
    if kind == 1 and len(frame) > 1:
        count = min(len(frame) - at, 1 + int(rng.expovariate(0.1)))
        return frame[:at] + frame[at + count :], Damage("cut", at, count, frame)
    if kind == 2:
        garbage = rng.randbytes(1 + int(rng.expovariate(0.05)))
        return frame[:at] + garbage + frame[at:], Damage("insert", at, len(garbage), frame)
    found = size_field(layout) if kind == 3 else None
    if found is not None:
        return _false_length(frame, *found, rng)
    return frame[:at] + bytes([frame[at] ^ (1 + int(rng.random() * 255))]) + frame[at + 1 :], Damage(
        "flip", at, 1, frame
    )


def _false_length(frame: bytes, at: int, part: n.Size, rng: Random) -> tuple[bytes, Damage]:
    wire = n.Int(1, False, True) if isinstance(part.wire, n.Escaped) else part.wire
    true = read_int(wire, frame, at)
    limit = 1 << wire.size * 8
    false = true
    while false == true:
        near = int(rng.gauss(0, 20)) if rng.random() < 0.5 else int(rng.random() * min(limit, 100_000))
        false = (true + near) % limit
    return frame[:at] + _int_bytes(wire, false) + frame[at + wire.size :], Damage("length", at, wire.size, frame)


def _int_bytes(wire: n.Int, value: int) -> bytes:
    return value.to_bytes(wire.size, "little" if wire.little else "big", signed=wire.signed)
