"""Records of typed cells where speed matters: checked without being read, and taken apart without being decoded.

The record codec decides what is right; this agrees with it. It serves cells whose head has two bytes, the low one
first, with the type in the low one: then one table says how long a cell is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..spec import nodes as n

_TEXT, _BYTES = -1, -2


class RawCell(NamedTuple):
    """Number and type of a cell; where it begins, its value begins, and it ends."""

    fid: int
    type: str
    at: int
    start: int
    stop: int


def record_checker(wire: n.Cells[Any]) -> Callable[..., bool]:
    """Return a function that tells whether a good record begins at a place and ends with the data. Charset and errors
    are those of its texts.
    """
    steps = _steps(wire)
    beyond = (wire.id_max + 1) << wire.id_shift
    most = max(kind.wire.most or 0 for kind in wire.types if isinstance(kind.wire, n.Run))

    def is_good(data: bytes, at: int, charset: str = "utf-8", errors: str = "strict") -> bool:
        end = len(data)
        try:
            while at < end:
                low = data[at]
                if low | data[at + 1] << 8 >= beyond:
                    return False
                step = steps[low]
                if step > 0:
                    at += step
                    continue
                start = at + 4
                size = data[at + 2] | data[at + 3] << 8
                at = start + size
                if size > most:
                    return False
                if step == _TEXT:
                    text = data[start:at]
                    if not text.isascii() or charset != "utf-8":
                        text.decode(charset, errors)
        except (IndexError, UnicodeDecodeError):
            return False
        return at == end

    return is_good


def record_cutter(wire: n.Cells[Any]) -> Callable[[bytes], Iterator[RawCell]]:
    """Return a function that takes a good record apart."""
    steps, mask = _steps(wire), wire.type_mask << wire.type_shift
    names = tuple(wire.types[(low & mask) >> wire.type_shift].name for low in range(256))

    def cells(body: bytes) -> Iterator[RawCell]:
        at, end = 0, len(body)
        while at < end:
            low, start = body[at], at + 2
            stop = at + steps[low]
            if stop < at:
                start += 2
                stop = start + (body[at + 2] | body[at + 3] << 8)
            yield RawCell((low | body[at + 1] << 8) >> wire.id_shift, names[low], at, start, stop)
            at = stop

    return cells


def _steps(wire: n.Cells[Any]) -> tuple[int, ...]:
    """By the low byte of a head: the bytes of the cell, or what it is if a length of two bytes tells them."""
    mask = wire.type_mask << wire.type_shift
    if wire.head.size != 2 or not wire.head.little or mask > 0xFF:
        raise ValueError("heads of two bytes are needed, with the type in the low one")
    return tuple(_step(wire.types[(low & mask) >> wire.type_shift].wire) for low in range(256))


def _step(wire: Any) -> int:
    match wire:
        case None:
            return 2
        case n.Run(length=n.Int(size=2, little=True), content=content):
            return _BYTES if content == "bytes" else _TEXT
        case n.Int(size=size) | n.Float(size=size):
            return 2 + int(size)
        case _:
            raise ValueError(f"{wire!r} is not a cell of a size that the head tells")
