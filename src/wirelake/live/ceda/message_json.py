"""CEDA messages as JSON lines: ``{"topic", "record"}``, the record as ``decode`` prints it.

When it is given, a record may also be an object of values by number.
"""

from __future__ import annotations

import json
from typing import Any

from ...codec.json import from_json, show_cell
from ...errors import EncodeError
from ...protocols import ceda
from ...spec.resolve import layout
from ..core.message_json import MessageJson, Outgoing, text_of


def _read(given: dict[str, Any]) -> Outgoing:
    more: dict[str, Any] = {key: text_of(given, key) for key in ("server_id", "signal_id") if key in given}
    return Outgoing(given.get("topic", ""), read_record(given.get("record", [])), more)


def read_record(given: Any) -> Any:
    """Read a record as ``decode`` prints it, or values by number: ``{"1": 1.085, "3": "text"}``."""
    if isinstance(given, list):
        shown = {"message": "publish", "fields": {"topic": "", "record": given}}
        try:
            return from_json(layout(ceda.PROTOCOL, dialect="ceda4-ws"), shown).record
        except EncodeError as error:
            raise ValueError(f"{error.path}: {error.detail}") from None
    if not isinstance(given, dict):
        raise ValueError("the record must be a list of fields, or an object of values by number")
    record = {}
    for key, value in given.items():
        if not key.isascii() or not key.isdigit():
            raise ValueError(f"{key!r} is not a field number")
        if isinstance(value, bool) or not isinstance(value, int | float | str | None):
            raise ValueError(f"field {key}: {json.dumps(value)} is neither a number nor text nor null")
        record[int(key)] = value
    return record


def _argument(text: str) -> Any:
    try:
        return read_record(json.loads(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"the record must be JSON: {error}") from None


def _show(message: Any) -> dict[str, Any]:
    shown: dict[str, Any] = {"topic": message.topic}
    for name in ("server_id", "signal_id"):
        if getattr(message, name, ""):
            shown[name] = getattr(message, name)
    shown["record"] = [show_cell(ceda.RECORD, cell) for cell in message.cells]
    return shown


MESSAGE_JSON = MessageJson(
    _read, _argument, _show, echo=lambda asked: asked.cells, names=("topic", "record", "server_id", "signal_id")
)
