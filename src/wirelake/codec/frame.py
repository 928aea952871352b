"""Where a frame begins and ends: its header, read exactly, in the order in which the protocol looks.

``read_header`` judges a header as soon as the bytes that show a fault are there, and asks for more (``Incomplete``)
only while nothing is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, assert_never

from ..errors import BadValue, DecodeError, Incomplete, LimitExceeded
from ..spec import nodes as n
from ..spec.conduct import When
from ..spec.resolve import Layout, MessageNode, resolve_fields, size_of
from .numerals import bits_of, read_numeral, shortest

Buffer = bytes | bytearray | memoryview


@dataclass(slots=True)
class Header:
    """What a frame's header says. Positions are relative to the start of the frame."""

    length: int
    payload: int
    code: int | None = None
    code_at: int | None = None
    head_end: int | None = None
    mask_at: int | None = None
    kept: dict[str, int] | None = None
    stop: int | None = None
    """Where the payload ends, if not with the frame."""
    key: Any = None
    """The code, where it has several parts or is a text."""
    layout: Layout | None = None
    """The layout of the frame that it is, where there are several."""
    sizes: dict[str, int] | None = None
    """The bytes of fields of the header that have no fixed size."""


def read_int(wire: n.Int, data: Buffer, at: int) -> int:
    return int.from_bytes(data[at : at + wire.size], "little" if wire.little else "big", signed=wire.signed)


def read_code(wire: n.Int | n.Bits, data: Buffer, at: int) -> int:
    return read_int(wire, data, at) if isinstance(wire, n.Int) else bits_of(wire, read_int(wire.wire, data, at))


def read_header(
    layout: Layout, data: Buffer, start: int, end: int, *, final: bool = False, claimed: bool = False
) -> Header:
    """The header of the frame at ``start``; Incomplete while it, or the frame, is not all there.

    ``final``: no more bytes will come, so a frame that is all there is not one whose header would need more.
    ``claimed``: the bytes are one frame, whatever its code.
    """
    header = final and _whole_of_others(layout, data, start, end, claimed)
    header = header or measure(layout, data, start, end, is_last=final)
    available = end - start
    if available < header.length:
        raise Incomplete(
            f"{available} of {header.length} bytes are there",
            rule="frame_incomplete",
            path=next((p.name for p in layout.frame.parts if isinstance(p, n.Size)), ""),
            offset=available,
            needed=header.length,
            available=available,
        )
    return header


def measure(
    layout: Layout,
    data: Buffer,
    start: int,
    end: int,
    *,
    is_cut: bool = False,
    is_last: bool = False,
    into: Header | None = None,
) -> Header:
    """The header of the frame at ``start``, whether or not the rest of the frame is there.

    ``is_cut``: no more bytes come, so an end that is missing is not looked for. ``is_last``: no more bytes come, which
    ends a frame of opaque ones. Of several frames, the first one is right whose header has no fault. ``into`` is filled
    in, so that it tells about a header whose end is missing.
    """
    if not layout.others:
        return _measure(layout, data, start, end, is_cut, is_last, into)
    *first, last = layout.tried
    for other in first:
        try:
            header = _measure(other, data, start, end, is_cut, is_last)
        except Incomplete:
            raise
        except DecodeError:
            continue
        header.layout = other
        return header
    header = _measure(last, data, start, end, is_cut, is_last)
    header.layout = last if last is not layout else None
    return header


def _whole_of_others(layout: Layout, data: Buffer, start: int, end: int, claimed: bool) -> Header | None:
    """Of several frames, return the header of the first one that is all there."""
    for other in layout.tried if layout.others else ():
        try:
            header = _measure(other, data, start, end, is_cut=False, is_last=True)
        except DecodeError:
            continue
        if header.length <= end - start and (claimed or _is_known(other, data, start, header)):
            header.layout = other if other is not layout else None
            return header
    return None


def _is_known(layout: Layout, data: Buffer, start: int, header: Header) -> bool:
    """Return whether the code of a frame is that of a message."""
    part = next((part for part in layout.frame.parts if isinstance(part, n.Code)), None)
    if part is None or header.key is not None or header.code_at is None:
        return True
    return layout.other(read_code(part.wire, data, start + header.code_at)) is not None


def _measure(
    layout: Layout, data: Buffer, start: int, end: int, is_cut: bool, is_last: bool, into: Header | None = None
) -> Header:
    at = 0
    available = end - start
    header = into or Header(length=available, payload=0)
    for part in layout.frame.parts:
        match part:
            case n.Magic(value=value, name=name):
                for i in range(min(len(value), available - at)):
                    if data[start + at + i] != value[i]:
                        begin = bytes(data[start : start + at + i + 1])
                        raise BadValue(
                            f"starts with {begin.hex(' ')}, not with {value.hex(' ')}",
                            rule="magic",
                            path=name,
                            offset=at + i,
                        )
                _need(at + len(value), available, name, at)
                at += len(value)
            case n.Size(wire=str() | n.By()):
                from .header_fields import read_length  # it reads the fields, as that module does

                _need(at, available, part.name, at)
                number = read_length(layout, part, data, start, at, end, header)
                _check_length(part, number, at)
                header.length = part.plus + at + number
            case n.Size():
                at = _read_size(part, data, start, at, available, header)
            case n.Head():
                _need(at + part.wire.size, available, part.name, at)
                _read_head(part, data, start, at, header)
                at += part.wire.size
            case n.Code(wire=n.Int(size=width), early=False) if layout.has_plain_codes:
                header.code_at = at
                at += width
            case n.Code(name=name, wire=n.Run() as text):
                at = _read_text_code(layout, name, text, data, start, at, available, header)
            case n.Code(wire=n.Varint() | n.Digits() as number):
                at = _read_numeral_code(layout, part, number, data, start, at, available, header)
            case n.Code(name=name, wire=wire) if layout.beginnings:
                if (header.key or ()) in layout.beginnings:
                    _read_further_code(layout, part, data, start, at, available, header)
                    at += size_of(wire)
            case n.Code(name=name, wire=wire, early=early):
                if layout.takes_any:
                    header.kept = (header.kept or {}) | {name: at}
                if early or layout.place:
                    _need(at + code_width(wire), available, name, at)
                    header.code = read_code(wire, data, start + at)
                    _judge_code(layout, header, name, at)
                header.code_at = at
                at += size_of(wire)
            case n.Kept(name=name) if name in layout.loose:
                from .header_fields import read_field

                _need(at, available, name, at)
                at = read_field(layout, part, data, start, at, end, header)
            case n.Kept(name=name):
                header.kept = (header.kept or {}) | {name: at}
                at += layout.part_size(part)
            case n.Line():
                pass
            case n.Trailer(value=value):
                header.stop = header.length - len(value)
            case n.Until() | n.Ends() if is_cut:
                _need(at, available, part.name, at)
            case n.Opaque(most=most, name=name):
                _need(at + (1 if is_last or is_cut else most), available, name, at)
                header.length = min(available, at + most)
            case n.Until():
                _find_end(part, data, start, at, available, header)
            case n.Ends():
                from .walk import find_end  # it reads the fields, as that module does

                header.payload = at
                header.length = find_end(layout, part, data, start, end, header)
            case _:
                assert_never(part)
    header.payload = at
    if header.key is not None and layout.other(header.key) is None:
        raise unknown_code(header.key, "code", header.code_at or 0)
    if (header.length if header.stop is None else header.stop) < at:
        size = next((p for p in layout.frame.parts if isinstance(p, n.Size)), None)
        raise BadValue(
            f"a frame of {header.length} bytes is shorter than its header",
            rule=size.rule if size is not None else "frame_limit",
            path=size.name if size is not None else "",
            offset=0,
        )
    return header


def code_width(wire: n.Int | n.Bits) -> int:
    """Return the bytes in which a code stands."""
    return wire.size if isinstance(wire, n.Int) else wire.wire.size


def _read_further_code(
    layout: Layout, part: n.Code, data: Buffer, start: int, at: int, available: int, header: Header
) -> None:
    """Add a code to those that were read before it."""
    width = code_width(part.wire)
    sized = any(isinstance(other, n.Size) for other in layout.frame.parts[: layout.frame.parts.index(part)])
    if sized and at + width > (header.length if header.stop is None else header.stop):
        raise BadValue(f"the frame ends before its {part.name}", rule="frame_limit", path=part.name, offset=0)
    _need(at + width, available, part.name, at)
    header.key = (*(header.key or ()), read_code(part.wire, data, start + at))
    header.code_at = at
    if header.key not in layout.beginnings and header.key not in layout.by_code:
        raise unknown_code(header.key, part.name, at)


def _read_text_code(
    layout: Layout,
    name: str,
    wire: n.Run[Any],
    data: Buffer,
    start: int,
    at: int,
    available: int,
    header: Header,
) -> int:
    """Read a code that is a text; return the position behind what ends it."""
    end: bytes = wire.length
    most = wire.most or max(len(key) for key in layout.by_code if isinstance(key, bytes))
    given = bytes(data[start + at : start + min(available, at + most + len(end))])
    size = given.find(end)
    if size < 0:
        could_be = any((key + end).startswith(given) for key in layout.by_code if isinstance(key, bytes))
        if n.OTHER not in layout.by_code and not could_be:
            raise unknown_code(given, name, at)
        if len(given) == most + len(end):
            raise unknown_code(given, name, at)
        _need(available + 1, available, name, at)
    header.key, header.code_at = given[:size], at
    if n.OTHER in layout.by_code:
        header.kept = (header.kept or {}) | {name: at}
    if layout.other(header.key) is None:
        raise unknown_code(header.key, name, at)
    return at + size + len(end)


def _read_numeral_code(
    layout: Layout,
    part: n.Code,
    wire: n.Varint | n.Digits,
    data: Buffer,
    start: int,
    at: int,
    available: int,
    header: Header,
) -> int:
    """Read a code of variable size; return the position behind it."""
    sized = any(isinstance(other, n.Size) for other in layout.frame.parts[: layout.frame.parts.index(part)])
    stop = (header.length if header.stop is None else header.stop) if sized else available + 1
    try:
        header.key, behind = _read_number(part, wire, data, start, at, min(available, stop))
    except Incomplete:
        if stop <= available:
            detail = f"the frame ends before its {part.name}"
            raise BadValue(detail, rule="frame_limit", path=part.name, offset=0) from None
        raise
    header.code_at = at
    if layout.takes_any:
        header.kept = (header.kept or {}) | {part.name: at}
    if layout.other(header.key) is None:
        raise unknown_code(header.key, part.name, at)
    return behind


def _find_end(part: n.Until, data: Buffer, start: int, at: int, available: int, header: Header) -> None:
    """Set the length of a frame that ends with certain bytes."""
    _need(at, available, part.name, at)
    reach = at + part.most + len(part.end)
    found = bytes(data[start + at : start + min(available, reach)]).find(part.end)
    if found < 0 and available >= reach:
        raise LimitExceeded(
            f"no {part.end!r} within {part.most} bytes",
            rule=part.rule,
            path=part.name,
            offset=at,
            limit=part.most,
            actual=available - at,
        )
    if found < 0:
        _need(available + 1, available, part.name, at)
    header.stop = at + found
    header.length = header.stop + len(part.end)


def plausible(layout: Layout, data: Buffer, start: int, end: int) -> bool | None:
    """Whether a frame seems to begin at ``start``: its header is good and its message known. None: too few bytes to
    tell.
    """
    try:
        header = measure(layout, data, start, end)
    except Incomplete:
        return None
    except DecodeError:
        return False
    layout = header.layout or layout
    if header.key is not None:
        node = layout.other(header.key)
        stop = header.length if header.stop is None else header.stop
        return node is not None and stop - header.payload >= least_payload(layout, node)
    if header.code_at is None and not any(isinstance(part, n.Line) for part in layout.frame.parts):
        (only,) = layout.nodes
        return (header.length if header.stop is None else header.stop) - header.payload >= least_payload(layout, only)
    if header.code_at is None and any(isinstance(part, n.Ends) for part in layout.frame.parts):
        return True
    if header.code_at is None:
        return _plausible_line(layout, data, start + header.payload, min(end, start + header.length), end)
    if header.mask_at is not None:
        return True
    part = next(p for p in layout.frame.parts if isinstance(p, n.Code))
    if header.code_at + code_width(part.wire) > end - start:
        return None
    node = layout.other(read_code(part.wire, data, start + header.code_at))
    stop = header.length if header.stop is None else header.stop
    return node is not None and stop - header.payload >= least_payload(layout, node)


def _plausible_line(layout: Layout, data: Buffer, start: int, frame_end: int, end: int) -> bool | None:
    """Whether one of the messages' words, with its separator, begins here."""
    line = next(p for p in layout.frame.parts if isinstance(p, n.Line))
    if layout.takes_any:
        return True
    undecided = False
    for node in layout.nodes:
        word = node.word.encode() + line.separator
        given = bytes(data[start : min(frame_end, start + len(word))])
        if line.fold:
            word, given = word.lower(), given.lower()
        if given == word:
            return True
        undecided |= word.startswith(given) and frame_end == end
    return None if undecided else False


@lru_cache(maxsize=1024)
def least_payload(layout: Layout, node: MessageNode) -> int:
    """The fewest bytes that can follow the frame header of this message."""
    named = kept_fields(layout)
    return sum(
        smallest(f.wire, layout) for f in node.fields if f.when is None and not f.view_of and f.name not in named
    )


@lru_cache(maxsize=64)
def kept_fields(layout: Layout) -> frozenset[str]:
    """Names of the message fields that travel in the frame's header."""
    names = set()
    for part in layout.frame.parts:
        if isinstance(part, n.Kept):
            names.add(part.name)
        elif isinstance(part, n.Size) and isinstance(part.wire, n.Escaped) and part.wire.mask_bit:
            names.add(part.wire.mask_key)
        elif isinstance(part, n.Code) and n.OTHER in layout.by_code:
            names.add(part.name)
    return frozenset(names)


@lru_cache(maxsize=4096)
def smallest(wire: Any, layout: Layout) -> int:
    """The smallest number of bytes that a value of this kind takes."""
    match wire:
        case n.Int(size=size) | n.Float(size=size) | n.Fixed(size=size) | n.Run(length=int() as size):
            return size
        case n.Run(length=n.By(field=n.Int() | n.Varint() | n.Digits() as number)):
            return smallest(number, layout) + (0 if wire.null is not None else wire.least + len(wire.end))
        case n.Sized(length=n.By(field=number)) | n.Many(count=n.By(field=number)) if not isinstance(number, str):
            return smallest(number, layout)
        case n.Bool() | n.Bits() | n.Constant() | n.Checksum() | n.Align():
            return size_of(wire)
        case n.Run(length=str() | n.By(), least=least, end=end):
            return least + len(end)
        case n.Sized(length=str() | n.By()) | n.Many(count=str() | n.By()):
            return 0
        case n.Many(element=element, until=When(), or_end=or_end):
            return 0 if or_end else smallest(element, layout)
        case n.Varint() | n.Digits():
            return shortest(wire)
        case n.Choice(tag=tag):
            return int(tag.size) if tag is not None else smallest(wire.known[None], layout)
        case n.Scaled(wire=number):
            return smallest(number, layout)
        case n.Sized(length=number) | n.Many(count=n.Varint() | n.Digits() as number):
            return smallest(number, layout)
        case n.Many(count=bytes() as end):
            return len(end)
        case n.Run(length=n.Int() | n.Varint() | n.Digits() as number, null=int()):
            return smallest(number, layout)
        case n.Run(length=n.Varint() | n.Digits() as number, least=least, end=end):
            return shortest(number) + least + len(end)
        case n.Run(length=bytes() as end, least=least):
            return least + len(end)
        case n.Run(length=n.Int(size=size), least=least, end=end):
            return size + least + len(end)
        case n.Run() | n.Cells() | n.Tags() | n.Word() | n.Body():
            return 0
        case n.Length(wire=inner):
            return inner.size
        case n.Nested(struct=struct):
            return sum(smallest(f.wire, layout) for f in struct_fields(struct, layout) if f.when is None)
        case n.Many(count=n.Int(size=size)):
            return size
        case n.Many(element=element, count=int() as count):
            return count * smallest(element, layout)
        case n.Many():
            return 0
        case _:
            raise AssertionError(f"{wire!r} is not a wire node")


@lru_cache(maxsize=1024)
def struct_fields(cls: Any, layout: Layout) -> tuple[n.Field, ...]:
    """The fields of a structure as this layout reads them."""
    return resolve_fields(cls, layout.options)


def _need(needed: int, available: int, path: str, at: int) -> None:
    if available < needed:
        raise Incomplete(
            f"the header goes on behind byte {available}",
            rule="frame_incomplete",
            path=path,
            offset=available,
            needed=needed,
            available=available,
        )


def _read_size(part: n.Size, data: Buffer, start: int, at: int, available: int, header: Header) -> int:
    """Sets the length of the frame; gives the position behind the length (and behind a mask key)."""
    if isinstance(part.wire, n.Escaped):
        value, behind = _read_escaped(part.wire, part.name, data, start, at, available, header)
    elif isinstance(part.wire, n.Varint | n.Digits):
        value, behind = _read_number(part, part.wire, data, start, at, available)
    else:
        _need(at + part.wire.size, available, part.name, at)
        value, behind = read_int(part.wire, data, start + at), at + part.wire.size
    _check_length(part, value, at)
    if header.mask_at is not None:
        _need(behind + 4, available, "mask_key", behind)
        behind += 4
    header.length = part.plus + (value if part.counts == "whole" else value + behind)
    return behind


def _check_length(part: n.Size, value: int, at: int) -> None:
    if value < part.least:
        raise LimitExceeded(
            f"length {value} is below {part.least}",
            rule=part.rule,
            path=part.name,
            offset=at,
            limit=part.least,
            actual=value,
        )
    if part.most is not None and value > part.most:
        raise LimitExceeded(
            f"length {value} is above the limit of {part.most}",
            rule=part.rule,
            path=part.name,
            offset=at,
            limit=part.most,
            actual=value,
        )


def _read_number(
    part: n.Size | n.Code, wire: n.Varint | n.Digits, data: Buffer, start: int, at: int, available: int
) -> tuple[int, int]:
    try:
        value, behind = read_numeral(wire, data, start + at, start + available, part.name)
    except Incomplete:
        _need(available + 1, available, part.name, at)
        raise
    except DecodeError as error:
        error.offset = at + (error.offset or 0)
        raise
    return value, behind - start


def _read_escaped(
    wire: n.Escaped, name: str, data: Buffer, start: int, at: int, available: int, header: Header
) -> tuple[int, int]:
    _need(at + 1, available, name, at)
    short: int = data[start + at]
    behind = at + 1
    if wire.mask_bit and short & wire.mask_bit:
        short &= ~wire.mask_bit
        header.mask_at = behind
    elif short & 0x80 and wire.escape < 0x80:
        raise BadValue("the mask bit is set", rule="mask_not_allowed", path=name, offset=at)
    if short in wire.reserved or short > max(wire.escape, 0x7F):
        raise BadValue(f"length code {short} does not exist", rule="length_code", path=name, offset=at)
    if short != wire.escape:
        if header.mask_at is not None:
            header.mask_at = behind
        return short, behind
    _need(behind + wire.wide.size, available, name, behind)
    value = read_int(wire.wide, data, start + behind)
    if value < wire.escape:
        raise BadValue(
            f"length {value} must be written in one byte", rule="length_not_minimal", path=name, offset=behind
        )
    behind += wire.wide.size
    if header.mask_at is not None:
        header.mask_at = behind
    return value, behind


def _read_head(part: n.Head, data: Buffer, start: int, at: int, header: Header) -> None:
    value = read_int(part.wire, data, start + at)
    if not part.least <= value <= part.most:
        raise LimitExceeded(
            f"header length {value} is not within {part.least}..{part.most}",
            rule="head_length",
            path=part.name,
            offset=at,
            limit=part.most,
            actual=value,
        )
    if value > header.length:
        raise BadValue(
            f"header length {value} is above the total length {header.length}",
            rule="head_length",
            path=part.name,
            offset=at,
        )
    if part.body_most is not None and header.length - value > part.body_most:
        raise LimitExceeded(
            f"body of {header.length - value} bytes is above the limit of {part.body_most}",
            rule="body_limit",
            path="body",
            offset=at,
            limit=part.body_most,
            actual=header.length - value,
        )
    header.head_end = value


def _judge_code(layout: Layout, header: Header, name: str, at: int) -> None:
    node = layout.other(header.code or 0)
    if node is None:
        raise unknown_code(header.code or 0, name, at)
    if header.head_end is not None and header.head_end < node.head_least and header.head_end != node.head_or:
        raise BadValue(
            f"{node.name} has a header of at least {node.head_least} bytes, this one has {header.head_end}",
            rule=node.head_rule,
            path="request_id",
            offset=at,
        )


def unknown_code(code: Any, name: str, at: int) -> DecodeError:
    if isinstance(code, tuple | bytes):
        shown = ".".join(map(str, code)) if isinstance(code, tuple) else repr(code[:40])
        return BadValue(f"{shown} is not a known {name}", rule="unknown_code", path=name, offset=at)
    return BadValue(f"{code} ({code:#x}) is not a known {name}", rule="unknown_code", path=name, offset=at)


def unmask(data: Buffer, start: int, header: Header) -> bytes:
    """The frame with its payload unmasked; the key stays where it was."""
    assert header.mask_at is not None
    frame = bytes(data[start : start + header.length])
    at = header.mask_at
    return frame[: at + 4] + apply_mask(frame[at + 4 :], frame[at : at + 4])


def apply_mask(payload: bytes, key: bytes) -> bytes:
    repeated = (key * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(payload), "big")
