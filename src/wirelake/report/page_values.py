"""Values that are short enough for a page."""

from __future__ import annotations

import json
from typing import Any

CELL = 300
FACTS = 2000


def cut(text: str, most: int = CELL) -> str:
    """A text, shortened in its middle: both ends of long names tell them apart."""
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def cell(value: Any) -> Any:
    """A value of a query as a value of JSON."""
    if isinstance(value, str):
        return _facts(value) if value.startswith("{") else cut(value)
    return value


def _facts(text: str) -> str:
    """A JSON object stays one."""
    if len(text) <= FACTS:
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return cut(text)
    short = {cut(str(key), 60): cut(str(value), 120) for key, value in list(found.items())[:16]}
    return json.dumps(short, ensure_ascii=False)


TEXT = 120
ITEMS = 12
DEPTH = 5


def short_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message as values of JSON: long texts and lists cut, deep ones closed."""
    return {cut(str(name), 80): _short(value, DEPTH) for name, value in list(fields.items())[:60]}


def _short(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return _number(value)
    if isinstance(value, bytes):
        return cut(value[: 2 * TEXT].hex(), TEXT) + (f" ({len(value)} bytes)" if len(value) > TEXT // 2 else "")
    if isinstance(value, str):
        return cut(value, TEXT)
    if depth and isinstance(value, dict):
        kept = {cut(str(key), 80): _short(inner, depth - 1) for key, inner in list(value.items())[:ITEMS]}
        return kept | ({"…": f"{len(value) - ITEMS} more"} if len(value) > ITEMS else {})
    if depth and isinstance(value, list | tuple):
        kept_items = [_short(inner, depth - 1) for inner in value[:ITEMS]]
        return kept_items + ([f"… {len(value) - ITEMS} more"] if len(value) > ITEMS else [])
    return cut(str(value), TEXT)


def _number(value: Any) -> Any:
    """A number that JSON and JavaScript can hold; others as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 1 << 53:
        return str(value)
    return value
