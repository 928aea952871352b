"""Messages as lines of JSON, for the verbs that talk to servers. What ``subscribe`` prints, ``publish`` takes.

mb: ``{"topic", "payload"}`` where the payload is JSON, ``"text"`` instead of ``"payload"`` where it is other text, and
``"hex"`` where it is not even UTF-8. ceda: ``{"topic", "record"}``, the record as ``decode`` prints it, or, when it is
given, also as an object of values by number.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..codec.json import from_json, show_cell
from ..errors import EncodeError
from ..protocols import ceda
from ..spec.resolve import layout


@dataclass
class Outgoing:
    """A message to be sent: its topic (empty if the line has none), its payload, and what else the line says."""

    topic: str
    payload: Any
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Shape:
    """How the messages of a protocol are read and shown."""

    read: Callable[[dict[str, Any]], Outgoing]
    """An object of JSON -> a message to be sent. ValueError says what is wrong with it."""
    argument: Callable[[str], Any]
    """A payload on the command line -> what the client takes."""
    show: Callable[[Any], dict[str, Any]]
    """A message, a request or an answer -> an object of JSON."""


def parse_line(shape: Shape, line: str) -> Outgoing:
    try:
        given = json.loads(line)
    except ValueError as error:
        raise ValueError(f"is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ValueError("is no JSON object")
    topic = given.get("topic", "")
    if not isinstance(topic, str):
        raise ValueError('"topic" is text')
    return shape.read(given)


# --- mb


def _mb_read(given: dict[str, Any]) -> Outgoing:
    kinds = [key for key in ("payload", "text", "hex") if key in given]
    if len(kinds) > 1:
        raise ValueError(f"has {' and '.join(kinds)}: one of them is the payload")
    match kinds:
        case ["text"]:
            payload: Any = _text(given, "text").encode()
        case ["hex"]:
            payload = bytes.fromhex(_text(given, "hex"))
        case ["payload"]:
            payload = json.dumps(given["payload"], ensure_ascii=False, separators=(",", ":")).encode()
        case _:
            payload = b"{}"
    more = {"version": _text(given, "version")} if "version" in given else {}
    return Outgoing(given.get("topic", ""), payload, more)


def _mb_argument(text: str) -> bytes:
    """As it stands, also what is not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def _text(given: dict[str, Any], key: str) -> str:
    if not isinstance(given[key], str):
        raise ValueError(f'"{key}" is text')
    return str(given[key])


def _mb_show(message: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"topic": message.topic}
    try:
        text = message.payload.decode()
    except UnicodeDecodeError:
        shown["hex"] = message.payload.hex()
    else:
        try:
            shown["payload"] = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            shown["text"] = text
    shown["version"] = message.version
    return shown


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


# --- ceda


def _ceda_read(given: dict[str, Any]) -> Outgoing:
    more: dict[str, Any] = {key: _text(given, key) for key in ("server_id", "signal_id") if key in given}
    return Outgoing(given.get("topic", ""), read_record(given.get("record", [])), more)


def read_record(given: Any) -> Any:
    """A record as ``decode`` prints it, or values by number: ``{"1": 1.085, "3": "text"}``."""
    if isinstance(given, list):
        shown = {"message": "publish", "fields": {"topic": "", "record": given}}
        try:
            return from_json(layout(ceda.PROTOCOL, dialect="ceda4-ws"), shown).record
        except EncodeError as error:
            raise ValueError(f"{error.path}: {error.detail}") from None
    if not isinstance(given, dict):
        raise ValueError("the record is a list of fields, or an object of values by number")
    record = {}
    for key, value in given.items():
        if not key.isascii() or not key.isdigit():
            raise ValueError(f"{key!r} is no number of a field")
        if isinstance(value, bool) or not isinstance(value, int | float | str | None):
            raise ValueError(f"field {key}: {json.dumps(value)} is no number, no text and not null")
        record[int(key)] = value
    return record


def _ceda_argument(text: str) -> Any:
    try:
        return read_record(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"the record is JSON: {error}") from None


def _ceda_show(message: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"topic": message.topic}
    for name in ("server_id", "signal_id"):
        if getattr(message, name, ""):
            shown[name] = getattr(message, name)
    shown["record"] = [show_cell(ceda.RECORD, cell) for cell in message.cells]
    return shown


SHAPES = {
    "mb": Shape(_mb_read, _mb_argument, _mb_show),
    "ceda": Shape(_ceda_read, _ceda_argument, _ceda_show),
}
