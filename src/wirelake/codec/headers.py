"""How long a frame is that may be decoded without further thought: headers, compiled."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, assert_never

from ..spec import nodes as n
from ..spec.plain import beyond
from ..spec.resolve import Layout, MessageNode
from .numbers import FORMATS, byte_order, code_bytes, code_position, unpacker

Measure = Callable[[bytes | bytearray, int, int], int]
NO_LIMIT = 1 << 62


class Shape:
    """A frame header of fixed size as one ``struct``: where each part is in what it unpacks."""

    def __init__(self, layout: Layout) -> None:
        parts = layout.frame.parts
        numbers = [part.wire for part in parts if isinstance(part, n.Size | n.Head | n.Code)]
        self.is_simple = (
            all(wire.size != 3 for wire in numbers) and len({byte_order(w) for w in numbers if w.size > 1}) <= 1
        )
        self.index: dict[n.Part, int] = {}
        if not self.is_simple:
            return
        form = next((byte_order(wire) for wire in numbers if wire.size > 1), ">")
        for part in parts:
            match part:
                case n.Magic(value=value):
                    form += f"{len(value)}s"
                case n.Size(wire=wire) | n.Head(wire=wire) | n.Code(wire=wire):
                    form += FORMATS[wire.size, wire.signed]
                case n.Kept():
                    form += f"{layout.part_size(part)}x"
                    continue
                case n.Line():
                    continue
                case n.Trailer() | n.Until() | n.Ends() | n.Opaque():
                    raise AssertionError(f"{part!r} is for the exact reader")
                case _:
                    assert_never(part)
            self.index[part] = len(self.index)
        self.marks = [(i, part.value) for part, i in self.index.items() if isinstance(part, n.Magic)]
        self.struct = struct.Struct(form)

    def place(self, kind: type) -> int:
        """Return where the part of this kind is, or -1."""
        return next((i for part, i in self.index.items() if isinstance(part, kind)), -1)

    def is_marked(self, values: tuple[Any, ...]) -> bool:
        """Return whether what was unpacked has the bytes of every magic."""
        return all(values[i] == value for i, value in self.marks)


def compile_measure(layout: Layout, undecided: tuple[Layout, ...] = ()) -> Measure:
    """A function ``(buffer, start, end) -> length``: of a frame that is all there and whose header is good, else 0."""
    size = next((p for p in layout.frame.parts if isinstance(p, n.Size)), None)
    if size is None or beyond(layout):
        return lambda buffer, start, end: 0
    if undecided:
        return _measure_undisputed(layout, undecided)
    if isinstance(size.wire, n.Escaped):
        return _measure_escaped(layout, size, size.wire)
    shape = Shape(layout)
    if not shape.is_simple:
        return lambda buffer, start, end: 0
    unpack, header_size = shape.struct.unpack_from, shape.struct.size
    least, most = size.least, size.most if size.most is not None else NO_LIMIT
    counted = 0 if size.counts == "whole" else layout.size_before(size) + layout.part_size(size)
    head = next((p for p in layout.frame.parts if isinstance(p, n.Head)), None)
    size_at, head_at, code_at = (shape.place(kind) for kind in (n.Size, n.Head, n.Code))
    marks, is_marked = shape.marks, shape.is_marked
    head_least = {code: node.head_least for code, node in layout.by_code.items()}
    body_most = (head.body_most if head is not None else None) or NO_LIMIT

    def measure(buffer: bytes | bytearray, start: int, end: int) -> int:
        if end - start < header_size:
            return 0
        values = unpack(buffer, start)
        value: int = values[size_at]
        if value < least or value > most or (marks and not is_marked(values)):
            return 0
        length = value + counted
        if length > end - start or length < header_size:
            return 0
        if head is not None:
            reach = values[head_at]
            if not head.least <= reach <= head.most or reach > length or length - reach > body_most:
                return 0
            if reach < head_least.get(values[code_at], NO_LIMIT):
                return 0
        return length

    return measure


def _measure_undisputed(layout: Layout, undecided: tuple[Layout, ...]) -> Measure:
    """Measures only what all layouts read alike."""
    measure = compile_measure(layout)
    part, start = code_position(layout)
    stop = start + part.wire.size
    known = {code_bytes(part, code) for code in undisputed(undecided)}
    lengths = [p.wire for p in layout.frame.parts if isinstance(p, n.Size)]
    short_at, escape = next(((start - 1, wire.escape) for wire in lengths if isinstance(wire, n.Escaped)), (0, 256))

    def measure_undisputed(buffer: bytes | bytearray, at: int, end: int) -> int:
        if bytes(buffer[at + start : at + stop]) not in known or buffer[at + short_at] >= escape:
            return 0
        return measure(buffer, at, end)

    return measure_undisputed


@lru_cache(maxsize=64)
def undisputed(layouts: tuple[Layout, ...]) -> frozenset[int]:
    """The messages that all layouts read alike where the frame's length is short; such a frame proves nothing."""
    first, *others = layouts
    if any(not _same_header(first, other) for other in others):
        return frozenset()
    return frozenset(
        code
        for code, node in first.by_code.items()
        if all(code in other.by_code and _same_fields(node, other.by_code[code]) for other in others)
    )


def _same_header(a: Layout, b: Layout) -> bool:
    """Whether headers with a short length are the same."""
    return [_short(part) for part in a.frame.parts] == [_short(part) for part in b.frame.parts]


def _short(part: n.Part) -> n.Part:
    if isinstance(part, n.Size) and isinstance(part.wire, n.Escaped):
        return replace(part, wire=replace(part.wire, wide=None, mask_bit=0))
    return part


def _same_fields(a: MessageNode, b: MessageNode) -> bool:
    """Whether a message is laid out the same (masks apart, which no short length announces)."""
    return [(f.name, f.wire) for f in a.fields if f.name != "mask_key"] == [
        (f.name, f.wire) for f in b.fields if f.name != "mask_key"
    ]


def _measure_escaped(layout: Layout, size: n.Size, wire: n.Escaped) -> Measure:
    magic = b"".join(p.value for p in layout.frame.parts if isinstance(p, n.Magic))
    at = len(magic)
    header = at + 1 + wire.wide.size
    read_wide = unpacker(wire.wide)
    least, most, escape = max(size.least, 1), size.most if size.most is not None else NO_LIMIT, wire.escape

    def measure(buffer: bytes | bytearray, start: int, end: int) -> int:
        if end - start <= at or not buffer.startswith(magic, start):
            return 0
        length: int = buffer[start + at]
        if least <= length < escape:
            length += at + 1
        elif length == escape and end - start >= header:
            (length,) = read_wide(buffer, start + at + 1)
            if not max(escape, least) <= length <= most:
                return 0
            length += header
        else:
            return 0
        return length if length <= end - start else 0

    return measure
