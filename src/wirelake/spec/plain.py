"""What the generated decoder knows. The rest is for the exact readers, and mostly for the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from . import nodes as n
from .conduct import When
from .resolve import Layout, resolve_fields


@lru_cache(maxsize=256)
def beyond(layout: Layout) -> str:
    """Return what of a layout only the exact readers know, in words; empty if the compiled ones can read it, too."""
    return next(_beyond(layout), "")


def _beyond(layout: Layout) -> Iterator[str]:
    parts = layout.frame.parts
    if layout.others or layout.place:
        yield "several frames"
    if n.OTHER in layout.by_code:
        yield "a message for other codes"
    if layout.beginnings:
        yield "several codes"
    if not any(isinstance(part, n.Code | n.Line) for part in parts):
        yield "a frame without a code"
    kept = {part.name for part in parts if isinstance(part, n.Kept)}
    for part in parts:
        match part:
            case n.Trailer() | n.Until() | n.Ends() | n.Opaque():
                yield type(part).__name__
            case n.Kept(name=name) if name in layout.loose:
                yield "a field without a fixed size in the frame"
            case n.Size(wire=str() | n.By()):
                yield "a length that is a field of the header"
            case n.Line(skip=True):
                yield "words that are left out"
            case n.Size(wire=n.Escaped()) if not _ends_in_length_and_code(parts):
                yield "an escaped length that is not between magic and code"
            case n.Size(plus=plus) if plus:
                yield "plus= of a length"
            case n.Size(wire=n.Varint() | n.Digits()) | n.Code(wire=n.Bits() | n.Run() | n.Varint() | n.Digits()):
                yield type(part.wire).__name__
    for node in layout.nodes:
        if any(isinstance(made.how, n.Lookup) for made in node.derived):
            yield "Lookup"
        for field in node.fields:
            if field.name in kept and not isinstance(field.wire, n.Fixed):
                yield f"{type(field.wire).__name__} in the frame"
            if isinstance(field.wire, n.Length):
                yield "a length apart in a message"
        yield from _in_fields(layout, node.fields)


def _ends_in_length_and_code(parts: tuple[n.Part, ...]) -> bool:
    """Return whether a header has nothing but magic before its length, and its code behind it."""
    *magic, size, code = parts if len(parts) > 1 else (None, None)
    in_order = isinstance(size, n.Size) and isinstance(code, n.Code)
    return in_order and all(isinstance(part, n.Magic) for part in magic)


def _in_fields(layout: Layout, fields: tuple[n.Field, ...]) -> Iterator[str]:
    apart = {field.name for field in fields if isinstance(field.wire, n.Length)}
    always = {field.name for field in fields if isinstance(field.wire, n.Int) and field.when is None}
    for field in fields:
        if isinstance(field.when, When) and not (field.when.off and field.when.field in always):
            yield "When as the condition of a field"
        if isinstance(field.when, n.Every):
            yield "several conditions of a field"
        if isinstance(field.when, n.Begins):
            yield "a condition on the next bytes"
        if isinstance(field.wire, n.Length) and field.wire.since:
            yield "since= of a length"
        by = n.By.of(getattr(field.wire, "length", None))
        if by is not None and not (isinstance(field.wire, n.Run) and by == n.By(by.field) and by.field in apart):
            yield "a length in an earlier field"
        yield from _in_wire(layout, field.wire)


def _in_wire(layout: Layout, wire: Any) -> Iterator[str]:
    match wire:
        case n.Bits() | n.Varint() | n.Digits() | n.Constant() | n.Checksum() | n.Align() | n.Sized() | n.Choice():
            yield type(wire).__name__
        case n.Scaled(form=form) if form:
            yield "times as text"
        case n.Scaled(wire=inner):
            yield from _in_wire(layout, inner)
        case n.Run(length=int()):
            yield "values that are filled up"
        case n.Run(length=n.By()) | n.Many(count=n.By()):
            yield "a length that another number says"
        case n.Run(null=int()) | n.Many(null=int()):
            yield "a length that stands for no value"
        case n.Run(escapes=escapes) if escapes:
            yield "escapes"
        case n.Run(end=end) if end:
            yield "bytes behind a value"
        case n.Many(until=When()):
            yield "a list that ends with a certain element"
        case n.Many(count=str()):
            yield "a count in an earlier field"
        case n.Run(length=bytes()) | n.Many(count=bytes()):
            yield "bytes that end a value"
        case n.Run(length=n.Varint() | n.Digits() as number) | n.Many(count=n.Varint() | n.Digits() as number):
            yield type(number).__name__
        case n.Many(element=element):
            yield from _in_wire(layout, element)
        case n.Nested(struct=struct):
            yield from _in_fields(layout, resolve_fields(struct, layout.options))


def undissectable(layout: Layout) -> str:
    """Return what of a layout dissectors cannot read, in words; empty if they can read it all."""
    return next(_undissectable(layout), "")


def _undissectable(layout: Layout) -> Iterator[str]:
    for other in layout.others:
        yield from _undissectable(other)
    for node in layout.nodes:
        if any(isinstance(code, int) and _MOST_CODE < code != n.OTHER for code in node.codes):
            yield "codes above 53 bits"


_MOST_CODE = 1 << 53
"""Numbers in Lua are of double precision."""
