"""DSA values, lists and results as JSON lines: ``{"path", "value", "meta", "status"}``.

MessagePack has more than JSON: binary is ``{"$bin": hex}``, text that is not UTF-8 ``{"hex": hex}``, as ``decode``
prints it; both are read back.
"""

from __future__ import annotations

import json
from typing import Any

from ...codec.content import read_shown_free, show_free, show_text
from ..core.message_json import MessageJson, Outgoing
from .api import Result, Value
from .events import ABSENT, Listed
from .listing import Listing
from .wire import status_name


def _read(given: dict[str, Any]) -> Outgoing:
    topic = given.get("path", given.get("topic", ""))
    if not isinstance(topic, str):
        raise ValueError('"path" must be text')
    return Outgoing(topic, read_shown_free(given.get("value")))


def _argument(text: str) -> Any:
    """Return a value on the command line: JSON, or else the text as it is."""
    try:
        return read_shown_free(json.loads(text))
    except ValueError:
        return text


def _show(message: Any) -> dict[str, Any]:
    match message:
        case Value():
            return _show_value(message)
        case Result():
            shown = {"path": show_text(message.path), "value": show_free(message.value)}
            return shown | ({"refreshed": True} if message.is_refreshed else {})
        case Listing():
            return show_listing(message)
        case Listed():
            return show_update(message)
    return {"value": show_free(message)}


def _show_value(value: Value) -> dict[str, Any]:
    shown: dict[str, Any] = {"path": show_text(value.path)}
    if value.has_value:
        shown["value"] = show_free(value.value)
    if value.meta:
        shown["meta"] = show_free(value.meta)
    if value.error is not None:
        shown["error"] = value.error.rule
    return shown | {"status": value.status}


def show_listing(listing: Listing) -> dict[str, Any]:
    """Return a list as one object: metadata, attributes and children by their names."""
    entries = {**listing.metadata, **listing.attributes, **listing.children}
    return {
        "path": show_text(listing.path),
        "list": {_key(key): show_free(value) for key, value in entries.items()},
        "status": status_name(listing.status),
    }


def show_update(update: Listed) -> dict[str, Any]:
    """Return an update of a list: what changed, and what is gone."""
    shown: dict[str, Any] = {"path": show_text(update.stream.path)}
    if update.is_refreshed:
        shown["refreshed"] = True
    changed = {_key(key): show_free(value) for key, value in update.entries.items() if value is not ABSENT}
    gone = [_key(key) for key, value in update.entries.items() if value is ABSENT]
    shown["changed"] = changed
    if gone:
        shown["removed"] = gone
    return shown | {"status": status_name(update.status)}


def _key(key: str) -> str:
    """Return a key of a JSON object: text that is not UTF-8 is written as its bytes."""
    shown = show_text(key)
    return shown if isinstance(shown, str) else f"hex:{shown['hex']}"


MESSAGE_JSON = MessageJson(
    _read,
    _argument,
    _show,
    echo=lambda asked: asked.params,
    names=("path", "topic", "value"),
    ignored=("meta", "error", "status", "refreshed"),
    empty="null",
)
