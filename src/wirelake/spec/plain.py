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
    if not any(isinstance(part, n.Code | n.Line) for part in parts):
        yield "a frame without a code"
    kept = {part.name for part in parts if isinstance(part, n.Kept)}
    for part in parts:
        match part:
            case n.Trailer() | n.Until() | n.Ends():
                yield type(part).__name__
            case n.Size(plus=plus) if plus:
                yield "plus= of a length"
            case n.Size(wire=n.Varint() | n.Digits()) | n.Code(wire=n.Bits()):
                yield type(part.wire).__name__
    for node in layout.messages.values():
        for field in node.fields:
            if field.name in kept and not isinstance(field.wire, n.Fixed):
                yield f"{type(field.wire).__name__} in the frame"
        yield from _in_fields(layout, node.fields)


def _in_fields(layout: Layout, fields: tuple[n.Field, ...]) -> Iterator[str]:
    for field in fields:
        if isinstance(field.when, When):
            yield "When as the condition of a field"
        yield from _in_wire(layout, field.wire)


def _in_wire(layout: Layout, wire: Any) -> Iterator[str]:
    match wire:
        case n.Bits() | n.Varint() | n.Digits() | n.Constant() | n.Checksum() | n.Sized() | n.Choice():
            yield type(wire).__name__
        case n.Run(null=int()) | n.Many(null=int()):
            yield "a length that stands for no value"
        case n.Run(end=end) if end:
            yield "bytes behind a value"
        case n.Run(length=bytes()) | n.Many(count=bytes()):
            yield "bytes that end a value"
        case n.Run(length=n.Varint() | n.Digits() as number) | n.Many(count=n.Varint() | n.Digits() as number):
            yield type(number).__name__
        case n.Many(element=element):
            yield from _in_wire(layout, element)
        case n.Nested(struct=struct):
            yield from _in_fields(layout, resolve_fields(struct, layout.options))
