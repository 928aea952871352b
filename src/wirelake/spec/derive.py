"""Values that are computed from a record instead of written in it."""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from . import nodes as n
from .resolve import Layout


def reach(record: Any, path: str) -> Any:
    """Return the value at a dotted path; None where something on the way is absent."""
    for name in path.split("."):
        if record is None:
            return None
        record = getattr(record, name)
    return record


def derive(how: n.Derived, record: Any) -> Any:
    """Return a derived value of a record."""
    match how:
        case n.FrameLength(less=less):
            return record.wire_length - (len(reach(record, less) or b"") if less else 0)
        case n.PayloadLength():
            return payload_length(record)
        case n.LengthOf(field=name):
            return len(reach(record, name) or b"")
        case n.AtLeast(field=name, limit=limit):
            return (reach(record, name) or 0) >= limit
        case n.Present(field=name):
            return reach(record, name) is not msgspec.UNSET if looked_into(record) else None
        case n.Empty(field=name):
            return reach(record, name) is msgspec.UNSET
        case n.OrderOf(field=name):
            return list(reach(record, name).order)
        case n.Wide(limit=limit):
            return payload_length(record) >= limit
        case n.Masked():
            return record.mask_key is not None
        case _:
            assert_never(how)


def payload_length(record: Any) -> int:
    """Return what the length field of the frame said."""
    layout: Layout = record.layout
    length = whole = int(record.wire_length)
    for part in layout.frame.parts:
        length -= layout.part_size(part)
        match part:
            case n.Size(wire=n.Escaped(wide=wide, escape=escape)):
                length -= 4 if record.mask_key is not None else 0
                return length if length < escape else length - int(wide.size)
            case n.Size(counts=counts):
                return whole if counts == "whole" else length
    return length


def looked_into(record: Any) -> bool:
    """Return whether the views of the body were read."""
    field = next((f for f in record.__wire_fields__ if isinstance(f.wire, n.Body)), None)
    if field is None:
        return True
    body: n.Body = field.wire
    if body.opaque_if and reach(record, body.opaque_if):
        return False
    if getattr(record, field.name):
        return True
    return not (body.empty == "absent" or (body.empty_if is not None and derive(body.empty_if, record)))
