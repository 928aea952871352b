"""Refuses numbers, bits, constants and sums that no reader could take; ``check`` calls it with what it finds."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from ..errors import SpecError
from . import nodes as n
from .check_class import check_word, require
from .conditions import conditions_of
from .conduct import When

SUM_BYTES: Mapping[str, int] = {
    "crc32": 4, "crc16_modbus": 2, "crc16_ccitt": 2, "adler32": 4, "sum8": 1, "sum16": 2, "xor8": 1,
}  # fmt: skip
"""How many bytes hold each kind of sum."""
_MOST_VARINT = 10
"""Bytes of 7 bits each that hold 64 bits."""
_MOST_FILLED = 64
"""Bytes of a number as text that is filled up."""


def check_number(where: str, wire: Any) -> None:
    """Refuse a number of variable size that is none."""
    if isinstance(wire, n.Varint):
        most: Any = wire.most_bytes
        fewest, longest = (2, 9) if wire.ber else (1, _MOST_VARINT)
        is_size = isinstance(most, int) and fewest <= most <= longest
        spelled = "ber(5)" if wire.ber else "varint(4)"
        require(is_size, f"{where}: a varint has {fewest} to {longest} bytes, not {most!r}; write {spelled}")
        inners = [inner for _, inner in wire.wider if inner is not None]
        sizes = [inner.size for inner in inners]
        has_one_null = len(wire.wider) - len(inners) <= 1
        grows = sizes == sorted(set(sizes)) and all(0 < byte < 256 for byte, _ in wire.wider) and has_one_null
        remedy = "write compact({0xFD: le.u16, 0xFE: le.u32, 0xFF: le.u64})"
        require(grows, f"{where}: higher bytes announce wider integers; {remedy}")
        is_plain = all(n.limits(inner) == (0, (1 << 8 * inner.size) - 1) for inner in inners)
        require(is_plain, f"{where}: bytes announce integers without sign and limits; {remedy}")
        check_word(f"{where}: signed", wire.signed, get_args(n.Signed))
        is_whole = wire.signed != "twos" or wire.most_bytes in (5, _MOST_VARINT)
        remedy = f'write varint({_MOST_VARINT}, signed="twos")'
        require(is_whole, f"{where}: two's complement has 32 bits in 5 bytes or 64 in {_MOST_VARINT}; {remedy}")
        return
    require(isinstance(wire.end, bytes), f'{where}: digits end with bytes, not {wire.end!r}; write digits(b" ")')
    size: Any = wire.size
    is_size = isinstance(size, int) and 0 <= size <= _MOST_FILLED
    require(is_size, f"{where}: a fixed number of digits is 1 to {_MOST_FILLED}, not {wire.size!r}; write digits(3)")
    check_pads(where, wire, bool(size))
    pad = wire.pad or wire.pad_before
    is_digit = len(pad) == 1 and chr(pad[0]) in "-0123456789abcdefABCDEF"
    require(not is_digit, f"{where}: {pad!r}, which fills it up, could be a digit; leave it out for zeros")
    is_digit = any(chr(byte) in "-0123456789abcdefABCDEF" for byte in wire.end)
    require(not is_digit, f'{where}: digits end with {wire.end!r}, which could be digits; write digits(b" ")')
    require(wire.base in (8, 10, 16), f"{where}: the base is 8, 10 or 16, not {wire.base!r}; write base=16")
    forms = {8: "o", 10: "d", 16: "x"}
    most = max(len(format(limit, forms[wire.base])) for limit in (wire.low, wire.high))
    require(
        most <= (size or most), f"{where}: {wire.low}..{wire.high} takes more than {size} digits; write digits({most})"
    )
    fits = -(2**63) <= wire.low <= wire.high < 2**63
    require(fits, f"{where}: no number of 64 bits lies within {wire.low}..{wire.high}; write the lower one first")


def check_pads(where: str, wire: n.Digits | n.Run[Any], is_filled: bool) -> None:
    """Refuse what fills up a value unless it has a fixed size, and bytes that cannot."""
    pads: list[Any] = [pad for pad in (wire.pad, wire.pad_before) if pad != b""]
    what = "digits(8, pad=b' ')" if isinstance(wire, n.Digits) else "text(8, pad=b' ')"
    require(is_filled or not pads, f"{where}: only a value of a fixed size is filled up; write {what}")
    require(len(pads) <= 1, f"{where}: it is filled up at one end; write pad= or pad_before=")
    is_byte = all(isinstance(pad, bytes) and len(pad) == 1 and pad[0] < 0x80 for pad in pads)
    require(is_byte, f"{where}: one byte below 0x80 fills it up, not {pads[:1]!r}; write {what}")


def check_scaled(where: str, wire: n.Scaled[Any]) -> None:
    """Refuse numbers with a fraction that a float cannot hold, and times that no calendar has."""
    what, example = ("a number with a fraction", "fixed_point(be.i32, 16)")
    if wire.epoch is not None:
        what, example = ("a time", 'timestamp(be.u32, "s")')
    number: Any = wire.wire
    if wire.form:
        is_text = isinstance(number, n.Run) and number.content in ("text", "strict_text") and number.null is None
        require(is_text, f'{where}: {what} of a form is written as text, always; write timestamp(text(u8), "%Y...")')
        return
    require(isinstance(number, n.Number), f"{where}: {what} is written as an integer; write {example}")
    low, high = n.limits(number)
    most = _MOST_SCALED if wire.epoch is None else (253_402_300_800 - wire.epoch) * wire.per
    fits = -most <= low and high < most
    require(fits, f"{where}: {low}..{high} is more than {what} can be; write a narrower type, or within(...)")


_MOST_SCALED = 1 << 50
"""Integers below are told apart by floats, whatever they are divided by."""


def check_wire_only(where: str, wire: Any, earlier: Mapping[str, n.Field]) -> None:
    """Refuse a constant or a sum that cannot be written."""
    if isinstance(wire, n.Constant):
        value: Any = wire.value
        is_bytes = isinstance(value, bytes) and value
        require(is_bytes, f'{where}: a constant is bytes, not {wire.value!r}; write constant(b"...")')
        return
    if isinstance(wire, n.Align):
        multiple: Any = wire.size
        is_size = isinstance(multiple, int) and 2 <= multiple <= 256
        require(is_size, f"{where}: zeros go up to a multiple of 2 to 256, not {multiple!r}; write align(4)")
        return
    check_word(f"{where}: the kind of a sum", wire.kind, SUM_BYTES)
    size = SUM_BYTES[wire.kind]
    is_text = isinstance(wire.wire, n.Digits) and wire.wire.high >= (1 << 8 * size) - 1 and wire.wire.size
    fits = is_text or (isinstance(wire.wire, n.Int) and wire.wire.size == size and not wire.wire.signed)
    require(fits, f"{where}: {wire.kind} has {size} bytes without a sign; write checksum(be.u{size * 8}, ...)")
    is_known = not wire.since or wire.since in earlier
    require(is_known, f"{where}: the sum counts from {wire.since!r} on, which does not come before it; name a field")


def size_given(wire: Any) -> Any:
    """Return the length or count of a value, as it is declared."""
    return getattr(wire, "count" if isinstance(wire, n.Many) else "length", None)


def check_since(where: str, name: str, wire: n.Length, earlier: Mapping[str, n.Field]) -> None:
    """Refuse a length apart that is no integer, or that counts from a field on that comes after it."""
    is_int = isinstance(wire.wire, n.Int)
    require(
        is_int, f"{where}: a length apart is an integer; write length(be.u16, of={wire.of!r}), or a field of its own"
    )
    is_known = not wire.since or wire.since == name or wire.since in earlier
    require(is_known, f"{where}: the length counts from {wire.since!r} on, which does not come before it; name a field")


def check_by(where: str, field: n.Field, by: n.By, earlier: Mapping[str, n.Field]) -> None:
    """Refuse a length or count in an earlier field that is not there, or no number."""
    known = _sizing(where, by.field, earlier)
    if isinstance(known.wire, n.Length):
        is_its = known.wire.of == field.name and by == n.By(by.field)
        require(is_its, f"{where} is sized by {by.field!r}, which is not its length")
        return
    check_numbers(where, by, earlier)
    last = by.chain[-1].field
    asked = earlier[last].when
    has_end = asked is None or (isinstance(field.wire, n.Run) and field.wire.end)
    same = asked == field.when or any(one == When(last) for one in conditions_of(field.when))
    remedy = f'write when=When({last!r}), the same when=, or end=b"..."'
    require(has_end or same, f"{where} is sized by {last!r}, which may be absent; {remedy}")


def _sizing(where: str, name: str, earlier: Mapping[str, n.Field]) -> n.Field:
    """Return an earlier field that says a size."""
    known = earlier.get(name)
    require(known, f"{where} is sized by {name!r}, which does not come before it; name an earlier field")
    assert known is not None
    return known


def check_numbers(where: str, by: n.By, earlier: Mapping[str, n.Field]) -> None:
    """Refuse a size in earlier fields that are not there, or no numbers."""
    for one in by.chain:
        for name in filter(None, (one.field, one.less)):
            wire = _sizing(where, name, earlier).wire
            is_number = isinstance(wire, n.Int | n.Bits | n.Varint | n.Digits | n.Word) and getattr(
                wire, "number", True
            )
            require(is_number, f"{where} is sized by {name!r}, which is no number; name a number before it")
        is_unit = one.per > 0 and one.times > 0 and (one.per == 1 or one.times == 1)
        require(is_unit, f"{where}: {one.per} units for {one.times} cannot be; write per=8, or times=4")


def check_header_field(where: str, field: n.Field, earlier: Mapping[str, n.Field]) -> None:
    """Refuse a field of the header that nothing before it can say to be there."""
    is_known = not isinstance(field.when, n.IfLeft | n.HeadReaches)
    require(is_known, f"{where}: the header goes on until it ends; write when=When(...) or when=begins(...)")
    is_value = not isinstance(field.wire, n.Body | n.Tags | n.Word | n.Length | n.WireOnly | n.Cells)
    require(is_value, f"{where}: {type(field.wire).__name__} cannot be a field of the header; write it behind it")
    by = n.By.of(size_given(field.wire))
    if by is not None:
        check_by(where, field, by, earlier)


def check_before(where: str, given: n.By) -> None:
    """Refuse a number before a value that does not say by itself how long that is."""
    number: Any = given.field
    is_number = isinstance(number, n.Number)
    require(is_number, f"{where}: By takes a field's name or a number, not {number!r}; write By(u8, plus=1)")
    is_exact = given.per == 1 and given.times > 0
    require(is_exact, f"{where}: a number in smaller units is a field of its own; write By('size', per=8)")


def _check_filled(where: str, wire: n.Run[Any]) -> None:
    """Refuse a fixed size that says nothing about shorter values, or that something else contradicts."""
    size = wire.length
    check_pads(where, wire, is_filled=isinstance(size, int))
    if not isinstance(size, int):
        return
    is_plain = wire.content in ("text", "strict_text", "bytes") and not (wire.escapes or wire.least or wire.most)
    require(is_plain, f"{where}: a fixed size is for text or bytes, without limits; leave least= and most= out")
    require(0 < size <= 1 << 16, f"{where}: a fixed size is 1 to 65536 bytes, not {size}; write text(8, pad=b' ')")


def check_run(where: str, wire: n.Run[Any]) -> None:
    """Refuse contents and character sets that there are not, and a null that no length can be."""
    check_word(f"{where}: the content", wire.content, get_args(n.Content))
    _check_filled(where, wire)
    try:
        codecs.lookup(wire.charset)
    except (LookupError, TypeError):
        raise SpecError(f'{where}: {wire.charset!r} is no character set; write charset="latin-1"') from None
    _check_null(where, wire.length, wire.null)
    check_escapes(where, wire)


def _check_null(where: str, number: Any, null: int | None) -> None:
    if null is not None and n.written(number) is not None:
        low, high = n.sizes(number)
        require(low <= null <= high, f"{where}: null={null} is no value of its length; write null={high}")


def check_escapes(where: str, wire: n.Run[Any]) -> None:
    """Refuse escapes of which it is not certain what they stand for."""
    if not wire.escapes:
        return
    is_plain = wire.content in ("text", "bytes") and not isinstance(wire.length, str | n.By)
    require(is_plain, f"{where}: escapes are for text, not strict, or bytes, with an end or a length before them")
    given: list[Any] = [each for pair in wire.escapes for each in pair]
    require(all(isinstance(each, bytes) and each for each in given), f"{where}: escapes are bytes; write {_ESCAPES}")
    written, meant = zip(*wire.escapes, strict=True)
    begin = written[0][:1]
    is_one = all(each[:1] == begin and len(each) == len(written[0]) > 1 for each in written)
    require(is_one, f"{where}: all escapes have one length and begin with the same byte; write {_ESCAPES}")
    is_first = begin in meant and not any(begin in each for each in meant if each != begin)
    require(is_first, f"{where}: {begin!r} begins the escapes, so it needs one of its own; write {_ESCAPES}")
    require(len(set(meant)) == len(meant), f"{where}: two escapes stand for the same; leave one out")


_ESCAPES = r"""escapes={rb"\\": b"\\", rb"\n": b"\n"}"""


def check_until(where: str, wire: n.Many[Any]) -> None:
    """Refuse a condition on the last element of a list that its elements cannot fulfil, and a null that no count is."""
    _check_null(where, wire.count, wire.null)
    require(wire.until or not wire.or_end, f"{where}: or_end= is for a list with until=; leave it out")
    if wire.until is None:
        return
    is_open = wire.count is None and wire.null is None
    require(is_open, f"{where}: a list has a count or until=, not both; write many(..., None, until=...)")
    element = n.structure_of(wire.element)
    is_struct = element is not None
    names = {f.name for f in element.struct.__wire_fields__} if element is not None else set()
    name = wire.until.field.partition(".")[0]
    require(
        is_struct and name in names, f"{where}: until= asks for {name!r}, which its elements do not have; name a field"
    )


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
    is_scaled = isinstance(field.wire, n.Scaled)
    require(not is_scaled, f"{where} depends on {name!r}, which is a time or has a fraction; declare it as an integer")
    is_inner = "." in when.field
    is_number = is_inner or isinstance(field.wire, n.Int | n.Bits | n.Varint | n.Digits | n.Bool)
    ordered = when.least is not None or when.most is not None or when.bits
    require(
        is_number or not ordered, f"{where} depends on {name!r}, which is no number; write one_of= or leave it bare"
    )
    for asked, values in (("one_of", when.one_of), ("none_of", when.none_of)):
        given: Any = values
        is_tuple = isinstance(given, tuple)
        require(is_tuple, f"{where}: {asked} is a tuple, not {given!r}; write {asked}=({given!r},)")
    kind = None if is_inner else _compared(field.wire)
    require(not when.prefix or kind in (None, str), f"{where} depends on {name!r}, which is no text; write one_of=")
    for value in (*when.one_of, *when.none_of) if kind else ():
        is_kind = isinstance(value, kind or object)
        said = f"{where} depends on {name!r}, which is never {value!r}; compare it with a {kind and kind.__name__}"
        require(is_kind, said)


def _compared(wire: Any) -> type | None:
    """Return what values of a field are compared with, where that is certain."""
    match wire:
        case n.Int() | n.Bits() | n.Varint() | n.Digits() | n.Bool():
            return int
        case n.Run(content="text" | "strict_text"):
            return str
        case n.Run(content="bytes") | n.Fixed():
            return bytes
        case _:
            return None


def check_ends(frame: n.Frame) -> None:
    """Refuse ends of a frame that are not its end, or of which there are two."""
    ends = [part for part in frame.parts if isinstance(part, n.Ending)]
    require(len(ends) <= 1, "a frame has one end; write one Trailer, Until, Ends or Opaque")
    for part in ends:
        kind = type(part).__name__
        if isinstance(part, n.Ends | n.Opaque):
            is_sized = any(isinstance(other, n.Size | n.Head) for other in frame.parts)
            require(not is_sized, f"a frame has a Size or an {kind}, not both; leave one out")
            require(frame.parts[-1] is part, f"{kind} is the last part of a frame; write it behind the others")
            require(part.most > 0, f"{kind}: at most {part.most} bytes cannot be; write {kind}(65536)")
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


def check_lines(line: n.Line, nodes: Iterable[Any]) -> None:
    """Refuse words of a line that others leave nothing for."""
    for node in nodes:
        words = [f for f in node.fields if isinstance(f.wire, n.Word)]
        early = next((f.name for f in words[:-1] if f.wire.all), None)
        where = f"{node.cls.__name__}.{early} takes all that is left of the line"
        require(early is None, f"{where}, so no word can follow it; write it behind the others")
        if node.codes[0] == n.OTHER:
            first = words[0] if words else None
            is_word = first is not None and first.name == line.code and not (first.wire.optional or first.wire.number)
            where = f"{node.cls.__name__} takes any {line.code}, so its first word is a field for it"
            require(is_word, f'{where}; write {line.code}: str = field(word("[A-Z]+", "{line.code_rule}"))')
