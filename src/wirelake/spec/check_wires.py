"""Refuses numbers, bits, constants and sums that no reader could take; ``check`` calls it with what it finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import nodes as n
from .check_class import check_word, require
from .conduct import When

SUM_BYTES: Mapping[str, int] = {
    "crc32": 4, "crc16_modbus": 2, "crc16_ccitt": 2, "adler32": 4, "sum8": 1, "sum16": 2, "xor8": 1,
}  # fmt: skip
"""How many bytes hold each kind of sum."""
_MOST_VARINT = 9
"""Bytes of 7 bits each that fit in 63 bits, as columns do."""


def check_number(where: str, wire: Any) -> None:
    """Refuse a number of variable size that is none."""
    if isinstance(wire, n.Varint):
        most: Any = wire.most_bytes
        is_size = isinstance(most, int) and 1 <= most <= _MOST_VARINT
        require(is_size, f"{where}: a varint has 1 to {_MOST_VARINT} bytes, not {most!r}; write varint(4)")
        return
    require(isinstance(wire.end, bytes), f'{where}: digits end with bytes, not {wire.end!r}; write digits(b" ")')
    is_digit = any(chr(byte) in "-0123456789abcdefABCDEF" for byte in wire.end)
    require(not is_digit, f'{where}: digits end with {wire.end!r}, which could be digits; write digits(b" ")')
    require(wire.base in (10, 16), f"{where}: the base is 10 or 16, not {wire.base!r}; write base=16")
    fits = -(2**63) <= wire.low <= wire.high < 2**63
    require(fits, f"{where}: no number of 64 bits lies within {wire.low}..{wire.high}; write the lower one first")


def check_wire_only(where: str, wire: Any, earlier: Mapping[str, n.Field]) -> None:
    """Refuse a constant or a sum that cannot be written."""
    if isinstance(wire, n.Constant):
        value: Any = wire.value
        is_bytes = isinstance(value, bytes) and value
        require(is_bytes, f'{where}: a constant is bytes, not {wire.value!r}; write constant(b"...")')
        return
    check_word(f"{where}: the kind of a sum", wire.kind, SUM_BYTES)
    size = SUM_BYTES[wire.kind]
    fits = isinstance(wire.wire, n.Int) and wire.wire.size == size and not wire.wire.signed
    require(fits, f"{where}: {wire.kind} has {size} bytes without a sign; write checksum(be.u{size * 8}, ...)")
    is_known = not wire.since or wire.since in earlier
    require(is_known, f"{where}: the sum counts from {wire.since!r} on, which does not come before it; name a field")


def check_bits(wires: Iterable[tuple[str, Any]]) -> None:
    """Refuse bits that do not cover an integer from its highest bit to its lowest."""
    left, whole, last = 0, None, ""
    for where, wire in wires:
        if not isinstance(wire, n.Bits):
            require(not left, f"{last}: {left} bits of its integer are left; write bits(..., 0, {left}) behind it")
            continue
        is_new = not left
        if is_new:
            left = 8 * wire.wire.size
        same = is_new or (wire.wire.size, wire.wire.little) == whole
        require(same, f"{where} has bits of another integer than {last}; write the same type for both")
        fits = wire.width > 0 and wire.shift + wire.width == left and not wire.wire.signed
        require(
            fits, f"{where}: bits {wire.shift} on, {wire.width} of them, do not begin at bit {left - 1}, {_HIGH_FIRST}"
        )
        whole, last, left = (wire.wire.size, wire.wire.little), where, wire.shift
    require(not left, f"{last}: {left} bits of its integer are left; write bits(..., 0, {left}) behind it")


_HIGH_FIRST = "where the ones before them end; write them from the highest to the lowest"


def check_when(where: str, when: When, earlier: Mapping[str, n.Field]) -> None:
    """Refuse a condition on what is not there, or that its values cannot fulfil."""
    name = when.field.partition(".")[0]
    require(name in earlier, f"{where} depends on {name!r}, which does not come before it; name an earlier field")
    field = earlier[name]
    is_inner = "." in when.field
    is_number = is_inner or isinstance(field.wire, n.Int | n.Bits | n.Varint | n.Digits | n.Bool)
    ordered = when.least is not None or when.most is not None or when.bits
    require(
        is_number or not ordered, f"{where} depends on {name!r}, which is no number; write one_of= or leave it bare"
    )


def check_ends(frame: n.Frame) -> None:
    """Refuse ends of a frame that are not its end, or of which there are two."""
    ends = [part for part in frame.parts if isinstance(part, n.Trailer | n.Until | n.Ends)]
    require(len(ends) <= 1, "a frame has one end; write one Trailer, one Until or one Ends")
    for part in ends:
        kind = type(part).__name__
        if isinstance(part, n.Ends):
            is_sized = any(isinstance(other, n.Size | n.Head) for other in frame.parts)
            require(not is_sized, "a frame has a Size or an Ends, not both; leave one out")
            require(frame.parts[-1] is part, "Ends is the last part of a frame; write it behind the others")
            require(part.most > 0, f"Ends: at most {part.most} bytes cannot be; write Ends(65536)")
            continue
        value: Any = part.value if isinstance(part, n.Trailer) else part.end
        require(isinstance(value, bytes) and value, f'{kind} takes bytes, not {value!r}; write {kind}(b"...")')
        require(frame.parts[-1] is part, f"{kind} is the last part of a frame; write it behind the others")
        is_sized = any(isinstance(other, n.Size) for other in frame.parts)
        if isinstance(part, n.Trailer):
            require(is_sized, "a Trailer needs a Size, which says where it is; write Until for an end that is searched")
        else:
            require(not is_sized, "a frame has a Size or an Until, not both; leave one out")
            require(part.most > 0, f"Until: at most {part.most} bytes cannot be; write most=65536")
