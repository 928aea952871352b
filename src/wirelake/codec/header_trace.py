"""What the parts of a frame's header are: for annotated hex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from ..errors import DecodeError
from ..spec import nodes as n
from ..spec.resolve import Layout
from .frame import Header, code_width, read_code, read_int
from .numerals import read_numeral

See = Callable[[str, int, int, Any, str], None]
"""Takes a name, an offset, a length, a value, and what it is."""


def trace_header(layout: Layout, data: bytes, header: Header, see: See) -> None:
    """Show the parts of a header that are there. Whoever reads the fields of a message shows those."""
    at = 0
    for part in layout.frame.parts:
        if isinstance(part, n.Kept) and part.name in layout.loose:
            if part.name not in (header.sizes or {}):
                return  # the header is not all there
            at += (header.sizes or {})[part.name]
            continue
        is_bits = isinstance(part, n.Code) and isinstance(part.wire, n.Bits)
        width = code_width(part.wire) if is_bits else layout.part_size(part)  # type: ignore[union-attr]
        if at + width > len(data):
            return
        match part:
            case n.Size(name=name, wire=n.Escaped() as escaped):
                value, size = data[at] & ~escaped.mask_bit, 1
                if value == escaped.escape:
                    value, size = read_int(escaped.wide, data, at + 1), 1 + escaped.wide.size
                if at + size > len(data):
                    return
                see(name, at, size, value, "length")
                at += size
                if header.mask_at is not None:
                    see(escaped.mask_key, at, 4, data[at : at + 4], "mask key, payload shown unmasked")
                    at += 4
                continue
            case n.Magic(value=magic, name=name):
                see(name, at, len(magic), magic, "magic")
            case n.Size(wire=str() | n.By()):
                pass
            case n.Size(name=name, wire=n.Varint() | n.Digits() as number):
                try:
                    value, behind = read_numeral(number, data, at, len(data), name)
                except DecodeError:
                    return
                see(name, at, behind - at, value, "length")
                at = behind
                continue
            case n.Size(name=name, wire=wire) | n.Head(name=name, wire=wire):
                see(name, at, wire.size, read_int(wire, data, at), "length")
            case n.Code(name=name, wire=n.Varint() | n.Digits() as number):
                try:
                    value, behind = read_numeral(number, data, at, len(data), name)
                except DecodeError:
                    return
                known = layout.other(value)
                see(name, at, behind - at, value, known.name if known else "unknown")
                at = behind
                continue
            case n.Code(name=name, wire=n.Run(length=end)):
                size = max(0, data.find(end, at) - at)
                see(name, at, size, data[at : at + size].decode("latin-1"), "text")
                at += size + len(end)
                continue
            case n.Code(name=name, wire=wire) if layout.beginnings:
                place = [p for p in layout.frame.parts if isinstance(p, n.Code)].index(part)
                if place >= len(header.key or ()):
                    continue
                see(name, at, code_width(wire), header.key[place], "code")
            case n.Code(name=name, wire=wire):
                code = read_code(wire, data, at)
                node = layout.other(code)
                size = wire.size if isinstance(wire, n.Int) else wire.wire.size
                see(name, at, size, code, node.name if node else "unknown")
            case n.Kept() | n.Line() | n.Trailer() | n.Until() | n.Ends() | n.Opaque():
                pass
            case _:
                assert_never(part)
        at += layout.part_size(part)
