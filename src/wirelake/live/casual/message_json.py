"""casual calls and messages as JSON lines: ``{"service", "value", "type", "code"}``, ``{"queue", "value", "type", …}``.

A buffer that is not JSON is ``"text"`` or ``"hex"`` instead of ``"value"``; none of them: there is no buffer.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from ...codec.content import FieldValue, show_cfield
from ..core.message_json import MessageJson, Outgoing, text_of
from .values import CSTRING, OCTETS, USUAL_JSON, to_buffer
from .wire import NO_BUFFER, Buffer

MORE: dict[str, Callable[[Any], Any]] = {
    "properties": str,
    "reply": str,
    "id": str,
    "available": datetime.fromisoformat,
    "timeout": float,
    "no_reply": bool,
}
"""What else of a line a request takes, and how it is read."""


def _read(given: dict[str, Any]) -> Outgoing:
    kinds = [key for key in ("value", "text", "hex") if key in given]
    if len(kinds) > 1:
        raise ValueError(f"has {' and '.join(kinds)}; give only one of them")
    kind = text_of(given, "type") if "type" in given else ""
    match kinds:
        case ["value"]:
            buffer = to_buffer(given["value"], kind or USUAL_JSON)
        case ["text"]:
            text = text_of(given, "text")
            is_plain = kind not in ("", CSTRING)
            buffer = Buffer(kind, text.encode()) if is_plain else to_buffer(text, CSTRING)
        case ["hex"]:
            buffer = Buffer(kind or OCTETS, bytes.fromhex(text_of(given, "hex")))
        case _:
            buffer = NO_BUFFER
    names = [text_of(given, key) for key in ("service", "queue", "topic") if key in given]
    more = {key: read(given[key]) for key, read in MORE.items() if key in given}
    return Outgoing(names[0] if names else "", buffer, more)


def _argument(text: str) -> Buffer:
    """A value on the command line is JSON; what is not JSON is text."""
    try:
        return to_buffer(json.loads(text), USUAL_JSON)
    except ValueError:
        return to_buffer(text, CSTRING)


def show_value(value: Any) -> dict[str, Any]:
    """Return how a value is shown: under ``value``, or ``hex`` for bytes."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, tuple) and value and isinstance(value[0], FieldValue):
        return {"value": show_cfield(value)}
    return {"value": value}


def _show(result: Any) -> dict[str, Any]:
    """Return a reply, a dequeued message or offers as a JSON object."""
    shown = {key: value for key, value in dataclasses.asdict(result).items() if value not in (None, "")}
    if not hasattr(result, "value"):
        return shown
    for key in ("value", "payload", "failed"):
        shown.pop(key, None)
    for key in ("available", "enqueued"):
        if key in shown:
            shown[key] = shown[key].isoformat()
    return {**show_value(result.value), **shown}


MESSAGE_JSON = MessageJson(
    _read,
    _argument,
    _show,
    echo=lambda asked: asked.value,
    names=("service", "queue", "topic", "value", "text", "hex", "type", *MORE),
    ignored=("enqueued", "redelivered", "code"),
    empty="null",
)
