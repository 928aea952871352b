"""What lies where in a frame, for people: the fields in the order of their bytes, and where the first fault is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..errors import DecodeError, Incomplete
from ..spec.nodes import Labels
from ..spec.resolve import Layout
from .content import dump_json, show_free, show_text
from .scales import show_time
from .walk import Seen, walk, walk_incomplete


@dataclass(frozen=True)
class Annotated:
    """A frame that was looked at. Without a message there is an error; what was seen before it is there."""

    message: Any
    seen: list[Seen]
    error: DecodeError | None


def annotate(layout: Layout, data: bytes) -> Annotated:
    """Every field of one frame, up to the byte that breaks a rule."""
    trace: list[Seen] = []
    message, error = None, None
    try:
        message = walk(layout, data, trace)
    except DecodeError as found:
        error = found
        if isinstance(found, Incomplete):
            found.message = found.message or walk_incomplete(layout, data, trace)
    return Annotated(message, _in_order(trace), error)


def _in_order(trace: list[Seen]) -> list[Seen]:
    """By place, what is around others before them; a body is left out if its fields are there."""
    views = any(seen.what == "body" for seen in trace[:-1])
    ordered = sorted(trace, key=lambda seen: (seen.offset, seen.length > 0, -seen.length))
    return [seen for seen in ordered if not (seen.what == "body" and views)]


def describe_value(value: Any, labels: Labels | None) -> str:
    """The value as a person reads it: with its name, text in quotes, long bytes short."""
    if labels is not None and isinstance(value, int):
        return f"{value} {_label(value, labels)}".rstrip()
    if isinstance(value, bytes):
        shown = value[:24].hex()
        text = f" {value.decode()!r}" if 0 < len(value) <= 48 and _printable(value) else ""
        return (shown if len(value) <= 24 else f"{shown}... ({len(value)} bytes)") + text
    if isinstance(value, str):
        return dump_json(show_text(value))[:100]
    if isinstance(value, dict | list):
        return dump_json(show_free(value))[:100]
    if isinstance(value, datetime):
        return show_time(value)
    return str(value)


def _printable(value: bytes) -> bool:
    return value.isascii() and value.decode().isprintable()


def _label(value: int, labels: Labels) -> str:
    if not labels.bits:
        return labels.names.get(value, "")
    names = [name for bit, name in labels.names.items() if value & bit]
    return " | ".join(names)
