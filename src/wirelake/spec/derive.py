"""Values that are computed from a record instead of written in it."""

from __future__ import annotations

from functools import lru_cache
from string import ascii_uppercase
from typing import Any, assert_never

import msgspec

from . import nodes as n
from .conditions import holds
from .resolve import Layout
from .states import state_name


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
        case n.Lookup(field=name):
            return found(how, getattr(record, name))
        case _:
            assert_never(how)


def found(how: n.Lookup, elements: Any) -> Any:
    """Return what a list says under a key; None if it says nothing, or no number where there must be one."""
    for element in elements or ():
        cls: Any = type(element)
        names = element_names(cls)
        if is_key(how, getattr(element, names[0])):
            value = getattr(element, how.value or names[1])
            if how.fold and isinstance(value, str | bytes):
                value = _trimmed(value)
            if not how.number or isinstance(value, int) or value is None:
                return value
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
    return None


def is_key(how: n.Lookup, given: Any) -> bool:
    """Return whether an element's first field is the key that is looked up."""
    if how.fold and isinstance(given, str | bytes):
        return any(_folded(given) == _folded(key) for key in how.keys)
    return given in how.keys


def _folded(text: Any) -> Any:
    """Return a key as it is compared: only the capitals of ASCII have small letters."""
    trimmed = _trimmed(text)
    return trimmed.translate(_SMALL) if isinstance(trimmed, str) else trimmed.lower()


def _trimmed(text: Any) -> Any:
    return text.strip(" \t") if isinstance(text, str) else text.strip(b" \t")


_SMALL = {ord(capital): capital.lower() for capital in ascii_uppercase}
MOST_DIGITS = 18
"""Numbers of more digits may not fit in a column."""


@lru_cache(maxsize=256)
def element_names(cls: Any) -> tuple[str, ...]:
    """Return the fields of an element of a list, in wire order: the first one is its key."""
    return tuple(f.name for f in cls.__wire_fields__ if not isinstance(f.wire, n.Length | n.WireOnly))


def next_state(message: Any) -> str:
    """Return which frames may come behind a message of one side; empty where that stays as it is."""
    for places, when in message.__message__["then"]:
        if when is None or holds(when, _value(message, when.field)):
            return state_name(places)
    return ""


def _value(message: Any, path: str) -> Any:
    """Return the value of a field, or of a computed one."""
    how = next((made.how for made in message.__derived_fields__ if made.name == path), None)
    return reach(message, path) if how is None else derive(how, message)


def payload_length(record: Any) -> int:
    """Return what the length field of the frame said."""
    layout: Layout = record.layout.at(record.layout.of(record))
    length = whole = int(record.wire_length)
    for part in layout.frame.parts:
        length -= layout.part_size(part)
        match part:
            case n.Size(wire=n.Escaped(wide=wide, escape=escape)):
                length -= 4 if getattr(record, "mask_key", None) is not None else 0
                return length if length < escape else length - int(wide.size)
            case n.Size(counts=counts, plus=plus):
                return (whole if counts == "whole" else length) - plus
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
