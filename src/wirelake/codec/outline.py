"""Whether a frame seems to begin somewhere, and how long it claims to be: quick, since a search asks at every byte.

``plausible`` and ``measure`` in frame.py define the answer. Here they are compiled for headers that are all there; for
one that is cut off, and for shapes that are too rare to compile, they are asked themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import assert_never

from ..errors import DecodeError, Incomplete
from ..spec import nodes as n
from ..spec.plain import beyond
from ..spec.resolve import Layout
from .frame import Buffer, least_payload, measure, plausible
from .headers import NO_LIMIT, Shape
from .numbers import code_bytes, code_position, unpacker
from .numerals import bits_of

Outline = Callable[[bytes | bytearray, int, int], int]
"""``(buffer, start, end)`` -> the length that a plausible frame at ``start`` claims, 0 if there is none, or UNKNOWN."""
UNKNOWN = -1
"""Too few bytes to tell."""
BROKEN = -2
MOST_KNOWN = 4096


class Outlines:
    """What the headers of these layouts look like: those that are possible at one moment of a stream."""

    def __init__(self, layouts: tuple[Layout, ...]) -> None:
        self.layouts = layouts
        self._outlines = tuple(map(compile_outline, layouts))
        self._only = self._outlines[0] if len(layouts) == 1 else None
        patterns = dict.fromkeys(map(_start_pattern, layouts))
        self.sieve = re.compile(b"(?s)(?=" + b"|".join(patterns) + b")")
        """The first bytes of a frame: what does not match is none; what matches with a group surely seems to be one."""
        self.width = max(map(_pattern_width, layouts))
        """The sieve looks no further than this many bytes."""
        self._header_bytes = min(map(_bytes_read, layouts)) and max(map(_bytes_read, layouts))
        self._known: dict[bytes, list[tuple[int, tuple[Layout, ...]]]] = {}
        """Claims by header, where that has a known size: a stream that looks like frames over and over has few."""

    def follows(self, buffer: bytes | bytearray, at: int, end: int) -> bool | None:
        """Whether a frame seems to begin at ``at``; None: too few bytes to tell."""
        if at + self.width <= end:
            match = self.sieve.match(buffer, at)
            if match is None or match.lastindex:
                return match is not None
        answer: bool | None = False
        for outline in self._outlines:
            length = outline(buffer, at, end)
            if length > 0:
                return True
            if length == UNKNOWN:
                answer = None
        return answer

    def claims(self, buffer: bytes | bytearray, at: int, end: int) -> list[tuple[int, tuple[Layout, ...]]]:
        """Return the lengths that a plausible frame at ``at`` may have, the shortest first, and who reads it so.

        UNKNOWN is a length, too, and comes first.
        """
        if self._only is not None:
            length = self._only(buffer, at, end)
            return [(length, self.layouts)] if length else []
        if not self._header_bytes or end - at < self._header_bytes:
            return self._read_claims(buffer, at, end)
        header = bytes(buffer[at : at + self._header_bytes])
        known = self._known.get(header)
        if known is None:
            known = self._read_claims(buffer, at, end)
            if len(self._known) < MOST_KNOWN:
                self._known[header] = known
        return known

    def _read_claims(self, buffer: bytes | bytearray, at: int, end: int) -> list[tuple[int, tuple[Layout, ...]]]:
        lengths = [outline(buffer, at, end) for outline in self._outlines]
        if lengths.count(lengths[0]) == len(lengths):
            return [(lengths[0], self.layouts)] if lengths[0] else []
        readers: dict[int, tuple[Layout, ...]] = {}
        for layout, length in zip(self.layouts, lengths, strict=True):
            if length:
                readers[length] = (*readers.get(length, ()), layout)
        return sorted(readers.items(), key=_length)


def _length(claim: tuple[int, tuple[Layout, ...]]) -> int:
    return claim[0]


@lru_cache(maxsize=128)
def outlines_for(layouts: tuple[Layout, ...]) -> Outlines:
    return Outlines(layouts)


# --- the length that a header claims


@lru_cache(maxsize=128)
def compile_outline(layout: Layout) -> Outline:
    size = next((part for part in layout.frame.parts if isinstance(part, n.Size)), None)
    if beyond(layout):
        return lambda buffer, start, end: _outline(layout, buffer, start, end)
    if size is not None and isinstance(size.wire, n.Escaped):
        return _escaped_outline(layout, size, size.wire)
    shape = Shape(layout)
    if size is None or not shape.is_simple:
        return lambda buffer, start, end: _outline(layout, buffer, start, end)
    return _fixed_outline(layout, size, shape)


def _outline(layout: Layout, buffer: Buffer, start: int, end: int) -> int:
    """The outline by definition."""
    answer = plausible(layout, buffer, start, end)
    if not answer:
        return UNKNOWN if answer is None else 0
    return measure(layout, buffer, start, end).length


def _least_payloads(layout: Layout) -> dict[bytes, int]:
    """The fewest bytes behind the frame header, by code as it is written."""
    part, _ = code_position(layout)
    return {code_bytes(part, code): least_payload(layout, node) for code, node in layout.by_code.items()}


def _bytes_read(layout: Layout) -> int:
    """Return how many bytes decide the outline, whatever follows them; 0 if that depends on the message."""
    size = next((part for part in layout.frame.parts if isinstance(part, n.Size)), None)
    if size is None or not isinstance(size.wire, n.Escaped) or beyond(layout):
        return 0
    part, code_at = code_position(layout)
    read: int = code_at + size.wire.wide.size + max(part.wire.size, 4)
    return read


def _escaped_outline(layout: Layout, size: n.Size, wire: n.Escaped) -> Outline:
    """Headers of magic, a length that is short or wide, and a code."""
    claim = compile_claim(layout)
    least_of = _least_payloads(layout).get
    part, code_at = code_position(layout)
    width, size_at, surplus = part.wire.size, code_at - 1, wire.wide.size
    whole = _bytes_read(layout)

    def outline(buffer: bytes | bytearray, start: int, end: int) -> int:
        if end - start < whole:
            return _outline(layout, buffer, start, end)
        length = claim(buffer, start, end)
        if length < 0:
            return 0
        short = buffer[start + size_at]
        if short & wire.mask_bit:
            return length
        at = code_at if short < wire.escape else code_at + surplus
        needed = least_of(bytes(buffer[start + at : start + at + width]))
        return 0 if needed is None or length - at - width < needed else length

    return outline


@lru_cache(maxsize=128)
def compile_claim(layout: Layout) -> Outline:
    """Return what tells the length that a header claims, whatever follows it; UNKNOWN, or below BROKEN by as many as
    bytes are good."""
    size = next((part for part in layout.frame.parts if isinstance(part, n.Size)), None)
    if size is None or not isinstance(size.wire, n.Escaped) or beyond(layout):
        return lambda buffer, start, end: _claim(layout, buffer, start, end)
    wire, escape = size.wire, size.wire.escape
    magic = b"".join(part.value for part in layout.frame.parts if isinstance(part, n.Magic))
    at = len(magic)
    behind: int = at + 1 + wire.wide.size
    read_wide = unpacker(wire.wide)
    least, most = size.least, size.most if size.most is not None else NO_LIMIT
    short_claims = [_claim(layout, magic + bytes([short]) + bytes(behind + 4), 0, behind + 4) for short in range(256)]

    def claim(buffer: bytes | bytearray, start: int, end: int) -> int:
        if end - start < behind + 4 or not buffer.startswith(magic, start):
            return _claim(layout, buffer, start, end)
        short = buffer[start + at]
        if short & ~wire.mask_bit != escape:
            return short_claims[short]
        length: int = read_wide(buffer, start + at + 1)[0]
        if length < escape:
            return BROKEN - at - 1
        if not least <= length <= most:
            return BROKEN - at
        return behind + length if short == escape else behind + 4 + length

    return claim


def _claim(layout: Layout, buffer: Buffer, start: int, end: int) -> int:
    """The claim by definition."""
    try:
        return measure(layout, buffer, start, end).length
    except Incomplete:
        return UNKNOWN
    except DecodeError as error:
        return BROKEN - (error.offset or 0)


def _fixed_outline(layout: Layout, size: n.Size, shape: Shape) -> Outline:
    """Headers of a fixed size."""
    by_kind = {type(part): part for part in layout.frame.parts}
    head, code, line = (by_kind.get(kind) for kind in (n.Head, n.Code, n.Line))
    unpack, width = shape.struct.unpack_from, shape.struct.size
    size_at, head_at, code_at = map(shape.place, (n.Size, n.Head, n.Code))
    marks, is_marked = shape.marks, shape.is_marked
    counted = 0 if size.counts == "whole" else layout.size_before(size) + layout.part_size(size)
    least, most = size.least, size.most if size.most is not None else NO_LIMIT
    payloads = {number: width + least_payload(layout, node) for number, node in layout.by_code.items()}
    heads = {number: (node.head_least, node.head_or) for number, node in layout.by_code.items()}
    words = re.compile(_word_pattern(layout, line)) if isinstance(line, n.Line) else None
    longest = _pattern_width(layout) - width
    judges_head = isinstance(code, n.Code) and code.early and 0 <= head_at < code_at
    body_most = head.body_most if isinstance(head, n.Head) and head.body_most is not None else NO_LIMIT

    def outline(buffer: bytes | bytearray, start: int, end: int) -> int:
        if end - start < width:
            return _outline(layout, buffer, start, end)
        values = unpack(buffer, start)
        length: int = values[size_at]
        if not least <= length <= most or (marks and not is_marked(values)):
            return 0
        length += counted
        if head_at >= 0:
            reach = values[head_at]
            if not head.least <= reach <= head.most or reach > length or length - reach > body_most:  # type: ignore[union-attr]
                return 0
        if code_at >= 0:
            if length < payloads.get(values[code_at], NO_LIMIT):
                return 0
            if judges_head:
                shortest, other = heads[values[code_at]]
                return 0 if reach < shortest and reach != other else length
            return length
        stop = min(end, start + length)
        if stop - start - width < longest:
            return _outline(layout, buffer, start, end)
        return length if words is None or words.match(buffer, start + width) is not None else 0

    return outline


# --- the first bytes


def _start_pattern(layout: Layout) -> bytes:
    """What the first bytes of a frame look like."""
    if beyond(layout):
        return _loose_pattern(layout)
    pattern = b""
    for part in layout.frame.parts:
        match part:
            case n.Magic(value=value):
                pattern += re.escape(value)
            case n.Size(wire=n.Escaped() as wire):
                return pattern + _escaped_pattern(layout, part, wire)
            case n.Size(wire=wire, most=most) | n.Head(wire=wire, most=most):
                pattern += _bounded(wire, most)
            case n.Code():
                pattern += _any_of(code_bytes(part, code) for code in layout.by_code)
            case n.Kept():
                pattern += b".{%d}" % layout.part_size(part)
            case n.Line():
                pattern += _word_pattern(layout, part)
            case n.Trailer() | n.Until() | n.Ends() | n.Opaque():
                raise AssertionError(f"{part!r} is for the exact reader")
            case _:
                assert_never(part)
    return pattern


def _loose_pattern(layout: Layout) -> bytes:
    """What the first bytes look like, as far as they have a fixed place."""
    if layout.others:
        return b"(?:" + b"|".join(map(_loose_parts, layout.tried)) + b")"
    return _loose_parts(layout)


def _loose_parts(layout: Layout) -> bytes:
    pattern = b""
    for part in layout.frame.parts:
        match part:
            case n.Magic(value=value):
                pattern += re.escape(value)
            case n.Code(wire=n.Run(length=end)) if n.OTHER not in layout.by_code:
                return pattern + _any_of(key + end for key in layout.by_code)
            case n.Code() if n.OTHER in layout.by_code:
                break
            case n.Code(wire=n.Int()) if layout.beginnings:
                return pattern + _any_of(code_bytes(part, code) for code in {key[0] for key in layout.by_code})
            case n.Code() if layout.beginnings:
                break
            case n.Code(wire=n.Int()):
                pattern += _any_of(code_bytes(part, code) for code in layout.by_code)
            case n.Code(wire=n.Bits(wire=n.Int(size=1)) as bits):
                return pattern + _one_byte_of(byte for byte in range(256) if bits_of(bits, byte) in layout.by_code)
            case n.Line() if layout.takes_any:
                break
            case n.Line(separator=separator, end=end):
                words = _any_of(node.word.encode() for node in layout.nodes)
                return pattern + (b"(?i:" + words + b")" if part.fold else words) + _any_of((separator, end))
            case n.Size(wire=n.Digits(base=10, low=low)):
                return pattern + (b"[0-9]" if low >= 0 else b"[-0-9]")
            case n.Size(wire=n.Int(size=size)) | n.Head(wire=n.Int(size=size)):
                pattern += b".{%d}" % size
            case n.Kept(name=name) if name not in layout.loose:
                pattern += b".{%d}" % layout.part_size(part)
            case _:
                break
    return pattern or b"."


def _any_of(choices: Iterable[bytes]) -> bytes:
    return b"(?:" + b"|".join(map(re.escape, choices)) + b")"


def _one_byte_of(values: Iterable[int]) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % value for value in values) + b"]"


def _word_pattern(layout: Layout, line: n.Line) -> bytes:
    words = _any_of(node.word.encode() for node in layout.nodes)
    return (b"(?i:" + words + b")" if line.fold else words) + re.escape(line.separator)


def _escaped_pattern(layout: Layout, size: n.Size, wire: n.Escaped) -> bytes:
    """A short length that the code behind it allows, a wide one and a code, or a mask bit."""
    least_of = _least_payloads(layout)
    choices = []
    for least in sorted(set(least_of.values())):
        codes = [code for code, needed in least_of.items() if needed == least]
        fewest = max(size.least, len(codes[0]) + least)
        lengths = [length for length in range(fewest, wire.escape) if length not in wire.reserved]
        if lengths:
            choices.append(b"(" + _one_byte_of(lengths) + _any_of(codes) + b")")
    choices.append(_one_byte_of([wire.escape]) + b".{%d}" % wire.wide.size + _any_of(least_of))
    if wire.mask_bit:
        choices.append(_one_byte_of(value for value in range(256) if value & wire.mask_bit))
    return b"(?:" + b"|".join(choices) + b")"


def _bounded(wire: n.Int, most: int | None) -> bytes:
    """Any value of this width, with the zeros that a limit leaves."""
    zeros = 0 if most is None else wire.size - (most.bit_length() + 7) // 8
    rest = b".{%d}" % (wire.size - zeros)
    return rest + b"\\x00" * zeros if wire.little else b"\\x00" * zeros + rest


def _pattern_width(layout: Layout) -> int:
    if beyond(layout):
        return max(_loose_width(each) for each in (layout, *layout.others))
    width = layout.size_before()
    for part in layout.frame.parts:
        if isinstance(part, n.Line):
            width += max(len(node.word) for node in layout.nodes) + len(part.separator)
        elif isinstance(part, n.Size) and isinstance(part.wire, n.Escaped):
            width += part.wire.wide.size
    return width


def _loose_width(layout: Layout) -> int:
    """Return how far the pattern of the first bytes looks at most."""
    texts = [len(key) for key in layout.by_code if isinstance(key, bytes)]
    ends = [len(p.wire.length) for p in layout.frame.parts if isinstance(p, n.Code) and isinstance(p.wire, n.Run)]
    lines = [p for p in layout.frame.parts if isinstance(p, n.Line)]
    if lines:
        longest = max(len(node.word) for node in layout.nodes) + max(len(lines[0].separator), len(lines[0].end))
        return layout.size_before() + longest
    return max(layout.size_before() + (max(texts) + max(ends) if ends else 0), 1)
