"""Values that are computed from a record instead of written in it."""

from __future__ import annotations

from typing import Any, assert_never

import msgspec

from . import nodes as n


def reach(record: Any, path: str) -> Any:
    """The value at a dotted path; None where something on the way is absent."""
    for name in path.split("."):
        if record is None:
            return None
        record = getattr(record, name)
    return record


def derive(how: n.Derived, record: Any) -> Any:
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
    """What the length field of the frame said."""
    length = int(record.wire_length)
    for part in record.layout.frame.parts:
        match part:
            case n.Magic(value=value):
                length -= len(value)
            case n.Size(wire=n.Escaped(wide=wide, escape=escape)):
                length -= 1 + (4 if record.mask_key is not None else 0)
                return length if length < escape else length - int(wide.size)
            case n.Size(counts="whole"):
                return int(record.wire_length)
            case n.Size(wire=wire):
                return length - int(wire.size)
            case n.Head(wire=wire) | n.Code(wire=wire):
                length -= wire.size
            case n.Kept(name=name):
                length -= len(getattr(record, name))
            case n.Line():
                pass
            case _:
                assert_never(part)
    return length


def looked_into(record: Any) -> bool:
    """Whether the views of the body were read."""
    for field in record.__wire_fields__:
        if isinstance(field.wire, n.Body):
            body = field.wire
            if body.opaque_if and reach(record, body.opaque_if):
                return False
            if not getattr(record, field.name):
                return not (body.empty == "absent" or (body.empty_if is not None and derive(body.empty_if, record)))
    return True
